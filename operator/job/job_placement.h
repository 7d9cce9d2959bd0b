// Turns a job into a question to the placement desk, and the desk's answer into what decide() reads.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/base/result.h"
#include "operator/job/placement_desk.h"
#include "operator/job/priority.h"
#include "operator/job/snapshot.h"
#include "operator/kube/api.h"
#include "operator/placement/profile.h"

namespace lockstep::job {

// What places the pods of jobs without scheduling.backend.
enum class DefaultBackend {
  kAuto,      // this operator, where it may see all nodes and pods
  kLockstep,  // this operator; where it may not see them, such jobs wait
  kNone,      // kube-scheduler, one by one
};

struct JobPlacementOptions {
  DefaultBackend backend = DefaultBackend::kAuto;
  // Why this operator places no pods: one sentence without a full stop; empty: it can.
  std::string unavailable;
};

class JobPlacement {
 public:
  // `desk` is null where `unavailable` says why; it places by the levels of `topology`. The references outlive this.
  JobPlacement(PlacementDesk* desk, kube::Api& api, const Clock& clock, placement::Profile topology,
               JobPlacementOptions options);

  // What placement says of the job; empty: kube-scheduler places its pods, one by one. May ask the API server for the
  // priority classes, whose errors are returned. Any thread.
  Result<std::optional<Placing>> ask(const Snapshot& snapshot);
  // Whether placement still gives `node` to a slot of the job of this uid. Any thread.
  bool gives(const std::string& uid, int slot, const std::string& node);
  // PlacementDesk::open() and opened(). Any thread.
  bool open(const std::string& uid, const placement::Opening& opening);
  void opened(const placement::Opening& opening, const std::string& pod_uid,
              const std::optional<std::string>& resource_version);
  // The job is gone; "" where it never asked. Any thread.
  void forget(const std::string& uid);
  // Why kube-scheduler places the job though the operator would; "" where that is not so.
  std::string why_not(const api::TrainingJob& job) const;

 private:
  // What of a question follows from the spec alone.
  struct Request {
    std::int64_t generation = 0;  // metadata.generation that it was made for
    placement::Shape shape;
    placement::Constraint constraint;
    std::string priority_class;  // of its pods; spec.podTemplate may name it
    std::string refusal;         // why the job cannot be placed as it asks
  };

  Request request_of(const api::TrainingJob& job);
  Request make_request(const api::TrainingJob& job) const;
  std::string level_name(int level) const;

  PlacementDesk* const desk_;
  PriorityClasses classes_;
  const placement::Profile topology_;
  const JobPlacementOptions options_;
  std::mutex mutex_;
  std::map<std::string, Request> requests_;  // by uid; protected by mutex_
};

}  // namespace lockstep::job
