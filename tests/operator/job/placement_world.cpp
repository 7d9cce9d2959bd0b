#include "tests/operator/job/placement_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "operator/job/children.h"
#include "operator/job/decide.h"
#include "operator/job/finish_policy.h"
#include "operator/job/placement_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job {

using placement::SeatState;
using rendezvous::Phase;
using std::chrono::seconds;

namespace {

constexpr int kNodeGpus = 8;
constexpr int kTroubledTurns = 120, kCalmTurns = 3000;

bool is_live(const api::Pod& pod) {
  return !pod.meta.deleted && !pod.terminal();
}

bool works(const api::Pod& pod) {
  return pod.phase == "Running" && !pod.meta.deleted;
}

}  // namespace

PlacementCounts PlacementWorld::counts;

struct PlacementWorld::Job {
  api::TrainingJob job;                   // as the API server has it
  std::map<std::string, api::Pod> pods;   // as it has them
  std::map<std::string, api::Pod> cache;  // as the operator sees them
  bool wrote = true;                      // the operator waits until it sees its own writes
  bool service = false;
  bool by_operator = true;
  int gpus = 1;
  placement::Constraint constraint;
  std::optional<rendezvous::JobPlan> plan;  // of the coordinator, and what it says
  rendezvous::JobView view;
  std::map<int, std::string> members;  // by slot: uids of the generation
  Duration trains_for{}, trained{};
  std::map<std::string, WallTime> sick;  // pods, and since when; none is while it is calm
  std::set<std::string> hurt;            // pods that were bound when they were lost
  int hurts = 0;
  std::set<std::string> opened;               // pods that placement let be bound
  std::vector<std::function<void()>> writes;  // of the last plan, that the executor has not made yet
  bool done = false;

  std::string key(const std::string& pod) const { return job.meta.name_space + "/" + pod; }
};

PlacementWorld::PlacementWorld(unsigned seed) : random_(seed), now_(kStart) {
  placer_ = std::make_unique<placement::Placer>(cluster_.view());
  cluster_.fill(below(2) + 1, below(3) + 1, below(4) + 2, kNodeGpus);
  nodes_ = cluster_.names();
}

PlacementWorld::~PlacementWorld() = default;

void PlacementWorld::run() {
  for (int i = 0; i < kTroubledTurns && !::testing::Test::HasFailure(); ++i) {
    if (chance(10)) add_job();
    if (chance(20)) disturb();
    turn();
  }
  calm_ = true;
  for (const auto& name : cordoned_) cluster_.cordon(name, false);
  cordoned_.clear();
  for (const auto& [pod, node] : intruders_) cluster_.erase(pod);
  intruders_.clear();
  for (const auto& job : jobs_) job->by_operator = true;
  const auto all_done = [&] { return std::all_of(jobs_.begin(), jobs_.end(), [](auto& job) { return job->done; }); };
  for (int i = 0; i < kCalmTurns && !all_done() && !::testing::Test::HasFailure(); ++i) turn();
  for (const auto& job : jobs_) {
    EXPECT_TRUE(job->done) << job->job.meta.name << ": " << api::to_json(job->job.status).dump(1);
  }
  if (all_done()) {
    EXPECT_EQ(cluster_.reservations(), 0U) << "leaked";
    EXPECT_EQ(cluster_.openings(), 0U) << "leaked";
  }
}

