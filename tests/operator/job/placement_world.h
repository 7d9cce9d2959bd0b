// A small world in which jobs are placed: the real placer over a real cluster of a few nodes, and decide(). An API
// server, kube-scheduler, kubelets, a coordinator and an adversary do at random what they may do. Checks after every
// plan what must always hold.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "operator/job/plan.h"
#include "operator/job/snapshot.h"
#include "operator/placement/placer.h"
#include "tests/operator/placement/small_cluster.h"

namespace lockstep::job {

// How often it happened, in all worlds of a process.
struct PlacementCounts {
  int refused = 0, replaced = 0, conflicts = 0, released = 0, moved = 0, opened = 0, ungated = 0, hurt = 0, died = 0,
      switched = 0, closed = 0, gang_placed = 0, lost_answers = 0, left = 0;
};

class PlacementWorld {
 public:
  explicit PlacementWorld(unsigned seed);
  ~PlacementWorld();

  // Trouble for a while; then none, until all jobs are done.
  void run();

  static PlacementCounts counts;

 private:
  struct Job;

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  void add_job();
  bool fits_empty(const Job& job);
  void turn();
  void disturb();
  // A pod of others is bound there. False: there is no room.
  bool intrude(const std::string& node);
  void hurt(Job& job, api::Pod& pod);
  void die();

  // The operator.
  void reconcile(Job& job);
  Snapshot gather(Job& job);
  std::optional<placement::Gang> ask(Job& job, Snapshot& snapshot);
  void check(const Job& job, const std::optional<placement::Gang>& gang, const Snapshot& snapshot, const Plan& plan);
  // A sick member leaves for a spare, minNodes, or a node that is reserved for its successor.
  void check_left(const Job& job, const Snapshot& snapshot, const Plan& plan);
  void check_placed(const Snapshot& snapshot, const Plan& plan);
  void check_attempts(const Job& job);
  void execute(Job& job, const Plan& plan);
  void write_children(Job& job);
  // To a write with this outcome; empty: it is lost.
  std::optional<std::string> answer(const std::string& version);
  bool may_open(Job& job, const placement::Opening& opening);
  void check_room(const std::string& node);

  // The API server.
  void create(Job& job, const PodToCreate& wanted);
  void remove(Job& job, const PodToDelete& removal);
  void move(Job& job, const PodToMove& move);
  void open(Job& job, const PodToOpen& opening);
  void touch(Job& job, api::Pod& pod);
  void erase(Job& job, const std::string& name);
  int taken(const std::string& node) const;

  void schedule(Job& job);
  void run_kubelets(Job& job);
  void coordinate(Job& job);
  void show_members(Job& job);

  std::mt19937 random_;
  placement::SmallCluster cluster_;
  std::unique_ptr<placement::Placer> placer_;
  std::vector<std::string> nodes_;
  std::set<std::string> cordoned_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::pair<std::string, std::string>> intruders_;  // pod, node
  int next_uid_ = 0;
  bool calm_ = false;
  MonotonicTime time_{std::chrono::hours(1)};
  WallTime now_{};
};

}  // namespace lockstep::job
