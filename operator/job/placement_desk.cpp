#include "operator/job/placement_desk.h"

#include <algorithm>
#include <utility>

#include "operator/placement/shortage.h"

namespace lockstep::job {
namespace {

// After a decision that took t, the next one for a change of the cluster begins in 9t at the soonest.
constexpr int kRest = 9;

}  // namespace

PlacementDesk::PlacementDesk(ClusterAccess& cluster, Clock& clock, MetricsRegistry& metrics, Expected expected,
                             Changed changed)
    : cluster_(cluster),
      clock_(clock),
      expected_(std::move(expected)),
      changed_(std::move(changed)),
      seconds_(metrics.histogram("lockstep_placement_seconds", "Seconds that a decision on all waiting gangs took.", {},
                                 {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3})),
      gangs_(metrics.gauge("lockstep_placement_gangs", "Jobs whose pods this operator places.")) {}

PlacementDesk::~PlacementDesk() {
  stop();
}

void PlacementDesk::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void PlacementDesk::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<placement::Answer> PlacementDesk::ask(const api::ObjectKey& job, placement::Gang gang,
                                                    const placement::Shape& shape) {
  std::optional<placement::Answer> answer;
  std::vector<api::ObjectKey> changed;
  cluster_.with_cluster([&](placement::Cluster& cluster) {
    begin_locked(cluster);
    gang.shape = cluster.acquire(shape);
    const auto [known, is_new] = known_.try_emplace(gang.key);
    const placement::ShapeId before = std::exchange(known->second.shape, gang.shape);
    known->second.job = job;
    placer_->update(gang, clock_.now());
    if (!is_new) cluster.release(before);
    changed = step_locked();
    if (const auto* decided = placer_->answer(gang.key)) {
      answer = *decided;
      explain_locked(cluster, gang, answer->wait);
    }
  });
  std::erase(changed, job);
  tell(changed);
  return answer;
}

bool PlacementDesk::gives(const std::string& gang, int slot, const std::string& node) {
  bool given = false;
  cluster_.with_cluster([&](placement::Cluster&) {
    const auto* answer = placer_ ? placer_->answer(gang) : nullptr;
    if (answer == nullptr) return;
    const auto place = answer->nodes.find(slot);
    given = place != answer->nodes.end() && place->second == node;
  });
  return given;
}

bool PlacementDesk::open(const std::string& gang, const placement::Opening& opening) {
  bool may_open = false;
  cluster_.with_cluster([&](placement::Cluster&) { may_open = placer_ && placer_->open(gang, opening); });
  if (!may_open) cluster_changed();
  return may_open;
}

void PlacementDesk::opened(const placement::Opening& opening, const std::string& uid,
                           const std::optional<std::string>& resource_version) {
  bool frees = false;
  cluster_.with_cluster([&](placement::Cluster& cluster) {
    const auto before = cluster.changes();
    cluster.opened(opening.pod, placement::Uid::of(uid), resource_version);
    frees = cluster.changes() != before;
  });
  if (frees) cluster_changed();
}

void PlacementDesk::withdraw(const std::string& gang) {
  std::vector<api::ObjectKey> changed;
  cluster_.with_cluster([&](placement::Cluster& cluster) {
    begin_locked(cluster);
    placer_->withdraw(gang);
    if (const auto known = known_.find(gang); known != known_.end()) {
      cluster.release(known->second.shape);
      known_.erase(known);
    }
    changed = step_locked();
  });
  tell(changed);
}

void PlacementDesk::cluster_changed() {
  const std::lock_guard guard(mutex_);
  dirty_ = true;
  wake_.notify_all();
}

void PlacementDesk::begin_locked(placement::Cluster& cluster) {
  if (placer_) return;
  view_.emplace(cluster);
  placer_.emplace(*view_);
  placer_->expect(expected_());
}

void PlacementDesk::explain_locked(placement::Cluster& cluster, const placement::Gang& gang, placement::Wait& wait) {
  using placement::Why;
  if (wait.why != Why::kNoRoom && wait.why != Why::kTooLarge && wait.why != Why::kPreferred) return;
  Known& known = known_.at(gang.key);
  if (known.told != wait) {
    const auto verdict =
        placement::explain_refusal(cluster, placer_->search_of(gang.key), placement::Uid::of(gang.key), {});
    known.told = wait;
    known.obstacles = placement::obstacles_of(verdict);
  }
  wait.obstacles = known.obstacles;
}

std::vector<api::ObjectKey> PlacementDesk::step_locked() {
  const auto began = clock_.now();
  view_->pass_time(std::chrono::floor<std::chrono::seconds>(clock_.wall_now()).time_since_epoch().count());
  if (const std::set<std::string> awaited = placer_->expected(); !awaited.empty()) {
    const std::set<std::string> there = expected_();
    for (const std::string& gang : awaited) {
      if (!there.contains(gang)) placer_->withdraw(gang);
    }
  }
  std::vector<api::ObjectKey> changed;
  for (const std::string& gang : placer_->step(began)) {
    if (const auto known = known_.find(gang); known != known_.end()) changed.push_back(known->second.job);
  }
  gangs_.set(static_cast<double>(known_.size()));
  seconds_.observe(std::chrono::duration<double>(clock_.now() - began).count());
  const std::lock_guard guard(mutex_);
  if (next_ != placer_->next_step()) wake_.notify_all();
  next_ = placer_->next_step();
  return changed;
}

void PlacementDesk::tell(const std::vector<api::ObjectKey>& changed) {
  for (const api::ObjectKey& job : changed) changed_(job);
}

void PlacementDesk::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const std::lock_guard guard(mutex_);
    wake_.notify_all();
  });
  MonotonicTime rest_until{};
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = clock_.now();
    const bool due = next_ && *next_ <= now;
    if (!due && (!dirty_ || now < rest_until)) {
      auto until = next_.value_or(now + std::chrono::hours(1));
      if (dirty_) until = std::min(until, rest_until);
      clock_.wait_until(lock, wake_, until);
      continue;
    }
    const bool moved = std::exchange(dirty_, false);
    next_.reset();
    lock.unlock();
    std::vector<api::ObjectKey> changed;
    cluster_.with_cluster([&](placement::Cluster&) {
      if (!placer_) return;  // no job has asked yet
      if (moved) placer_->capacity_changed();
      changed = step_locked();
    });
    tell(changed);
    const auto ended = clock_.now();
    rest_until = ended + kRest * (ended - now);
    lock.lock();
  }
}

}  // namespace lockstep::job
