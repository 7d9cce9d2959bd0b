// Jobs that come, trouble, and the turns of all parts.
#include "tests/operator/job/placement_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "operator/job/placement_policy.h"
#include "tests/operator/job/placement_world_job.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job {

using std::chrono::seconds;

namespace {

constexpr int kTroubledTurns = 120, kCalmTurns = 3000;

}  // namespace

PlacementCounts PlacementWorld::counts;

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

}  // namespace lockstep::job