void PlacementWorld::add_job() {
  auto job = std::make_unique<Job>();
  auto& meta = job->job.meta;
  meta.name = fmt::format("job{}", jobs_.size());
  meta.name_space = "x";
  meta.uid = fmt::format("u{:03}-uid", jobs_.size());
  meta.generation = 1;
  meta.created = now_;
  auto& spec = job->job.spec;
  spec.image = "image";
  spec.nodes = below(5) + 1;
  spec.procs_per_node = 1;
  if (chance(25)) spec.elastic = api::ElasticSpec{.min_nodes = below(spec.nodes) + 1, .max_nodes = {}};
  if (chance(20)) spec.spares = 1;
  // With one of the others it is refused.
  const bool gang = chance(25) && !spec.elastic && spec.spares == 0;
  if (gang) spec.restart.strategy = api::RestartStrategy::kGang;
  if (chance(50)) spec.checkpoint.path = "/checkpoint";
  spec.checkpoint.grace_period_seconds = 1;
  spec.restart.max_restarts = 1000;
  spec.restart.backoff_max_seconds = 2;
  spec.deadlines.startup_seconds = 1'000'000;
  job->gpus = 1 << below(4);
  job->trains_for = seconds(below(40) + 1);
  if (chance(40)) job->constraint.required = below(2);
  job->constraint.exclusive = chance(20);
  cluster_.shape(job->gpus);
  if (fits_empty(*job)) jobs_.push_back(std::move(job));
}

// A gang that the cluster can never hold is no promise.
bool PlacementWorld::fits_empty(const Job& job) {
  return domain_to_hold(cluster_.view(), {.shape = cluster_.shape(job.gpus),
                                          .pods = job.job.spec.nodes,
                                          .required = job.constraint.required,
                                          .exclusive = job.constraint.exclusive})
      .has_value();
}

void PlacementWorld::turn() {
  time_ += seconds(1);
  now_ += seconds(1);
  const auto each = [&](const auto& act) {
    for (const auto& job : jobs_) {
      if (!job->done && !::testing::Test::HasFailure()) act(*job);
    }
  };
  each([&](Job& job) {
    if (calm_ || chance(80)) reconcile(job);
  });
  each([&](Job& job) { schedule(job); });
  each([&](Job& job) { run_kubelets(job); });
  each([&](Job& job) { coordinate(job); });
  if (!calm_ && chance(30)) return;  // the watch is late
  cluster_.deliver();
  placer_->capacity_changed();
}

// Reservations live in the operator's process. The new one has to know all gangs before it decides.
void PlacementWorld::die() {
  ++counts.died;
  cluster_.restart(chance(50));
  placer_ = std::make_unique<placement::Placer>(cluster_.view());
  for (const auto& job : jobs_) {
    job->wrote = true;
    job->writes.clear();
    if (job->done || !job->by_operator) continue;
    Snapshot snapshot = gather(*job);
    if (auto gang = wants_nodes(snapshot) ? std::optional(gang_of(snapshot)) : std::nullopt) {
      gang->shape = cluster_.shape(job->gpus);
      gang->constraint = job->constraint;
      placer_->update(*gang, time_);
    }
  }
}

void PlacementWorld::disturb() {
  const std::string& node = nodes_[static_cast<size_t>(below(static_cast<int>(nodes_.size())))];
  switch (below(7)) {
    case 0:
      if (!intrude(node)) return;
      break;
    case 1:
      if (intruders_.empty()) return;
      cluster_.erase(intruders_.front().first);
      intruders_.erase(intruders_.begin());
      break;
    case 2:
      cordoned_.insert(node);
      cluster_.cordon(node);
      break;
    case 3:
      for (const auto& name : cordoned_) cluster_.cordon(name, false);
      cordoned_.clear();
      break;
    case 4:
      for (const auto& job : jobs_) {
        if (job->done || job->pods.empty() || !chance(40)) continue;
        auto pod = job->pods.begin();
        std::advance(pod, below(static_cast<int>(job->pods.size())));
        hurt(*job, pod->second);
      }
      break;
    case 5:
      for (const auto& job : jobs_) {
        if (job->done || job->pods.empty() || !chance(40)) continue;
        auto pod = job->pods.begin();
        std::advance(pod, below(static_cast<int>(job->pods.size())));
        if (works(pod->second)) job->sick.emplace(pod->first, now_);
      }
      break;
    case 6:
      for (const auto& job : jobs_) {
        const bool refused =
            std::any_of(job->pods.begin(), job->pods.end(), [](auto& pod) { return pod.second.refused(); });
        if (job->done || refused || !chance(10)) continue;  // where kube-scheduler places, a refusal is a loss
        job->by_operator = !job->by_operator;               // spec.scheduling.backend
        job->writes.clear();                                // the plan is out of date
        job->wrote = true;                                  // a refused pod that is gone is not seen
        ++counts.switched;
      }
      break;
  }
  placer_->capacity_changed();
}

