// What placement says of a job at this moment, from a fresh reading of the cluster. Writes nothing.
#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/cli/cluster_reading.h"
#include "operator/placement/shortage.h"

namespace lockstep::cli {

struct GangVerdict {
  ClusterReading reading;
  int missing = 0;                 // pods of the gang that are not bound; 0: `verdict` says nothing
  placement::Verdict verdict;      // on the missing pods; of an elastic gang on as many of them as would start
  std::vector<std::string> notes;  // what else to know, half a sentence each
};

// Pods of the job that are bound stay where they are; its other pods count as not there. kInvalid: the spec names a
// level that the profile lacks, or no pod can be built from it.
Result<GangVerdict> judge_gang(kube::Api& api, const api::TrainingJob& job, const ProfileChoice& choice);

}  // namespace lockstep::cli
