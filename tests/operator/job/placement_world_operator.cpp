// The operator of a PlacementWorld: it asks placement, decides, and its plans are checked and carried out.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "operator/job/decide.h"
#include "operator/job/finish_policy.h"
#include "operator/job/placement_policy.h"
#include "tests/operator/job/placement_world_job.h"

namespace lockstep::job {

using placement::SeatState;
using std::chrono::seconds;

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
  if (plan.service == ServiceStep::kCreate) job.writes.emplace_back([&job] { job.service = true; });
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

}  // namespace lockstep::job
