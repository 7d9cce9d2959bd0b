// A job of a PlacementWorld: what the API server, the operator and the coordinator know of it. Only the sources of
// PlacementWorld include this.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/rendezvous/coordinator.h"
#include "tests/operator/job/placement_world.h"

namespace lockstep::job {

inline constexpr int kNodeGpus = 8;

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

inline bool is_live(const api::Pod& pod) {
  return !pod.meta.deleted && !pod.terminal();
}

inline bool works(const api::Pod& pod) {
  return pod.phase == "Running" && !pod.meta.deleted;
}

}  // namespace lockstep::job
