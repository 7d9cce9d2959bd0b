// A decision as data. The reconciler carries it out in the order of the fields: the status first, so that whatever a
// later write relies on (the incarnation, an attempt) is already persisted when it happens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {

struct PodToDelete {
  std::string name;
  std::string uid;                          // precondition
  std::optional<int> grace_period_seconds;  // empty: the pod's own; 0: by force
  std::string why;                          // for the log

  bool operator==(const PodToDelete&) const = default;
};

struct PodToCreate {
  int slot = 0;
  std::int64_t incarnation = 0;
  std::vector<std::string> avoid_nodes{};  // if it can be had anywhere else

  bool operator==(const PodToCreate&) const = default;
};

struct EventToSend {
  bool warning = false;
  std::string reason;  // CamelCase
  std::string action;  // what the controller did: CamelCase
  std::string note;

  bool operator==(const EventToSend&) const = default;
};

struct Plan {
  std::optional<api::TrainingJobStatus> status;  // to write; empty: as it is
  bool delete_job = false;                       // its time to live is over
  std::vector<PodToDelete> deletes;
  bool create_service = false;
  std::vector<PodToCreate> creates;
  std::optional<rendezvous::JobPlan> coordinator;  // for set_job()
  bool forget = false;                             // for forget_job()
  std::vector<EventToSend> events;                 // only after the status was written
  std::optional<Duration> requeue_after;

  // Asks for another look in at most `wait`; the earliest of all wishes counts.
  void look_again_in(Duration wait) {
    if (wait < Duration::zero()) wait = Duration::zero();
    if (!requeue_after || wait < *requeue_after) requeue_after = wait;
  }
};

}  // namespace lockstep::job