bool PlacementWorld::intrude(const std::string& node) {
  if (taken(node) + kNodeGpus / 2 > kNodeGpus) return false;
  intruders_.emplace_back(fmt::format("y/intruder{}", next_uid_++), node);
  cluster_.write(intruders_.back().first, node, kNodeGpus / 2, placement::kBound);
  if (chance(50)) cluster_.deliver();
  return true;
}

// Deletes it, or lets its container fail.
void PlacementWorld::hurt(Job& job, api::Pod& pod) {
  if (!is_live(pod)) return;
  if (pod.node_name.empty()) return erase(job, pod.meta.name);
  ++counts.hurt;
  ++job.hurts;
  job.hurt.insert(pod.meta.name);
  if (pod.phase == "Running" && chance(50)) {
    pod.phase = "Failed";
    pod.ready = false;
    pod.containers = {{.name = "trainer", .terminated = true, .exit_code = 1}};
    touch(job, pod);
    cluster_.erase(job.key(pod.meta.name));
  } else {
    pod.meta.deleted = now_ + seconds(2);
    touch(job, pod);
  }
}

// ---- the operator ----

Snapshot PlacementWorld::gather(Job& job) {
  if (job.wrote || calm_ || chance(70)) job.cache = job.pods;
  job.wrote = false;
  Snapshot snapshot;
  snapshot.job = std::make_shared<api::TrainingJob>(job.job);
  for (const auto& [name, pod] : job.cache) snapshot.pods.push_back(std::make_shared<api::Pod>(pod));
  snapshot.service_present = job.service;
  if (job.plan) snapshot.view = job.view;
  snapshot.now = now_;
  for (const auto& [pod, since] : job.sick) {
    if (!calm_ && job.cache.contains(pod)) snapshot.sick_pods[pod] = {.sign = "sick", .age = now_ - since};
  }
  if (job.plan && job.view.failure) snapshot.failure_age = now_ - job.view.failure->time;
  return snapshot;
}

std::optional<placement::Gang> PlacementWorld::ask(Job& job, Snapshot& snapshot) {
  const bool wants = wants_nodes(snapshot);
  if (!job.by_operator || !wants) {
    placer_->withdraw(job.job.meta.uid);
    if (job.by_operator) snapshot.placing.emplace();
    return std::nullopt;
  }
  placement::Gang gang = gang_of(snapshot);
  gang.shape = cluster_.shape(job.gpus);
  gang.constraint = job.constraint;
  gang.timeout = seconds(20);
  placer_->update(gang, time_);
  placer_->step(time_);
  snapshot.placing.emplace();
  if (const auto* answer = placer_->answer(gang.key)) snapshot.placing->answer = *answer;
  return gang;
}

void PlacementWorld::reconcile(Job& job) {
  if (!job.writes.empty()) return write_children(job);
  Snapshot snapshot = gather(job);
  const auto gang = ask(job, snapshot);
  const Plan plan = decide(snapshot);
  check(job, gang, snapshot, plan);
  execute(job, plan);
  check_attempts(job);
  if (gang || !is_finished(job.job.status)) return;
  while (!job.pods.empty()) erase(job, job.pods.begin()->first);
  job.writes.clear();
  job.done = true;
}

