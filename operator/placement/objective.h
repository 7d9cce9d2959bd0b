// What a placement costs: the weights, and the same in whole numbers (Prices), in which the dynamic programme adds.
//
//   cost = Σ over domains and nodes d that the pods use:  (a survivor is in d ? 0 : span[level of d])
//        + λ · Σ over domains and nodes d:                hole[level of d] · (Φ(free_d − taken_d) − Φ(free_d))
//   Φ(c) = −(c / node_pods)² / (nodes of d)
//
// The second sum prefers small holes: −c² rewards a domain that stays whole more than two that stay half free. The
// cluster itself has neither term, since no choice changes it.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::placement {

// Weights by level, outermost first; the last entry is of the node. Non-negative.
struct Objective {
  std::vector<double> span;  // of one more domain, or node, that is used
  std::vector<double> hole;  // of the holes of that level
  double lambda = 6;         // scales all of `hole`

  bool operator==(const Objective&) const = default;
};

// The weights that were tuned for racks, blocks and zones, for any number of levels. Span: a node 1, the innermost
// level 100, each level above it 100 times the level below (10 times where there are more than four levels). Holes: the
// innermost level 1, each above it a fifth, the node a tenth.
Objective default_objective(int levels);

// Whole numbers below 2^53 held as double. Sums are exact in any order, so that ties are ties and a table that is kept
// equals one that is computed again. The baseline x86-64 has a vector minimum of doubles, and none of 64-bit integers.
using Cost = double;

inline constexpr int kMostPods = 1 << 15;         // of one request
inline constexpr int kMostNodes = 1 << 20;        // of one cluster
inline constexpr int kMostPodsOfANode = 1 << 14;  // of any shape

// An objective for pods of one shape, in whole numbers.
class Prices {
 public:
  // kInvalid where `objective` is not of `levels` levels, or has a negative or infinite weight or weights too far
  // apart. kInvalid as well where `node_pods` (the pods that an empty node holds) is not in 1 .. kMostPodsOfANode.
  static Result<Prices> make(const Objective& objective, int levels, int node_pods);

  // What `taken` pods in a domain with `nodes` nodes and room for `free` pods cost the domain itself. A covered domain
  // has a survivor. `level` kClusterLevel costs nothing.
  Cost of(int level, int nodes, std::int64_t free, std::int64_t taken, bool covered) const {
    if (level < 0 || taken == 0) return 0;
    // Rounded as a whole: in a coefficient, the holes of large domains would vanish.
    const double damage =
        hole_[static_cast<std::size_t>(level)] / nodes * static_cast<double>(taken * (2 * free - taken));
    return (covered ? 0 : span(level)) + static_cast<Cost>(static_cast<std::int64_t>(damage + 0.5));
  }
  // Of one more domain of the level.
  Cost span(int level) const { return span_[static_cast<std::size_t>(level)]; }
  int node_pods() const { return node_pods_; }
  // A cost in the units of the objective.
  double in_units(Cost cost) const { return cost / scale_; }

  bool operator==(const Prices&) const = default;

 private:
  std::vector<Cost> span_;    // by level; the node is the last
  std::vector<double> hole_;  // λ · hole · scale / node_pods²
  int node_pods_ = 1;
  double scale_ = 1;
};

}  // namespace lockstep::placement
