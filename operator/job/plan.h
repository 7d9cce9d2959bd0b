// A decision as data, which Reconciler::execute() carries out. With `delete_job` it deletes the job and does nothing
// else. Otherwise it writes the status first, so that whatever a later write relies on (the incarnation, an attempt) is
// persisted when it happens. A status that cannot be written ends the execution. The rest follows in this order:
//
//   events        only with a written status
//   notice        only if it differs from the notice of the last plan
//   forget        the coordinator drops the job
//   coordinator   its new plan
//   child writes  by the executor: deletes, the Service, creates, moves, opens; after a failed batch not before backoff
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
  std::string resource_version{};           // precondition: nothing may have happened to it since; "" for none

  bool operator==(const PodToDelete&) const = default;
};

struct PodToCreate {
  int slot = 0;
  std::int64_t incarnation = 0;
  std::vector<std::string> avoid_nodes{};  // if it can be had anywhere else
  std::string node{};                      // that placement gave to it; "": kube-scheduler chooses
  bool gated = false;                      // kube-scheduler leaves it alone until the gate is removed

  bool operator==(const PodToCreate&) const = default;
};

// A gated pod whose annotation is rewritten, because placement chose another node.
struct PodToMove {
  std::string name, uid;
  std::string from, to;  // nodes

  bool operator==(const PodToMove&) const = default;
};

// A gated pod whose gate is removed, and that can be bound to its node alone from then on.
struct PodToOpen {
  std::string name, uid;
  int slot = 0;
  std::string node;                // its annotation
  std::size_t gate = 0;            // place of ours in api::Pod::gates
  bool has_node_affinity = false;  // api::Pod::has_node_affinity

  bool operator==(const PodToOpen&) const = default;
};

struct EventToSend {
  bool warning = false;
  std::string reason;  // CamelCase
  std::string action;  // what the controller did: CamelCase
  std::string note;

  bool operator==(const EventToSend&) const = default;
};

// What the controller does about the job's headless Service.
enum class ServiceStep {
  kNone,
  kLook,    // checks that no other job has its name
  kCreate,  // before it creates pods of the same plan
};

struct Plan {
  std::optional<api::TrainingJobStatus> status;  // to write; empty: as it is
  bool delete_job = false;                       // its time to live is over
  std::vector<PodToDelete> deletes;
  ServiceStep service = ServiceStep::kNone;
  std::vector<PodToCreate> creates;
  std::vector<PodToMove> moves;
  std::vector<PodToOpen> opens;
  std::optional<rendezvous::JobPlan> coordinator;  // for set_job()
  bool forget = false;                             // for forget_job()
  std::vector<EventToSend> events;                 // only after the status was written
  // Something lasts of which the status says nothing. Sent when it begins or changes, not with each plan that has it.
  std::optional<EventToSend> notice;
  std::optional<Duration> requeue_after;

  bool writes_children() const {
    return service != ServiceStep::kNone || !deletes.empty() || !creates.empty() || !moves.empty() || !opens.empty();
  }
  // Asks for another look in at most `wait`; the earliest of all wishes counts.
  void look_again_in(Duration wait) {
    if (wait < Duration::zero()) wait = Duration::zero();
    if (!requeue_after || wait < *requeue_after) requeue_after = wait;
  }
};

}  // namespace lockstep::job