void PlacementWorld::check(const Job& job, const std::optional<placement::Gang>& gang, const Snapshot& snapshot,
                           const Plan& plan) {
  check_placed(snapshot, plan);
  check_left(job, snapshot, plan);
  const auto& answer = snapshot.placing ? snapshot.placing->answer : std::nullopt;
  for (const PodToCreate& pod : plan.creates) {
    if (!job.by_operator) continue;
    ASSERT_TRUE(answer) << "created without an answer";
    ASSERT_FALSE(pod.node.empty()) << "created without a node";
    EXPECT_EQ(pod.node, answer->nodes.at(pod.slot));
    EXPECT_EQ(pod.incarnation, snapshot.job->status.incarnation) << "the round is not stored";
  }
  if (plan.opens.empty()) return;
  ASSERT_TRUE(gang && answer);
  int ready = 0;
  for (const auto& seat : gang->seats) {
    const auto node = answer->nodes.find(seat.slot);
    const bool opened = seat.state == SeatState::kPinned || seat.state == SeatState::kBound;
    const bool gated = seat.state == SeatState::kGated && node != answer->nodes.end() && node->second == seat.node;
    ready += opened || gated ? 1 : 0;
  }
  EXPECT_GE(ready, api::fewest_nodes(job.job.spec)) << "opened a part of " << job.job.meta.name;
}

void PlacementWorld::check_left(const Job& job, const Snapshot& snapshot, const Plan& plan) {
  const auto& before = snapshot.job->status.attempts;
  if (!plan.status || plan.status->attempts.size() <= before.size()) return;
  const auto& attempt = plan.status->attempts.back();
  if (attempt.cause != api::Cause::kUnhealthy) return;
  EXPECT_FALSE(attempt.counted);
  const int slot = identity_of(job.pods.at(attempt.pod).meta)->slot;
  int others = 0, keepers = 0;
  for (const auto& member : snapshot.view->members) {
    const bool stays = member.slot != slot && member.connected && !member.leaving;
    others += stays;
    keepers += stays && member.in_gang;
  }
  const bool spare = slot >= job.job.spec.nodes;
  EXPECT_TRUE(spare || keepers > 0 || !job.job.spec.checkpoint.path.empty()) << attempt.pod << " took the state along";
  if (spare || others >= api::fewest_nodes(job.job.spec)) return;
  ASSERT_TRUE(snapshot.placing && snapshot.placing->answer);
  const auto& reserved = snapshot.placing->answer->reserved;
  ASSERT_TRUE(reserved.contains(slot)) << attempt.pod << " left for nothing";
  EXPECT_NE(reserved.at(slot), attempt.node);
  ++counts.left;
}

// Condition Placed says no more than the pods show. AllPodsPlaced stays until the loss of a pod is dealt with.
void PlacementWorld::check_placed(const Snapshot& snapshot, const Plan& plan) {
  const auto& status = plan.status ? *plan.status : snapshot.job->status;
  const auto* placed = api::find_condition(status.conditions, "Placed");
  if (placed == nullptr || placed->status != "True" || is_finished(status)) return;
  const bool all = placed->reason == "AllPodsPlaced";
  if (all && all_were_placed(snapshot.job->status)) return;
  EXPECT_TRUE(all || placed->reason == kGangPlaced) << placed->reason;
  std::set<int> slots;
  for (const auto& pod : snapshot.pods) {
    const bool ended_well = pod->phase == "Succeeded" && !pod->meta.deleted;
    if (!pod->node_name.empty() && (is_live(*pod) || ended_well)) slots.insert(identity_of(pod->meta)->slot);
  }
  const auto& spec = snapshot.job->spec;
  EXPECT_GE(static_cast<int>(slots.size()), all ? api::slots_with_pods(spec) : spec.nodes)
      << snapshot.job->meta.name << ": " << placed->reason << ": " << placed->message;
  counts.gang_placed += all ? 0 : 1;
}

// A refusal, a repair or a release charges nothing.
void PlacementWorld::check_attempts(const Job& job) {
  const auto& status = job.job.status;
  for (const auto& attempt : status.attempts) {
    if (attempt.pod.empty() || attempt.cause == api::Cause::kCompleted) continue;
    if (attempt.cause == api::Cause::kUnhealthy && job.sick.contains(attempt.pod)) continue;
    EXPECT_TRUE(job.hurt.contains(attempt.pod)) << attempt.pod << ": " << attempt.message;
  }
  EXPECT_LE(status.restarts.total, job.hurts) << api::to_json(status).dump(1);
}

