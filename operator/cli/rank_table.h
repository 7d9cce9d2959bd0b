// Which pod has which ranks, by the record that the coordinator keeps of the job's newest generation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/cli/cluster_commands.h"
#include "operator/rendezvous/roster.h"

namespace lockstep::cli {

// The slot of a pod of a job by its labels, and how many pods the slot had before.
rendezvous::Place place_of(const api::Pod& pod);

// The ranks of the newest generation. Without places: none was formed yet. kForbidden: the caller may not read the
// ConfigMap of the record.
Result<rendezvous::Roster> ranks_of(const Target& target, const api::TrainingJob& job);

// RANKS, POD and NODE in order of rank, the first few of a large gang; empty where there are no ranks. A pod that is
// gone is "-".
std::string rank_table(const rendezvous::Roster& ranks, const std::vector<api::Pod>& pods);

// The table of that job, or a sentence that says why there is none; empty before the first generation and after the
// last.
std::string ranks_in_words(const Target& target, const api::TrainingJob& job);

}  // namespace lockstep::cli
