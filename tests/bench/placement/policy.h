// The policies that decide in the simulations where a gang goes: Lockstep's placement, and the rules of other
// schedulers. Each of those is written from the scheduler's documentation, in a file of its own.
//
// The rules see what their schedulers would: how many pods fit where. Queues, quota and preemption are no part of them;
// the simulation has one queue for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "operator/placement/objective.h"
#include "tests/bench/placement/world.h"

namespace lockstep::bench {

// Whose a node is.
struct Resident {
  int gang = kNone;
  double age = 0, left = 0;  // seconds since the gang started, and until it ends
};

struct Ask {
  int pods = 1;
  int gpus = 8;                                      // of each pod
  std::optional<int> required = {}, preferred = {};  // kBlock or kRack
  NodePods survivors = {};                           // pods of the gang that run

  // For policies that know more than what is free: for how long the gang trains, and who is on each node, by NodeId.
  double seconds = 0;
  std::span<const Resident> residents = {};
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Nodes for all pods; empty: there is no room.
  virtual NodePods place(const World& world, const Ask& ask) = 0;
  // Whether a replacement goes near the survivors.
  virtual bool anchored() const { return false; }
  // Whether `Ask::residents` is needed.
  virtual bool knows_residents() const { return false; }
};

// Lockstep; without an objective, with the default one. A gang is young for `young_seconds`.
std::unique_ptr<Policy> lockstep_policy(std::optional<placement::Objective> objective = {},
                                        double young_seconds = placement::kYoungSeconds);
std::unique_ptr<Policy> kueue_best_fit();
std::unique_ptr<Policy> kueue_least_free();
std::unique_ptr<Policy> koordinator_policy();
std::unique_ptr<Policy> kai_policy();
std::unique_ptr<Policy> slurm_tree();
std::unique_ptr<Policy> random_policy(std::uint64_t seed);
// No scheduler: Lockstep's objective, for a policy that knows when each gang ends.
std::unique_ptr<Policy> oracle_policy();

// The names of all policies, Lockstep first.
const std::vector<std::string>& policy_names();
// One of them. `seed` is for the random one.
std::unique_ptr<Policy> policy_of(const std::string& name, std::uint64_t seed);

}  // namespace lockstep::bench
