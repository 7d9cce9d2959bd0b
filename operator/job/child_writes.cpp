#include "operator/job/child_writes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "operator/base/log.h"
#include "operator/job/predecessor.h"

namespace lockstep::job {
namespace {

// What the API server will say again however often it is asked.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kForbidden || code == ErrorCode::kAlreadyExists;
}

// Whether the API server answered, and so did not carry out the write.
bool was_refused(ErrorCode code) {
  return code != ErrorCode::kUnavailable && code != ErrorCode::kDeadlineExceeded && code != ErrorCode::kCancelled &&
         code != ErrorCode::kInternal && code != ErrorCode::kCorrupt;
}

// Whether the API server turned the write away without a look at the object. That says nothing of an earlier try whose
// answer was lost.
bool was_turned_away(ErrorCode code) {
  return code == ErrorCode::kTooManyRequests || code == ErrorCode::kForbidden || code == ErrorCode::kUnauthorized;
}

// Whether `test`s of a JSON patch hold for an object.
bool conditions_hold(const kube::Json& patch, const kube::Json& object) {
  return std::all_of(patch.begin(), patch.end(), [&](const kube::Json& operation) {
    if (operation["op"] != "test") return true;
    const kube::Json::json_pointer path(operation["path"].get<std::string>());
    return object.contains(path) && object.at(path) == operation["value"];
  });
}

// Whether the opening was carried out: the same pod, on the same node, has no gate.
bool is_open(const kube::Json& object, const PodToOpen& opening) {
  const auto pod = api::parse_pod(object);
  return pod && pod->meta.uid == opening.uid && pod->reserved_node == opening.node && pod->has_node_affinity &&
         std::find(pod->gates.begin(), pod->gates.end(), api::kPlacementGate) == pod->gates.end();
}

Status status_of(const Result<std::optional<api::ObjectMeta>>& written) {
  if (!written) return written.error();
  return {};
}

}  // namespace

std::string resource_version_of(const kube::Json& object) {
  auto meta = api::parse_meta(object);
  return meta ? meta->resource_version : std::string();
}

ChildWrites::ChildWrites(const Tools& tools, AgentNow agent, Placement placement, bool run_as_non_root,
                         std::shared_ptr<const api::TrainingJob> job, const Plan& plan)
    : tools_(tools),
      agent_(std::move(agent)),
      placement_(std::move(placement)),
      job_(std::move(job)),
      deletes_(plan.deletes),
      service_(plan.service),
      creates_(plan.creates),
      moves_(plan.moves),
      opens_(plan.opens),
      run_as_non_root_(run_as_non_root) {}

std::set<std::size_t> ChildWrites::barriers() const {
  const std::size_t first_pod = deletes_.size() + services();
  const std::size_t first_move = first_pod + creates_.size();
  return {1, deletes_.size(), first_pod, first_pod + 1, first_move, first_move + moves_.size()};
}

Status ChildWrites::write(std::size_t i) {
  if (i < deletes_.size()) {
    auto removed = remove_pod(deletes_[i]);
    if (removed || !is_refusal(removed.error().code)) return removed;
    const std::lock_guard guard(mutex_);
    outcome_.error = removed.error();  // of this pod alone
    return {};
  }
  i -= deletes_.size();
  if (i < services()) return judge("Service", service_name(*job_), write_service());
  i -= services();
  if (i < creates_.size()) {
    const auto& wanted = creates_[i];
    const std::string name = pod_name(*job_, wanted.slot, wanted.incarnation);
    // The executor queues the job when the batch has ended.
    if (wanted.node.empty() || wanted.gated) {
      if (wanted.gated && !placement_.gives(wanted)) return {};
      return judge("Pod", name, create_pod(wanted));
    }
    const placement::Opening opening{.slot = wanted.slot, .pod = placed_name(name), .uid = {}, .node = wanted.node};
    return judge("Pod", name, place(opening, [&] { return create_pod(wanted); }));
  }
  i -= creates_.size();
  if (i < moves_.size()) return status_of(patch_pod(moves_[i].name, move_pod(moves_[i]), "moving"));
  const PodToOpen& pod = opens_[i - moves_.size()];
  const placement::Opening opening{.slot = pod.slot, .pod = placed_name(pod.name), .uid = pod.uid, .node = pod.node};
  return status_of(place(opening, [&] { return open_pod(pod); }));
}