// In the order of the fields. What the executor writes may wait while others are decided on.
void PlacementWorld::execute(Job& job, const Plan& plan) {
  if (plan.status) {
    job.job.status = *plan.status;
    job.wrote = true;
    for (const auto& event : plan.events) counts.released += event.reason == "GangReleased" ? 1 : 0;
  }
  if (plan.forget) job.plan.reset();
  if (plan.coordinator) job.plan = *plan.coordinator;
  show_members(job);
  if (plan.status && !calm_ && chance(1)) return die();  // the coordinator lives on, and so knows what was stored
  for (const auto& removal : plan.deletes) job.writes.emplace_back([=, &job, this] { remove(job, removal); });
  if (plan.create_service) job.writes.emplace_back([&job] { job.service = true; });
  for (const auto& wanted : plan.creates) job.writes.emplace_back([=, &job, this] { create(job, wanted); });
  for (const auto& moved : plan.moves) job.writes.emplace_back([=, &job, this] { move(job, moved); });
  for (const auto& opening : plan.opens) job.writes.emplace_back([=, &job, this] { open(job, opening); });
  write_children(job);
}

// Now and then a write waits for its turn, or the operator dies after one.
void PlacementWorld::write_children(Job& job) {
  auto writes = std::exchange(job.writes, {});
  std::size_t made = 0;
  while (made < writes.size() && (calm_ || !chance(5))) {
    writes[made++]();
    job.wrote = true;
    if (!calm_ && chance(1)) return die();
  }
  job.writes.assign(writes.begin() + static_cast<std::ptrdiff_t>(made), writes.end());
}

std::optional<std::string> PlacementWorld::answer(const std::string& version) {
  if (calm_ || !chance(5)) return version;
  ++counts.lost_answers;
  return std::nullopt;
}

bool PlacementWorld::may_open(Job& job, const placement::Opening& opening) {
  // kube-scheduler binds a pod of others right before.
  if (!calm_ && chance(5)) intrude(opening.node);
  const bool may = placer_->open(job.job.meta.uid, opening);
  if (!may) ++counts.closed;
  if (!may || calm_ || !chance(3)) return may;
  cluster_.opened(opening.pod, answer(""));  // the write fails
  job.writes.clear();
  return false;
}

// What placement lets be bound to a node fits on it.
void PlacementWorld::check_room(const std::string& node) {
  int sum = 0;
  for (const auto& job : jobs_) {
    for (const auto& [name, pod] : job->pods) {
      const bool there = (pod.node_name.empty() ? pod.reserved_node : pod.node_name) == node && !pod.terminal();
      sum += there && job->opened.contains(name) ? job->gpus : 0;
    }
  }
  EXPECT_LE(sum, kNodeGpus) << "given out twice: " << node;
}

// ---- the API server ----

void PlacementWorld::touch(Job& job, api::Pod& pod) {
  const bool bound = !pod.node_name.empty();
  const std::uint16_t flags = bound ? placement::kBound : pod.gates.empty() ? 0 : placement::kGated;
  pod.meta.resource_version =
      cluster_.write(job.key(pod.meta.name), bound ? pod.node_name : pod.reserved_node, job.gpus, flags, pod.meta.uid);
}

void PlacementWorld::erase(Job& job, const std::string& name) {
  cluster_.erase(job.key(name));
  job.pods.erase(std::string(name));
}

