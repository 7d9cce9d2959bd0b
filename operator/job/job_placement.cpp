#include "operator/job/job_placement.h"

#include <utility>

#include <fmt/format.h>

#include "operator/api/lookup.h"
#include "operator/job/children.h"
#include "operator/job/placement_constraint.h"
#include "operator/job/placement_policy.h"

namespace lockstep::job {
namespace {

using api::SchedulingBackend;

}  // namespace

JobPlacement::JobPlacement(PlacementDesk* desk, kube::Api& api, const Clock& clock, placement::Profile topology,
                           JobPlacementOptions options)
    : desk_(desk), classes_(api, clock), topology_(std::move(topology)), options_(std::move(options)) {}

Result<std::optional<Placing>> JobPlacement::ask(const Snapshot& snapshot) {
  const api::TrainingJob& job = *snapshot.job;
  const auto& wanted = job.spec.scheduling.backend;
  const bool placed = wanted ? *wanted == SchedulingBackend::kLockstep : options_.backend != DefaultBackend::kNone;
  if (!placed) {
    forget(job.meta.uid);
    return std::optional<Placing>();
  }
  if (desk_ == nullptr) {
    if (!wanted && options_.backend == DefaultBackend::kAuto) return std::optional<Placing>();
    return std::optional(Placing{.refusal = options_.unavailable});
  }
  if (!wants_nodes(snapshot)) {
    forget(job.meta.uid);
    return std::optional(Placing{});
  }
  Request request = request_of(job);
  const auto priority = classes_.value_of(request.priority_class);
  if (!priority && priority.error().code != ErrorCode::kNotFound) return priority.error();
  const bool class_may_come = !priority && request.refusal.empty();
  if (class_may_come) request.refusal = priority.error().message;
  if (!request.refusal.empty()) {
    desk_->withdraw(job.meta.uid);
    return std::optional(Placing{.refusal = std::move(request.refusal), .may_end = class_may_come});
  }
  placement::Gang gang = gang_of(snapshot);
  gang.constraint = request.constraint;
  gang.priority = *priority;
  gang.timeout = std::chrono::seconds(job.spec.placement.gang_timeout_seconds);
  Placing placing{.answer = desk_->ask(job.meta.key(), std::move(gang), request.shape)};
  if (placing.answer) {
    placing.level_name = placing.answer->wait.level ? level_name(*placing.answer->wait.level) : "";
    placing.spanned = placing.answer->where ? level_name(placing.answer->where->level_spanned) : "";
  }
  return std::optional(std::move(placing));
}

bool JobPlacement::gives(const std::string& uid, int slot, const std::string& node) {
  return desk_ != nullptr && desk_->gives(uid, slot, node);
}

bool JobPlacement::open(const std::string& uid, const placement::Opening& opening) {
  return desk_ != nullptr && desk_->open(uid, opening);
}

void JobPlacement::opened(const placement::Opening& opening, const std::string& pod_uid,
                          const std::optional<std::string>& resource_version) {
  if (desk_ != nullptr) desk_->opened(opening, pod_uid, resource_version);
}

void JobPlacement::forget(const std::string& uid) {
  if (desk_ != nullptr) desk_->withdraw(uid);
  const std::lock_guard guard(mutex_);
  requests_.erase(uid);
}

std::string JobPlacement::why_not(const api::TrainingJob& job) const {
  const bool would = !job.spec.scheduling.backend && options_.backend == DefaultBackend::kAuto;
  return would ? options_.unavailable : "";
}

JobPlacement::Request JobPlacement::request_of(const api::TrainingJob& job) {
  {
    const std::lock_guard guard(mutex_);
    const auto known = requests_.find(job.meta.uid);
    if (known != requests_.end() && known->second.generation == job.meta.generation) return known->second;
  }
  Request request = make_request(job);
  const std::lock_guard guard(mutex_);
  return requests_.insert_or_assign(job.meta.uid, std::move(request)).first->second;
}

JobPlacement::Request JobPlacement::make_request(const api::TrainingJob& job) const {
  Request request{.generation = job.meta.generation};
  const auto constraint = constraint_of(job.spec, topology_);
  if (!constraint) {
    request.refusal = constraint.error().message;
    return request;
  }
  request.constraint = *constraint;
  // All pods of a job need the same. What cannot be built is refused where pods are created, with the same sentence.
  const auto pod =
      build_pod(job, {.slot = 0, .incarnation = 1}, {.image = "agent", .coordinator_address = "0.0.0.0:1"});
  const auto shape = pod ? placement::shape_of(*pod) : Result<placement::Shape>(pod.error());
  if (!shape) {
    request.refusal = shape.error().message;
    return request;
  }
  request.shape = *shape;
  request.priority_class = api::text_of(api::at(api::at(*pod, "spec"), "priorityClassName"));
  return request;
}

std::string JobPlacement::level_name(int level) const {
  const auto& levels = topology_.levels;
  if (level < 0) return "cluster";
  return level < static_cast<int>(levels.size()) ? levels[static_cast<std::size_t>(level)].name
                                                 : std::string(api::kNodeLevel);
}

}  // namespace lockstep::job