Result<ChildWrites::Written> ChildWrites::place(const placement::Opening& opening,
                                                const std::function<Result<Written>()>& write) {
  if (!placement_.open(opening)) return Written();
  struct Told {
    ~Told() { access.opened(of, uid, resource_version); }
    decltype(placement_)& access;
    const placement::Opening& of;
    std::string uid;
    std::optional<std::string> resource_version;  // "": the write failed; empty: its answer was lost
  } told{placement_, opening, "", std::nullopt};
  auto written = write();
  if (written && *written) {
    told.uid = (*written)->uid;
    told.resource_version = (*written)->resource_version;
  } else if (written ||
             (was_refused(written.error().code) && (opening.uid.empty() || !was_turned_away(written.error().code)))) {
    told.resource_version = "";  // an earlier create would answer that the pod exists
  }
  return written;
}

ChildWrites::Outcome ChildWrites::outcome() const {
  const std::lock_guard guard(mutex_);
  Outcome outcome = outcome_;
  outcome.run_as_non_root = run_as_non_root_;
  return outcome;
}

Status ChildWrites::judge(const char* kind, const std::string& name, const Result<Written>& created) {
  const std::lock_guard guard(mutex_);
  if (created) {
    outcome_.created = outcome_.created || *created;
    return {};
  }
  const Error& error = created.error();
  if (is_refusal(error.code)) {
    outcome_.refusal = CreateProblem{.kind = kind,
                                     .name = name,
                                     .code = error.code,
                                     .message = error.message,
                                     .last = tools_.clock.wall_now(),
                                     .times = 0,
                                     .job_generation = job_->meta.generation};
    if (error.code == ErrorCode::kAlreadyExists && *kind == 'P') return {};  // the next name may be free
    return error;
  }
  if (error.code == ErrorCode::kTooManyRequests) return error;  // made again
  outcome_.error = error.in(std::string("creating ") + kind + " " + name);
  if (error.code == ErrorCode::kConflict) return {};  // of this object alone
  return *outcome_.error;
}

Status ChildWrites::remove_pod(const PodToDelete& removal) {
  const kube::DeleteOptions options{.uid = removal.uid,
                                    .resource_version = removal.resource_version,
                                    .grace_period_seconds = removal.grace_period_seconds,
                                    .bulk = true};
  const auto removed = tools_.api.remove(kube::kPods, job_->meta.name_space, removal.name, options);
  // Something happened to it since, so the decision is outdated.
  if (!removed && removed.error().code == ErrorCode::kConflict && !removal.resource_version.empty()) return {};
  // Gone already, or the name has been taken by another pod: what was asked for has happened.
  if (!removed && removed.error().code != ErrorCode::kNotFound && removed.error().code != ErrorCode::kConflict) {
    return removed.error().in("deleting pod " + removal.name);
  }
  log::info("pod deleted", {{"job", job_->meta.key().text()}, {"pod", removal.name}, {"why", removal.why}});
  if (removed) tools_.pods_deleted.increment();
  tools_.own_writes.deleted(job_->meta.key(), kPodCache, removal.uid);
  return {};
}

Result<ChildWrites::Written> ChildWrites::open_pod(const PodToOpen& opening) {
  std::optional<kube::Json> live;
  if (opening.has_node_affinity) {
    auto found = tools_.api.get(kube::kPods, job_->meta.name_space, opening.name);
    if (!found && found.error().code == ErrorCode::kNotFound) return Written();
    if (!found) return found.error();
    live = *std::move(found);
  }
  LOCKSTEP_TRY(const auto patch, job::open_pod(opening, live ? &*live : nullptr));
  return patch_pod(opening.name, patch, "opening", [&](const kube::Json& pod) { return is_open(pod, opening); });
}

Result<ChildWrites::Written> ChildWrites::patch_pod(const std::string& name, const kube::Json& patch, const char* doing,
                                                    const std::function<bool(const kube::Json& pod)>& made) {
  auto written =
      tools_.api.patch(kube::kPods, job_->meta.name_space, name, kube::PatchType::kJson, patch, "", {.bulk = true});
  if (written) {
    LOCKSTEP_TRY(auto meta, api::parse_meta(*written));
    tools_.own_writes.wrote(job_->meta.key(), kPodCache, meta.resource_version);
    return Written(std::move(meta));
  }
  Error error = written.error();
  if (error.code == ErrorCode::kNotFound || error.code == ErrorCode::kConflict) return Written();
  if (error.code == ErrorCode::kTooManyRequests) return error;  // made again
  if (error.code == ErrorCode::kInvalid) {
    const auto live = tools_.api.get(kube::kPods, job_->meta.name_space, name);
    if (!live && live.error().code == ErrorCode::kNotFound) return Written();
    if (live && made && made(*live)) {
      LOCKSTEP_TRY(auto meta, api::parse_meta(*live));
      return Written(std::move(meta));
    }
    if (live && !conditions_hold(patch, *live)) return Written();
    if (!live) error = live.error();  // what became of the pod is not known
  }
  const std::lock_guard guard(mutex_);
  outcome_.error = error.in(fmt::format("{} pod {}", doing, name));
  return *outcome_.error;
}