void PlacementWorld::create(Job& job, const PodToCreate& wanted) {
  const std::string name = pod_name(job.job, wanted.slot, wanted.incarnation);
  if (job.pods.contains(name)) return;  // ours
  const bool opens = !wanted.node.empty() && !wanted.gated;
  const placement::Opening opening{.slot = wanted.slot, .pod = job.key(name), .uid = {}, .node = wanted.node};
  if (opens && !may_open(job, opening)) return;
  for (const auto& [other, pod] : job.pods) {
    EXPECT_FALSE(is_live(pod) && identity_of(pod.meta)->slot == wanted.slot) << name << " beside " << other;
  }
  api::Pod& pod = job.pods[name];
  pod.meta.name = name;
  pod.meta.name_space = job.job.meta.name_space;
  pod.meta.uid = fmt::format("uid{}", next_uid_++);
  pod.meta.created = now_;
  pod.meta.labels = {{api::kLabelSlot, std::to_string(wanted.slot)},
                     {api::kLabelIncarnation, std::to_string(wanted.incarnation)}};
  pod.phase = "Pending";
  pod.reserved_node = wanted.node;
  if (wanted.gated) pod.gates = {api::kPlacementGate};
  touch(job, pod);
  job.opened.erase(name);
  if (!opens) return;
  ++counts.ungated;
  job.opened.insert(name);
  cluster_.opened(opening.pod, answer(pod.meta.resource_version), pod.meta.uid);
  check_room(wanted.node);
}

void PlacementWorld::remove(Job& job, const PodToDelete& removal) {
  const auto found = job.pods.find(removal.name);
  if (found == job.pods.end() || found->second.meta.uid != removal.uid) return;
  api::Pod& pod = found->second;
  if (!removal.resource_version.empty()) {
    if (removal.resource_version != pod.meta.resource_version) {
      ++counts.conflicts;
      return;
    }
    EXPECT_TRUE(pod.node_name.empty() || pod.refused()) << removal.name << " runs";
    ++counts.replaced;
  }
  // Without a node it is gone at once, unless something holds it.
  if ((pod.node_name.empty() && !chance(10)) || (pod.terminal() && chance(50))) return erase(job, removal.name);
  if (pod.meta.deleted) return;
  pod.meta.deleted = now_;
  const bool terminal = pod.terminal();
  touch(job, pod);
  if (terminal) cluster_.erase(job.key(removal.name));
}

void PlacementWorld::move(Job& job, const PodToMove& move) {
  const auto found = job.pods.find(move.name);
  if (found == job.pods.end()) return;
  api::Pod& pod = found->second;
  if (pod.meta.uid != move.uid || pod.gates.empty() || pod.reserved_node != move.from) return;
  pod.reserved_node = move.to;
  touch(job, pod);
  ++counts.moved;
}

void PlacementWorld::open(Job& job, const PodToOpen& opening) {
  const placement::Opening asked{
      .slot = opening.slot, .pod = job.key(opening.name), .uid = opening.uid, .node = opening.node};
  if (!may_open(job, asked)) return;
  const auto found = job.pods.find(opening.name);
  const bool holds = found != job.pods.end() && found->second.meta.uid == opening.uid && !found->second.gates.empty() &&
                     found->second.reserved_node == opening.node;
  if (!holds) return cluster_.opened(asked.pod, "");
  api::Pod& pod = found->second;
  pod.gates.clear();
  touch(job, pod);
  job.opened.insert(opening.name);
  cluster_.opened(asked.pod, answer(pod.meta.resource_version), pod.meta.uid);
  ++counts.opened;
  check_room(opening.node);
}

int PlacementWorld::taken(const std::string& node) const {
  int sum = 0;
  for (const auto& job : jobs_) {
    for (const auto& [name, pod] : job->pods) sum += pod.node_name == node && !pod.terminal() ? job->gpus : 0;
  }
  for (const auto& [pod, on] : intruders_) sum += on == node ? kNodeGpus / 2 : 0;
  return sum;
}

// ---- kube-scheduler, kubelets, coordinator ----

void PlacementWorld::schedule(Job& job) {
  for (auto& [name, pod] : job.pods) {
    if (!is_live(pod) || !pod.node_name.empty() || !pod.gates.empty() || (!calm_ && chance(20))) continue;
    std::string node;
    for (const auto& candidate : nodes_) {
      const bool may = pod.reserved_node.empty() || pod.reserved_node == candidate;
      if (may && !cordoned_.contains(candidate) && taken(candidate) + job.gpus <= kNodeGpus) node = candidate;
    }
    pod.unschedulable_reason = node.empty() ? "Unschedulable" : "";
    if (!node.empty()) {
      pod.node_name = node;
      pod.scheduled = true;
      pod.scheduled_at = now_;
    }
    touch(job, pod);
  }
}

