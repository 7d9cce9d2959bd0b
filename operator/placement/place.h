// Where a gang's pods go: the exact optimum on the topology tree, or a refusal that says what is missing. Pure.
//
// All pods of a request need the same. A placement is chosen by, in this order:
//   1. the level spanned: the deepest level, from `preferred` up to `required`, of which one domain holds all pods and
//      all survivors. A level deeper than `preferred` counts as `preferred`.
//   2. the cost of objective.h: few domains and few nodes, and holes that are small already.
//   3. names: the domain that comes first takes the most (choice.h). Ids and history do not matter.
//
// Both sums of the cost are additive over the tree, so that a dynamic programme finds the minimum:
//   f(v, j) = min over the splits of j among v's children of Σ f(child, share) + own cost of v with j pods
// This is the tree knapsack: (min,+)-convolutions of tables, truncated at min(capacity, pods), O(nodes · pods) in all
// (Cygan's and Johnson and Niemi's tree knapsack bound). The holes of objective.h are the convex term of the benchmark
// in tests/bench/placement; greedy best fit and the "sum of squares" rule of online bin packing (Csirik, Johnson et
// al.) are its relatives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "operator/placement/objective.h"
#include "operator/placement/tables.h"
#include "operator/placement/tree.h"

namespace lockstep::placement {

// About 0.2 s on one core of 2020.
inline constexpr std::int64_t kDefaultBudget = 1'000'000'000;

struct Request {
  int pods = 1;                  // to place, 1 .. kMostPods; survivors are not among them
  std::optional<int> required;   // the level of which one domain must hold all pods and survivors; none: the cluster
  std::optional<int> preferred;  // the level at which to be together is enough; none: as deep as possible, one node
  // Levels are indices of the profile; Tree::levels() means one node, and kClusterLevel can be preferred.

  std::span<const std::int32_t> capacity;  // pods of this shape that still fit, by NodeId
  int node_pods = 0;  // pods of this shape that an empty node holds, no capacity is above; 0: the largest capacity
  // By NodeId, or empty, as Rooms has them. `node_pods` must be given with them.
  std::span<const std::int32_t> young, whole;

  std::vector<std::pair<NodeId, int>> survivors;  // pods of the gang that run, by node; capacity does without them
  std::vector<NodeId> exclude;                    // nodes to count as full; those that are gone are ignored

  std::optional<Objective> objective;    // none: default_objective()
  std::int64_t budget = kDefaultBudget;  // additions; beyond it the search is not exhaustive
};

struct Assignment {
  std::vector<std::pair<NodeId, int>> nodes;  // pods per node, in depth-first order, each once
  int level_spanned =
      kClusterLevel;         // of the innermost domain that holds these nodes and the survivors; levels(): one node
  double score = 0;          // the cost by objective.h: lower is better
  bool approximate = false;  // the budget did not allow the exact optimum
};

// The largest room in one domain of a level, of the domains that have the labels which `required` asks for and all
// survivors.
struct Hole {
  int level = kClusterLevel;  // kClusterLevel .. levels()
  std::int64_t pods = 0;      // that one domain of the level holds
  std::vector<std::string>
      path;  // of the first such domain, its node's name last at the level of nodes; empty where pods is 0
};

struct Refusal {
  enum class Reason {
    kInvalid,         // the request contradicts itself or the tree; `largest` is empty
    kSurvivorsApart,  // no domain of the required level has all survivors
    kNoRoom,          // no domain of the required level has room
  };
  Reason reason = Reason::kInvalid;
  std::string message;        // one sentence for people
  std::vector<Hole> largest;  // one for each level, outermost first
};

using Placement = std::variant<Assignment, Refusal>;

// Decides from scratch.
Placement place(const Tree& tree, const Request& request);
// The same decision with tables that are kept; they follow request.capacity first.
Placement place(const Tree& tree, Tables& tables, const Request& request);

struct ShrinkRequest {
  int keep = 1;                                 // how many pods stay
  std::vector<std::pair<NodeId, int>> current;  // the gang's pods, by node
  std::optional<int> required, preferred;       // as in Request
  std::span<const std::int32_t> capacity;       // as in Request: without what leaves
  std::span<const std::int32_t> young, whole;   // as in Request, for the tables; young pods do not count here
  int node_pods = 0;                            // as in Request, and no capacity with the current pods is above
  std::optional<Objective> objective;
  std::int64_t budget = kDefaultBudget;
};

// Which pods stay: place() of `keep` pods where only the nodes of `current` have room, each for its pods. Holes are
// those that would be there if all of them left.
Placement shrink(const Tree& tree, const ShrinkRequest& request);
Placement shrink(const Tree& tree, Tables& tables, const ShrinkRequest& request);

}  // namespace lockstep::placement
