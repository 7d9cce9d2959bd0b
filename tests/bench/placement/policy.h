// The policies that decide in the simulations where a gang goes: Lockstep's placement, and the rules of other
// schedulers. Each of those is written from the scheduler's documentation, in a file of its own.
//
// The rules see what their schedulers would: how many pods fit where. Queues, quota and preemption are no part of them;
// the simulation has one queue for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/placement/objective.h"
#include "tests/bench/placement/world.h"

namespace lockstep::bench {

struct Ask {
  int pods = 1;
  int gpus = 8;                                      // of each pod
  std::optional<int> required = {}, preferred = {};  // kBlock or kRack
  NodePods survivors = {};                           // pods of the gang that run
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Nodes for all pods; empty: there is no room.
  virtual NodePods place(const World& world, const Ask& ask) = 0;
  // Whether a replacement goes near the survivors.
  virtual bool anchored() const { return false; }
};

// Lockstep; without an objective, with the default one.
std::unique_ptr<Policy> lockstep_policy(std::optional<placement::Objective> objective = {});
std::unique_ptr<Policy> kueue_best_fit();
std::unique_ptr<Policy> kueue_least_free();
std::unique_ptr<Policy> koordinator_policy();
std::unique_ptr<Policy> kai_policy();
std::unique_ptr<Policy> slurm_tree();
std::unique_ptr<Policy> random_policy(std::uint64_t seed);

// The names of all policies, Lockstep first.
const std::vector<std::string>& policy_names();
// One of them. `seed` is for the random one.
std::unique_ptr<Policy> policy_of(const std::string& name, std::uint64_t seed);

}  // namespace lockstep::bench
