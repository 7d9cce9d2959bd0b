// What ended a generation, and what is done about it. The coordinator, the pod and its node each tell a part, in any
// order; where a part is missing that will be there soon, the failure is judged later.
#pragma once

#include <optional>

#include "operator/job/course.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// Only a member that is silent for longer, on a node that is called healthy, has its pod replaced for silence alone.
// The API server learns of a dead node after its controller manager's grace period (40 to 50 s).
inline constexpr auto kSilence = std::chrono::seconds(60);

struct Finding {
  std::optional<api::Attempt> attempt;               // what ended the generation, once that can be told
  std::optional<Duration> ask_again{};               // the reason of a stop may be known then
  const rendezvous::Failure* awaits_word = nullptr;  // a member fell silent: its pod or node will say more
};

// Nothing where no generation has ended. Of the snapshot's, which must have a view.
Finding find_failure(const Snapshot& snapshot, const Course& course);

// Judges the failure that ended a generation, if one did: the job ends, or an attempt follows.
Course handle_failure(const Snapshot& snapshot, Course course);

}  // namespace lockstep::job