void PlacementWorld::run_kubelets(Job& job) {
  std::vector<std::string> gone;
  for (auto& [name, pod] : job.pods) {
    if (pod.meta.deleted) {
      if (calm_ || chance(40)) gone.push_back(name);
      continue;
    }
    if (pod.node_name.empty() || pod.phase != "Pending" || (!calm_ && chance(30))) continue;
    if (!calm_ && job.by_operator && chance(8)) {
      ++counts.refused;
      pod.phase = "Failed";
      pod.reason = "OutOfcpu";
      touch(job, pod);
      cluster_.erase(job.key(name));
    } else {
      pod.phase = "Running";
      pod.ready = true;
      touch(job, pod);
    }
  }
  for (const auto& name : gone) erase(job, name);
}

void PlacementWorld::coordinate(Job& job) {
  if (!job.plan) return;
  auto& view = job.view;
  const auto by_uid = [&](const std::string& uid) -> const api::Pod* {
    for (const auto& [name, pod] : job.pods) {
      if (pod.meta.uid == uid) return &pod;
    }
    return nullptr;
  };
  const auto is_there = [&](const std::string& uid) {
    const api::Pod* pod = by_uid(uid);
    return pod != nullptr && works(*pod);
  };
  std::map<int, std::string> present;
  for (const auto& member : job.plan->members) {
    if (!member.leaving && is_there(member.pod_uid)) present[member.slot] = member.pod_uid;
  }
  while (present.size() > static_cast<size_t>(job.plan->slots)) present.erase(std::prev(present.end()));
  const auto fewest = static_cast<size_t>(api::fewest_nodes(job.job.spec));
  if (job.plan->stop) {
    view.phase = Phase::kStopped;
    job.members.clear();
  } else if (view.phase == Phase::kUp) {
    const auto leaves = [&](const std::string& uid) {
      return std::any_of(job.plan->members.begin(), job.plan->members.end(),
                         [&](const auto& member) { return member.pod_uid == uid && member.leaving; });
    };
    for (const auto& [slot, uid] : job.members) {
      if (is_there(uid)) continue;
      if (leaves(uid)) {  // after a step on which all agree
        view.phase = Phase::kWaiting;
        continue;
      }
      view.phase = Phase::kBroken;
      view.failure = rendezvous::Failure{.generation = view.generation, .cause = api::Cause::kMemberLost, .slot = slot};
      view.failure->message = "it fell silent";
      view.failure->time = now_;
      break;
    }
    job.trained += seconds(1);
    if (view.phase == Phase::kUp && job.trained >= job.trains_for) view.phase = Phase::kFinished;
    if (view.phase == Phase::kUp && present.size() > job.members.size()) view.phase = Phase::kWaiting;
  } else if (view.phase == Phase::kStopped ||
             (view.phase == Phase::kBroken && job.plan->handled_generation >= view.generation)) {
    view.phase = Phase::kWaiting;
  }
  if (view.phase == Phase::kWaiting) {
    view.failure.reset();
    job.members.clear();
    if (present.size() >= fewest) {
      view.generation = std::max(view.generation, job.plan->handled_generation) + 1;
      view.phase = Phase::kUp;
      job.members = present;
    }
  }
  view.progress.step = view.generation * 10;
  show_members(job);
}

void PlacementWorld::show_members(Job& job) {
  if (!job.plan) return;
  job.view.members.clear();
  for (const auto& member : job.plan->members) {
    const auto named = std::find_if(job.pods.begin(), job.pods.end(),
                                    [&](const auto& pod) { return pod.second.meta.uid == member.pod_uid; });
    const bool connected = named != job.pods.end() && works(named->second);
    const auto in_gang = job.members.find(member.slot);
    const bool takes_part = in_gang != job.members.end() && in_gang->second == member.pod_uid;
    job.view.members.push_back(
        {member.slot, member.incarnation, connected, takes_part, takes_part, member.leaving, connected});
  }
}

}  // namespace lockstep::job
