#include "tests/operator/job/world.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "operator/base/timestamp.h"
#include "operator/job/job_status.h"
#include "operator/job/located_node.h"
#include "operator/rendezvous/gang_choice.h"
#include "tests/operator/job/job_states.h"

namespace lockstep::job {

using api::Json;
using rendezvous::Phase;

constexpr const char* kDeadSign = "label:example.com/dead";

// By the rules of coordinator.h, over the World's gang.
class World::ScriptedCoordinator final : public rendezvous::Coordinator {
 public:
  explicit ScriptedCoordinator(World& world) : world_(world) {}

  void set_job(const rendezvous::JobPlan& plan) override {
    plan_ = plan;
    const auto stored = handled_generation(world_.job().status);
    if (plan.handled_generation > stored) {
      world_.violations.push_back(
          fmt::format("generation {} was passed on, {} is stored", plan.handled_generation, stored));
    }
    step();
  }
  void forget_job(const std::string&) override { plan_.reset(); }
  std::optional<rendezvous::JobView> view(const std::string&) const override {
    if (!plan_) return std::nullopt;
    const Gang& gang = world_.gang;
    rendezvous::JobView view;
    view.generation = gang.generation;
    view.phase = gang.stopped               ? Phase::kStopped
                 : gang.finished            ? Phase::kFinished
                 : gang.over                ? Phase::kWaiting
                 : gang.failure.has_value() ? Phase::kBroken
                                            : Phase::kUp;
    if (view.phase == Phase::kBroken) view.failure = gang.failure;
    for (const auto& member : plan_->members) {
      const auto pod = world_.pod_of_uid(member.pod_uid);
      const bool silent = gang.silent.count(member.slot) != 0 && gang.silent.at(member.slot);
      const bool connected = pod && world_.works(*pod) && !silent;
      const auto in_gang = gang.uid_of_slot.find(member.slot);
      const bool takes_part = !gang.over && in_gang != gang.uid_of_slot.end() && in_gang->second == member.pod_uid;
      view.members.push_back({member.slot, member.incarnation, connected, takes_part, takes_part, member.leaving,
                              world_.gang_holds_state && connected});
    }
    if (view.phase == Phase::kUp && gang.generation > 1) {
      view.times = {.after = gang.generation - 1, .into = gang.generation, .agree_ms = 20, .start_ms = 300};
    }
    view.message = "waiting";
    view.progress.step = gang.generation * 10;
    return view;
  }
  std::string address() const override { return "127.0.0.1:7077"; }
  Status use_certificate(const rendezvous::KeyPair&) override { return {}; }

  void step() {
    if (!plan_) return;
    Gang& gang = world_.gang;
    if (plan_->stop) {
      gang.stopped = true;
      gang.over = true;
      return;
    }
    if (gang.stopped) gang = Gang{.generation = gang.generation};
    if (gang.finished) return;
    std::vector<rendezvous::Candidate> present;
    std::map<int, std::string> uids;
    std::set<std::string> expected, leaving;
    for (const auto& member : plan_->members) {
      expected.insert(member.pod_uid);
      if (member.leaving) leaving.insert(member.pod_uid);
      if (member.leaving || member.slot >= plan_->slots + plan_->spares) continue;
      const auto pod = world_.pod_of_uid(member.pod_uid);
      if (!pod || !world_.works(*pod) || gang.silent[member.slot]) continue;
      const auto before = gang.uid_of_slot.find(member.slot);
      uids[member.slot] = member.pod_uid;
      present.push_back({member.slot, before != gang.uid_of_slot.end() && before->second == member.pod_uid});
    }
    const auto size = static_cast<size_t>(plan_->slots);
    std::map<int, std::string> members;  // of the next generation
    for (const int slot : rendezvous::choose_gang(present, size)) members[slot] = uids[slot];
    const bool whole = members.size() == size;
    const bool all_expected = std::all_of(gang.uid_of_slot.begin(), gang.uid_of_slot.end(),
                                          [&](const auto& entry) { return expected.count(entry.second) != 0; });
    const bool active = !gang.over && !gang.failure;
    const bool nobody_leaves = std::none_of(gang.uid_of_slot.begin(), gang.uid_of_slot.end(),
                                            [&](const auto& entry) { return leaving.count(entry.second) != 0; });
    const bool resized = active && whole && nobody_leaves && members.size() != gang.uid_of_slot.size();
    if (!gang.over && (plan_->handled_generation >= gang.generation || (active && !all_expected) || resized)) {
      gang.over = true;
      gang.failure.reset();
    }
    if (gang.over && whole) {
      gang.generation = std::max(gang.generation, plan_->handled_generation) + 1;
      gang.uid_of_slot = members;
      gang.over = false;
    }
    if (gang.over || gang.failure) return;
    for (const auto& [slot, uid] : gang.uid_of_slot) {
      const auto pod = world_.pod_of_uid(uid);
      if (pod && world_.works(*pod) && !gang.silent[slot]) continue;
      if (leaving.count(uid) == 0) return world_.break_gang(api::Cause::kMemberLost, slot, {});
      gang.over = true;  // it has left, and the others go on
    }
  }