Result<kube::Json> ChildWrites::make_pod(const PodToCreate& wanted, bool run_as_non_root) {
  AgentSettings settings = agent_();
  settings.run_as_non_root = run_as_non_root;
  std::shared_ptr<const PodMaker> maker;
  {
    const std::lock_guard guard(mutex_);
    if (maker_ == nullptr || maker_->settings() != settings) {
      LOCKSTEP_TRY(PodMaker made, PodMaker::of(*job_, std::move(settings)));
      maker_ = std::make_shared<const PodMaker>(std::move(made));
    }
    maker = maker_;
  }
  return maker->pod(wanted);
}

Result<ChildWrites::Written> ChildWrites::create_pod(const PodToCreate& wanted) {
  const bool strict = run_as_non_root_;
  LOCKSTEP_TRY(const auto pod, make_pod(wanted, strict));
  auto created = create_one(kube::kPods, kPodCache, pod);
  // A namespace that enforces the `restricted` standard says so in its refusal; no right to read namespaces is needed.
  if (created || strict || created.error().code != ErrorCode::kForbidden ||
      created.error().message.find("runAsNonRoot") == std::string::npos) {
    return created;
  }
  LOCKSTEP_TRY(const auto strict_pod, make_pod(wanted, true));
  created = create_one(kube::kPods, kPodCache, strict_pod);
  if (created) run_as_non_root_ = true;
  return created;
}

Result<ChildWrites::Written> ChildWrites::create_one(const kube::Resource& resource, const char* cache,
                                                     const kube::Json& object) {
  const auto key = job_->meta.key();
  LOCKSTEP_TRY(const auto wanted, api::parse_meta(object));
  auto created = tools_.api.create(resource, job_->meta.name_space, object, {.strict = true, .bulk = true});
  if (created) {
    LOCKSTEP_TRY(auto meta, api::parse_meta(*created));
    tools_.own_writes.wrote(key, cache, meta.resource_version);
    if (resource == kube::kPods) {
      tools_.pods_created.increment();
      log::info("pod created", {{"job", key.text()}, {"pod", wanted.name}});
    }
    return Written(std::move(meta));
  }
  if (created.error().code != ErrorCode::kAlreadyExists) return created.error();
  // Either an earlier try of ours succeeded and its answer was lost, or the name is somebody else's.
  auto existing = tools_.api.get(resource, job_->meta.name_space, wanted.name);
  if (!existing && existing.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kConflict, wanted.name + " went away while it was looked at");
  }
  if (!existing) return existing.error();
  LOCKSTEP_TRY(auto meta, api::parse_meta(*existing));
  const bool mine = meta.controller_uid() == job_->meta.uid &&
                    meta.label(api::kLabelSlot) == wanted.label(api::kLabelSlot) &&
                    meta.label(api::kLabelIncarnation) == wanted.label(api::kLabelIncarnation);
  if (!mine && resource == kube::kServices) return take_over_service(*existing, meta, object);
  if (!mine) return fail(ErrorCode::kAlreadyExists, wanted.name + " belongs to another object");
  // One of ours that is going away shows up in the cache as a loss and is dealt with there.
  tools_.own_writes.wrote(key, cache, meta.resource_version);
  return Written(std::move(meta));
}

Result<ChildWrites::Written> ChildWrites::write_service() {
  if (service_ == ServiceStep::kLook) {
    const auto there = tools_.api.get(kube::kServices, job_->meta.name_space, service_name(*job_));
    if (!there && there.error().code == ErrorCode::kNotFound) return Written();
    if (!there) return there.error();
  }
  return create_one(kube::kServices, kServiceCache, build_service(*job_));
}

Result<ChildWrites::Written> ChildWrites::take_over_service(kube::Json existing, const api::ObjectMeta& meta,
                                                            const kube::Json& wanted) {
  LOCKSTEP_TRY(const bool left, left_by_predecessor(tools_.api, meta, job_->meta.name, job_->meta.uid));
  // A cluster IP cannot be taken from a Service that has one.
  if (!left || existing["spec"].value("clusterIP", "None") != "None") {
    return fail(ErrorCode::kAlreadyExists, meta.name + " belongs to another object");
  }
  for (const char* part : {"labels", "ownerReferences"}) existing["metadata"][part] = wanted["metadata"][part];
  for (const auto& [field, value] : wanted["spec"].items()) existing["spec"][field] = value;
  LOCKSTEP_TRY(const auto written, tools_.api.replace(kube::kServices, meta.name_space, meta.name, existing));
  tools_.own_writes.wrote(job_->meta.key(), kServiceCache, resource_version_of(written));
  log::info("took over the Service of a job that is gone", {{"job", job_->meta.key().text()}, {"service", meta.name}});
  return Written(meta);
}

}  // namespace lockstep::job
