// The placer in random worlds: gangs of all kinds come and go; an adversary takes GPUs from under reservations; nodes
// fail, return and are relabelled; kubelets refuse, watches lag, the placer dies. What must always hold is checked
// after every step; what must hold in the end is checked when the trouble is over.
#include "operator/placement/placer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>

#include "tests/operator/placement/small_cluster.h"
#include "tests/sanitizer.h"

namespace lockstep::placement {
namespace {

using std::chrono::seconds;

constexpr int kGpus = 8;
constexpr auto kTimeout = seconds(30);

struct Job {
  Gang gang;
  std::vector<int> incarnations;  // by slot
  Duration trains_for{}, trained{};
  // How long a part of it has held, or reserved, nodes without the gang being whole, before it trains.
  Duration half{}, reserved{};
  bool done = false;
};

class RandomWorld {
 public:
  explicit RandomWorld(unsigned seed) : random_(seed), placer_(std::make_unique<Placer>(cluster_.view())) {
    cluster_.fill(below(2) + 1, below(3) + 1, below(4) + 2, kGpus);
    names_ = cluster_.names();
  }

  void run() {
    for (int turn = 0; turn < 150; ++turn) {
      if (chance(15)) add_job();
      if (chance(10)) disturb();
      if (chance(2)) die();
      turn_once();
    }
    for (const auto& name : names_) cluster_.add(name, name.substr(0, 2), name.substr(0, 4), kGpus);
    for (const auto& pod : intruders_) cluster_.erase(pod);
    intruders_.clear();
    placer_->capacity_changed();
    calm_ = true;
    for (int turn = 0; turn < 3000 && !all_done(); ++turn) turn_once();
    for (const auto& job : jobs_) {
      EXPECT_TRUE(job->done) << job->gang.key << ": " << job->gang.whole << " of " << job->gang.pods << " pods of "
                             << cluster_.gpus(job->gang.shape) << " GPUs; "
                             << (placer_->answer(job->gang.key) == nullptr
                                     ? "unknown"
                                     : describe(placer_->answer(job->gang.key)->wait, "level"));
    }
    EXPECT_EQ(cluster_.reservations(), 0U) << "leaked";
    EXPECT_EQ(cluster_.openings(), 0U) << "leaked";
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  void add_job() {
    auto job = std::make_unique<Job>();
    Gang& gang = job->gang;
    gang.key = gang.name = fmt::format("job{}", jobs_.size());
    gang.priority = below(3);
    gang.since = WallTime(seconds(jobs_.size()));
    gang.shape = cluster_.shape(1 << below(4));
    gang.pods = below(6) + 1;
    gang.whole = chance(30) ? below(gang.pods) + 1 : gang.pods;
    gang.spares = chance(20) ? 1 : 0;
    gang.timeout = kTimeout;
    if (chance(50)) gang.constraint.required = below(2);
    if (chance(30)) gang.constraint.preferred = 1, gang.constraint.preferred_left = seconds(below(60));
    gang.constraint.exclusive = chance(20);
    job->trains_for = seconds(below(60) + 1);
    job->incarnations.resize(static_cast<size_t>(gang.pods + gang.spares), 0);
    for (int slot = 0; slot < gang.pods + gang.spares; ++slot) {
      gang.seats.push_back({.slot = slot, .pod = {}, .node = {}});
      renew(*job, gang.seats.back());
    }
    if (!fits_empty(gang)) return;
    jobs_.push_back(std::move(job));
  }

  // Gangs that the cluster can never hold are no promise.
  bool fits_empty(const Gang& gang) {
    return domain_to_hold(cluster_.view(), {.shape = gang.shape,
                                            .pods = gang.pods,
                                            .required = gang.constraint.required,
                                            .exclusive = gang.constraint.exclusive})
        .has_value();
  }

  void renew(Job& job, Seat& seat) {
    const int incarnation = ++job.incarnations[static_cast<size_t>(seat.slot)];
    seat = {.slot = seat.slot, .pod = fmt::format("x/{}-{}-{}", job.gang.key, seat.slot, incarnation), .node = {}};
    seat.uid = seat.pod;
  }

  void remove_pod(Job& job, Seat& seat) {
    cluster_.erase(seat.pod);
    bound_.erase(seat.pod);
    renew(job, seat);
    placer_->capacity_changed();
  }

  // Reservations live in the placer's process.
  void die() {
    cluster_.restart(chance(50));
    placer_ = std::make_unique<Placer>(cluster_.view());
    for (const auto& job : jobs_) job->reserved = {};
  }

  void disturb() {
    const std::string& node = names_[static_cast<size_t>(below(static_cast<int>(names_.size())))];
    switch (below(5)) {
      case 0: {  // somebody else's pod
        const std::string pod = fmt::format("y/intruder{}", next_intruder_++);
        int bound = 0;
        for (const auto& [name, place] : bound_) bound += place.first == node ? place.second : 0;
        for (const auto& other : intruders_) bound += other.find("@" + node) != std::string::npos ? kGpus / 2 : 0;
        if (bound + kGpus / 2 > kGpus) return;
        intruders_.insert(pod + "@" + node);
        cluster_.write(pod + "@" + node, node, kGpus / 2, kBound);
        break;
      }
      case 1:
        if (intruders_.empty()) return;
        cluster_.erase(*intruders_.begin());
        intruders_.erase(intruders_.begin());
        break;
      case 2:
        cluster_.cordon(node);
        break;
      case 3:
        for (const auto& name : names_) cluster_.cordon(name, false);
        for (const auto& job : jobs_) {  // a pod dies
          for (Seat& seat : job->gang.seats) {
            if (seat.state == SeatState::kBound && chance(10)) remove_pod(*job, seat);
          }
        }
        break;
      case 4:
        cluster_.relabel(node, chance(30) ? "" : node);  // a rack of its own: no gang fits that would not later
        break;
    }
    placer_->capacity_changed();
  }

  // What stands on a node for good: pods that are bound, ours and others'.
  int taken(const std::string& node) const {
    int sum = 0;
    for (const auto& [pod, place] : bound_) sum += place.first == node ? place.second : 0;
    for (const auto& pod : intruders_) sum += pod.ends_with("@" + node) ? kGpus / 2 : 0;
    return sum;
  }

  void turn_once() {
    now_ += seconds(1);
    for (const auto& job : jobs_) {
      if (!job->done) placer_->update(job->gang, now_);
    }
    placer_->step(now_);
    check();
    for (const auto& job : jobs_) {
      if (!job->done) carry_out(*job);
    }
    bind();
    for (const auto& job : jobs_) {
      if (!job->done) train(*job);
    }
    if (!calm_ && chance(30)) return;  // the watch is late
    cluster_.deliver();
    placer_->capacity_changed();
  }

  void check() {
    for (const auto& name : names_) {
      int ours = 0;
      for (const auto& job : jobs_) {
        const Answer* answer = job->done ? nullptr : placer_->answer(job->gang.key);
        if (answer == nullptr) continue;
        for (const auto& [slot, node] : answer->nodes) ours += node == name ? cluster_.gpus(job->gang.shape) : 0;
      }
      EXPECT_LE(ours, kGpus) << "given twice: " << name;
    }
    for (const auto& job : jobs_) {
      const Answer* answer = job->done ? nullptr : placer_->answer(job->gang.key);
      if (answer == nullptr) continue;
      const Gang& gang = job->gang;
      const bool held = std::any_of(gang.seats.begin(), gang.seats.end(), [](const Seat& seat) {
        return seat.state == SeatState::kPinned || seat.state == SeatState::kBound;
      });
      const auto nodes = static_cast<int>(answer->nodes.size());
      const bool half = !held && !gang.running && nodes > 0 && nodes < gang.whole;
      job->reserved = half ? job->reserved + seconds(1) : Duration();
      EXPECT_LE(job->reserved, kTimeout + seconds(1)) << "half of " << gang.key << " is reserved";
      check_constraint(gang, *answer);
    }
  }

  void check_constraint(const Gang& gang, const Answer& answer) {
    std::set<DomainId> domains;
    std::map<NodeId, int> nodes;
    for (const auto& [slot, name] : answer.nodes) {
      const NodeId node = cluster_.tree().find(name);
      ++nodes[node];
      if (gang.constraint.required) domains.insert(cluster_.tree().domain_of(node, *gang.constraint.required));
    }
    EXPECT_TRUE(answer.apart || domains.size() <= 1) << gang.key << " lies in several domains of its required level";
    for (const auto& [node, pods] : nodes) {
      EXPECT_TRUE(!gang.constraint.exclusive || pods == 1) << gang.key << " has two pods on one node";
    }
  }

  // As a reconciler does; now and then it is late, or dies in the middle.
  void carry_out(Job& job) {
    const Answer* answer = placer_->answer(job.gang.key);
    if (answer == nullptr || (!calm_ && chance(20))) return;
    Gang& gang = job.gang;
    for (Seat& seat : gang.seats) {
      if (!calm_ && chance(5)) return;
      const bool has_pod = seat.state != SeatState::kWanted;
      const bool goes = std::find(answer->replace.begin(), answer->replace.end(), seat.pod) != answer->replace.end();
      if (has_pod && (answer->release || goes)) {
        remove_pod(job, seat);
        continue;
      }
      const auto node = answer->nodes.find(seat.slot);
      if (answer->release || node == answer->nodes.end()) continue;
      if (seat.state == SeatState::kWanted && answer->gated) {
        seat.state = SeatState::kGated;
        seat.node = node->second;
      } else if (seat.state == SeatState::kGated && seat.node != node->second) {
        seat.node = node->second;
      } else if (seat.state == SeatState::kWanted || (seat.state == SeatState::kGated && answer->open)) {
        open(job, seat, node->second);
        continue;
      } else {
        continue;
      }
      seat.version = cluster_.write(seat.pod, seat.node, cluster_.gpus(gang.shape));
    }
  }

  void open(Job& job, Seat& seat, const std::string& node) {
    const bool is_new = seat.state == SeatState::kWanted;
    const std::string uid = is_new ? "" : seat.pod;
    if (!placer_->open(job.gang.key, {.slot = seat.slot, .pod = seat.pod, .uid = uid, .node = node})) return;
    const bool answered = calm_ || !chance(5);
    const auto told = [&](const std::string& version) { return answered ? std::optional(version) : std::nullopt; };
    if (!calm_ && chance(5)) return cluster_.opened(seat.pod, told(""));  // the write fails
    seat.state = SeatState::kPinned;
    seat.node = node;
    seat.version = cluster_.write(seat.pod, node, cluster_.gpus(job.gang.shape), 0);
    cluster_.opened(seat.pod, told(seat.version));
    int open = 0;
    for (const auto& other : jobs_) {
      if (other->done) continue;
      for (const Seat& one : other->gang.seats) {
        const bool counts = one.node == node && (one.state == SeatState::kPinned || one.state == SeatState::kBound);
        open += counts ? cluster_.gpus(other->gang.shape) : 0;
      }
    }
    EXPECT_LE(open, kGpus) << "opened twice: " << node;
  }

  void bind() {
    for (const auto& job : jobs_) {
      if (job->done) continue;
      for (Seat& seat : job->gang.seats) {
        if (seat.state != SeatState::kPinned) continue;
        const int gpus = cluster_.gpus(job->gang.shape);
        if (!calm_ && chance(20)) continue;  // kube-scheduler is busy
        if (!calm_ && chance(3)) {
          seat.state = SeatState::kRefused;
        } else if (taken(seat.node) + gpus <= kGpus) {
          seat.state = SeatState::kBound;
          seat.version = cluster_.write(seat.pod, seat.node, gpus, kBound);
          seat.unschedulable = false;
          bound_[seat.pod] = {seat.node, gpus};
        } else {
          seat.unschedulable = true;
        }
      }
    }
  }

  void train(Job& job) {
    Gang& gang = job.gang;
    int bound = 0, held = 0;
    for (const Seat& seat : gang.seats) {
      bound += seat.state == SeatState::kBound ? 1 : 0;
      held += seat.state == SeatState::kPinned || seat.state == SeatState::kBound ? 1 : 0;
    }
    if (bound >= gang.whole) {
      gang.running = true;
      gang.held_for = job.half = {};
      job.trained += seconds(1);
    } else if (!gang.running && held > 0) {
      job.half += seconds(1);
      gang.held_for = job.half;
      // A reconciler may be late by some turns.
      EXPECT_LE(job.half, kTimeout + seconds(calm_ ? 2 : 20)) << "half of " << gang.key << " is held";
    } else {
      gang.held_for = job.half = {};
      if (held == 0) gang.running = false;  // all its pods are gone: it starts from a checkpoint
    }
    if (job.trained < job.trains_for) return;
    for (Seat& seat : gang.seats) cluster_.erase(seat.pod), bound_.erase(seat.pod);
    job.done = true;
    placer_->withdraw(gang.key);
    placer_->capacity_changed();
  }

  bool all_done() const {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done; });
  }

  std::mt19937 random_;
  SmallCluster cluster_;
  std::unique_ptr<Placer> placer_;
  std::vector<std::string> names_;  // of nodes
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<std::string, std::pair<std::string, int>> bound_;  // by pod: node, GPUs
  std::set<std::string> intruders_;
  int next_intruder_ = 0;
  bool calm_ = false;
  MonotonicTime now_{std::chrono::hours(1)};
};

TEST(PlacerWorld, every_gang_is_placed_and_no_half_is_held_past_its_timeout) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned first = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::cout << "LOCKSTEP_SEED=" << first << "\n";
  for (unsigned i = 0; i < static_cast<unsigned>(sanitizer::cases(300)) && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("LOCKSTEP_SEED={}", first + i));
    RandomWorld(first + i).run();
  }
}

}  // namespace
}  // namespace lockstep::placement