 private:
  World& world_;
  std::optional<rendezvous::JobPlan> plan_;
};

struct World::Operator {
  explicit Operator(World& world)
      : coordinator(world),
        own_writes(world.clock),
        sickness(world.clock),
        deaths(world.clock),
        executor(world.clock, world.metrics, {.most = 0}),
        reconciler(world.mortal, Caches{&jobs, &pods, &nodes, &services}, coordinator, own_writes, executor,
                   world.clock, world.metrics, ReconcilerOptions{.agent = {}, .sickness = &sickness, .deaths = &deaths},
                   [&world](const api::TrainingJob&, const EventToSend& event) { world.events.push_back(event); }) {
    own_writes.add_cache(kJobCache, control::view_of(jobs));
    own_writes.add_cache(kPodCache, control::view_of(pods));
    own_writes.add_cache(kServiceCache, control::view_of(services));
  }
  cache::Store<api::TrainingJob> jobs;
  cache::Store<api::Pod> pods{[](const api::Pod& pod) { return std::vector{owner_index(pod.meta)}; }};
  cache::Store<api::Node> nodes;
  cache::Store<ServiceRecord> services{
      [](const ServiceRecord& service) { return std::vector{owner_index(service.meta)}; }};
  ScriptedCoordinator coordinator;
  control::OwnWrites own_writes;
  SicknessWatch sickness;
  SicknessWatch deaths;
  std::map<std::string, std::string> sick_pods;  // uid -> node
  Executor executor;
  Reconciler reconciler;
  std::uint64_t synced = 0;  // version of the store that the caches hold
};

World::World() {
  for (int number = 0; number < 3; ++number) {
    const Json node{{"apiVersion", "v1"},
                    {"kind", "Node"},
                    {"metadata", {{"name", fmt::format("node-{}", number)}}},
                    {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
    (void)api.create(kube::kNodes, "", node);
    set_node(number, true);
  }
}

World::~World() = default;

void World::create_job(const std::function<void(api::TrainingJob&)>& change) {
  api::TrainingJob job;
  job.meta.name = "a";
  job.meta.name_space = "default";
  job.spec.image = "image";
  job.spec.command = {"train"};
  job.spec.nodes = 3;
  if (change) change(job);
  Json object{{"apiVersion", kube::kTrainingJobs.api_version()},
              {"kind", kube::kTrainingJobs.kind},
              {"metadata", {{"name", "a"}, {"namespace", "default"}}},
              {"spec", api::to_json(job.spec)}};
  if (auto created = api.create(kube::kTrainingJobs, "default", object); !created)
    violations.push_back(created.error().message);
}

void World::look() {
  if (seen_ == api.version()) return;
  seen_ = api.version();
  const auto object = api.get(kube::kTrainingJobs, "default", "a");
  job_ = object ? api::parse_training_job(*object).value_or({}) : api::TrainingJob{};
  pods_.clear();
  const auto page = api.list(kube::kPods, {.name_space = "default"});
  for (const Json& item : page->items) pods_.push_back(*api::parse_pod(item));
}

api::TrainingJob World::job() {
  look();
  return job_;
}

std::vector<api::Pod> World::pods() {
  look();
  return pods_;
}

std::optional<api::Pod> World::pod_of_uid(const std::string& uid) {
  look();
  for (const auto& pod : pods_) {
    if (pod.meta.uid == uid) return pod;
  }
  return std::nullopt;
}

bool World::works(const api::Pod& pod) {
  if (pod.phase != "Running" || pod.meta.deleted) return false;
  return std::none_of(dead_nodes_.begin(), dead_nodes_.end(),
                      [&](int n) { return pod.node_name == fmt::format("node-{}", n); });
}

void World::set_pod_status(const std::string& name, const std::function<void(Json&)>& change) {
  auto object = api.get(kube::kPods, "default", name);
  if (!object) return;
  change((*object)["status"]);
  if (auto written = api.replace(kube::kPods, "default", name, *object, "status"); !written)
    violations.push_back(written.error().message);
}

void World::move() {
  for (const auto& pod : pods()) {
    const auto& name = pod.meta.name;
    const bool on_dead_node = std::any_of(dead_nodes_.begin(), dead_nodes_.end(),
                                          [&](int n) { return pod.node_name == fmt::format("node-{}", n); });
    if (on_dead_node) continue;
    if (pod.meta.deleted) {
      (void)api.remove(kube::kPods, "default", name, {.grace_period_seconds = 0});
    } else if (pod.node_name.empty()) {
      // The slot decides, so that the place does not depend on the order of creation.
      const int first = std::stoi(pod.meta.label(api::kLabelSlot)) % 3;
      int place = -1;
      for (int i = 2; i >= 0; --i) place = node_ready((first + i) % 3) ? (first + i) % 3 : place;
      // It is told which nodes to avoid, and takes them where there is no other.
      const auto has_sign = [&](int n) { return called_dead_.count(fmt::format("node-{}", n)) != 0; };
      for (int n = 0; n < 3 && place >= 0 && has_sign(place); ++n) place = node_ready(n) && !has_sign(n) ? n : place;
      if (place < 0) continue;
      auto object = api.get(kube::kPods, "default", name);
      (*object)["spec"]["nodeName"] = fmt::format("node-{}", place);
      if (auto bound = api.replace(kube::kPods, "default", name, *object); !bound)
        violations.push_back(bound.error().message);
    } else if (pod.phase.empty() || pod.phase == "Pending") {
      set_pod_status(name, [](Json& status) {
        status["phase"] = "Running";
        status["conditions"] =
            Json::array({{{"type", "Ready"}, {"status", "True"}}, {{"type", "PodScheduled"}, {"status", "True"}}});
      });
    } else if (pod.phase == "Running" && (gang.finished || gang.stopped)) {
      set_pod_status(name, [&](Json& status) { status["phase"] = "Succeeded"; });
    }
  }
  if (operator_) operator_->coordinator.step();
}

void World::sync() {
  if (operator_->synced == api.version()) return;
  operator_->synced = api.version();
  const auto fill = [&](const kube::Resource& resource, auto& store, const auto& parse) {
    auto page = api.list(resource, {});  // of every namespace, as the operator's watches have them
    std::vector<typename std::decay_t<decltype(*parse(Json()))>> objects;
    for (const Json& item : page->items) objects.push_back(*parse(item));
    store.replace(std::move(objects), {}, page->resource_version);
  };
  fill(kube::kTrainingJobs, operator_->jobs, api::parse_training_job);
  fill(kube::kPods, operator_->pods, api::parse_pod);
  fill(kube::kNodes, operator_->nodes, [](const Json& object) {
    return parse_located_node(object, {}, {.leave = {}, .dead = *placement::SickSigns::of_flags({kDeadSign})});
  });
  for (const auto& node : operator_->nodes.list()) {
    operator_->deaths.note(node->meta.name, node->meta.name, !node->death.empty());
  }
  std::map<std::string, std::string> sick;
  for (const auto& pod : operator_->pods.list()) {
    if (!pod->unhealthy_device.empty()) sick[pod->meta.uid] = pod->node_name;
  }
  for (const auto& [uid, node] : operator_->sick_pods) operator_->sickness.note(node, uid, sick.count(uid) != 0);
  for (const auto& [uid, node] : sick) operator_->sickness.note(node, uid, true);
  operator_->sick_pods = std::move(sick);
  fill(kube::kServices, operator_->services, [](const Json& object) -> Result<ServiceRecord> {
    LOCKSTEP_TRY(auto meta, api::parse_meta(object));
    return ServiceRecord{std::move(meta)};
  });
}

void World::start_operator() {
  operator_ = std::make_unique<Operator>(*this);
}

void World::stop_operator() {
  operator_.reset();
}

bool World::reconcile() {
  if (!operator_) start_operator();
  sync();
  if (!operator_->own_writes.ready(key)) return true;
  try {
    const auto result = operator_->reconciler.reconcile(key);
    if (!result && result.error().code != ErrorCode::kConflict) violations.push_back(result.error().message);
  } catch (const Crash&) {
    ++crashes;
    operator_.reset();
    check_state();
    check_leaving(false);
    return false;
  }
  check();
  check_state();
  check_leaving(true);
  check_dead();
  return true;
}

void World::check_leaving(bool knows) {
  const auto now = job();
  for (const auto& attempt : now.status.attempts) {
    if (attempt.cause == api::Cause::kUnhealthy && attempt.counted) violations.push_back("a sick member was charged");
  }
  if (!now.status.slots) return;
  for (const auto& entry : *now.status.slots) {
    if (entry.trouble != api::SlotTrouble::kUnhealthy || !told_to_leave_.insert(entry.pod).second || !knows) continue;
    int others = 0;
    bool member = false;
    for (const auto& pod : pods()) {
      const int slot = std::stoi(pod.meta.label(api::kLabelSlot));
      if (pod.meta.name != entry.pod) {
        others += works(pod) && !gang.silent[slot] ? 1 : 0;
      } else {
        const auto at = gang.uid_of_slot.find(slot);
        member = !gang.over && at != gang.uid_of_slot.end() && at->second == pod.meta.uid;
      }
    }
    // One whose process failed has ended its generation, with others or without.
    const auto told = std::find_if(now.status.attempts.begin(), now.status.attempts.end(),
                                   [&](const auto& attempt) { return attempt.pod == entry.pod; });
    member = member && (told == now.status.attempts.end() || told->generation < entry.generation);
    left += member ? 1 : 0;
    if (member && others < api::fewest_nodes(now.spec)) {
      violations.push_back(fmt::format("{} was to leave, though {} others are there", entry.pod, others));
    }
  }
}

// Of a job that runs, no pod stays on a node that is called dead, unless a sign took another one from there before. The
// pods that are there are told to go in a few decisions: one may be dropped for a conflict, or wait for the cache.
void World::check_dead() {
  const auto now = job();
  for (const auto& attempt : now.status.attempts) {
    if (attempt.cause == api::Cause::kNodeLost && attempt.counted) violations.push_back("a lost node was charged");
  }
  const bool runs = !now.spec.suspend && !api::is_true(now.status.conditions, "Suspended") &&
                    now.status.state != "Succeeded" && now.status.state != "Failed" && !gang.finished;
  for (const auto& pod : pods()) {
    const auto identity = identity_of(pod.meta);
    const bool has_slot = identity && identity->slot < api::slots_with_pods(now.spec);
    const bool must_go =
        runs && has_slot && called_dead_.count(pod.node_name) != 0 && !pod.meta.deleted && !pod.terminal();
    int& stays = stay_on_dead_[pod.meta.name];
    stays = must_go ? stays + 1 : 0;
    const auto& slots = now.status.slots;
    const bool second = slots && std::any_of(slots->begin(), slots->end(), [&](const api::SlotStatus& entry) {
                          return entry.node == pod.node_name && !entry.sign.empty() && entry.pod != pod.meta.name;
                        });
    if (stays == 10 && !second) violations.push_back(fmt::format("{} stays on {}", pod.meta.name, pod.node_name));
  }
  if (!now.status.slots) return;
  for (const auto& entry : *now.status.slots) {
    const bool by_sign = entry.trouble == api::SlotTrouble::kNodeLost && !entry.sign.empty();
    lost_by_sign += by_sign && told_to_leave_.insert("dead/" + entry.pod).second ? 1 : 0;
  }
}

void World::check() {
  std::map<std::string, int> live;
  for (const auto& pod : pods()) {
    if (!pod.terminal() && !pod.meta.deleted) ++live[pod.meta.label(api::kLabelSlot)];
  }
  for (const auto& [slot, count] : live) {
    if (count > 1) violations.push_back(fmt::format("slot {} has {} live pods", slot, count));
  }
  const auto now = job();
  for (const char* end : {"Succeeded", "Failed"}) {
    if (api::is_true(now.status.conditions, end)) {
      terminal_seen_.insert(end);
    } else if (terminal_seen_.count(end) != 0) {
      violations.push_back(std::string(end) + " was left");
    }
  }
}

// The operator writes the status at most once in a reconcile.
void World::check_state() {
  const std::string state = job().status.state;
  if (!may_follow(state_, state)) violations.push_back(fmt::format("state '{}' followed '{}'", state, state_));
  state_ = state;
}

void World::run(int turns) {
  for (int i = 0; i < turns; ++i) {
    move();
    if (!reconcile()) start_operator();
    clock.advance(std::chrono::seconds(1));
  }
}

void World::set_node(int number, bool ready) {
  const auto name = fmt::format("node-{}", number);
  auto object = api.get(kube::kNodes, "", name);
  (*object)["status"]["conditions"] = Json::array({{{"type", "Ready"}, {"status", ready ? "True" : "Unknown"}}});
  if (auto written = api.replace(kube::kNodes, "", name, *object, "status"); !written)
    violations.push_back(written.error().message);
  if (ready) {
    dead_nodes_.erase(number);
  } else {
    dead_nodes_.insert(number);
  }
}

void World::call_dead(int number, bool dead) {
  const auto name = fmt::format("node-{}", number);
  const Json label = dead ? Json("yes") : Json(nullptr);
  (void)api.patch(kube::kNodes, "", name, kube::PatchType::kMerge,
                  {{"metadata", {{"labels", {{"example.com/dead", label}}}}}});
  if (dead) {
    called_dead_.insert(name);
  } else {
    called_dead_.erase(name);
  }
}

void World::break_gang(api::Cause cause, int slot, std::optional<int> exit_code) {
  if (!up()) return;
  rendezvous::Failure failure;
  failure.generation = gang.generation;
  failure.cause = cause;
  failure.slot = slot;
  failure.rank = slot;
  failure.exit_code = exit_code;
  failure.message = api::name_of(cause);
  failure.time = clock.wall_now() - std::chrono::seconds(cause == api::Cause::kMemberLost ? 0 : 2);
  failure.step = gang.generation * 10;
  gang.failure = failure;
}

void World::delete_pod(const std::string& name) {
  (void)api.remove(kube::kPods, "default", name, {});
}

void World::fail_pod(const std::string& name, int exit_code) {
  set_pod_status(name, [&](Json& status) {
    status["phase"] = "Failed";
    status["containerStatuses"] = Json::array(
        {{{"name", "trainer"}, {"state", {{"terminated", {{"exitCode", exit_code}, {"reason", "Error"}}}}}}});
  });
}

void World::sicken(const std::string& name) {
  set_pod_status(name, [](Json& status) {
    const Json device{{"resourceID", "GPU-0"}, {"health", "Unhealthy"}};
    const Json resource{{"name", "nvidia.com/gpu"}, {"resources", Json::array({device})}};
    status["containerStatuses"] =
        Json::array({{{"name", "trainer"}, {"allocatedResourcesStatus", Json::array({resource})}}});
  });
}

void World::finish() {
  if (up()) gang.finished = true;
}

void World::set_nodes(int value) {
  (void)api.patch(kube::kTrainingJobs, "default", "a", kube::PatchType::kMerge, {{"spec", {{"nodes", value}}}});
}

void World::set_suspend(bool value) {
  (void)api.patch(kube::kTrainingJobs, "default", "a", kube::PatchType::kMerge, {{"spec", {{"suspend", value}}}});
}

}  // namespace lockstep::job
