// What a placement costs: the weights, and the same in whole numbers (Prices), in which the dynamic programme adds.
//
//   cost = Σ over domains and nodes d that the pods use:  (a survivor is in d ? 0 : span[level of d])
//        + λ · Σ over domains and nodes d:              hole[level of d] · (Φ(hole_d − taken_d) − Φ(hole_d))
//   Φ(c) = −(size_d / node_pods) · (c / size_d)^power[level of d]     size_d: pods that d holds without any other
//   hole_d = free_d + young · young_d                                 young_d: places in d whose pods began lately
//
// Of a node, size_d is node_pods and young_d is 0.
//
// The second sum prefers small holes: −c² rewards a domain that stays whole more than two that stay half free. A
// high power protects those alone that are nearly empty. Many pods end soon after they began. So a place that was
// taken lately counts a little as free. The cluster itself has neither term, since no choice changes it.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::placement {

// Weights by level, outermost first; the last entry is of the node. Non-negative.
struct Objective {
  std::vector<double> span;  // of one more domain, or node, that is used
  std::vector<double> hole;  // of the holes of that level
  std::vector<int> power;    // of the holes' size, 1 .. kMostPower
  double lambda = 1.5;       // scales all of `hole`
  double young = 1.0 / 32;   // how much of a place whose pods began lately counts as free, 0 .. 1

  bool operator==(const Objective&) const = default;
};

// The weights that were tuned for racks and blocks, for any number of levels. Span: a node 1, the innermost level 100,
// the next one 50. Each level above it has 100 times that of the level below, or 10 times where there are more than
// four levels. Holes: the innermost level 1, each above it two fifths of the level below, the node a tenth. Powers: 2
// for the innermost level and the node, 8 for the others.
Objective default_objective(int levels);

// Whole numbers below 2^53 held as double. Sums are exact in any order, so that ties are ties and a table that is kept
// equals one that is computed again. The baseline x86-64 has a vector minimum of doubles, and none of 64-bit integers.
using Cost = double;

inline constexpr int kMostPods = 1 << 15;         // of one request
inline constexpr int kMostNodes = 1 << 20;        // of one cluster
inline constexpr int kMostPodsOfANode = 1 << 14;  // of any shape
inline constexpr int kMostPower = 16;

// For so long after it began a pod is young. ADR 0004 says why.
inline constexpr int kYoungSeconds = 40 * 60;

// An objective for pods of one shape, in whole numbers.
class Prices {
 public:
  // kInvalid where `objective` is not of `levels` levels, or has a negative or infinite weight or weights too far
  // apart. kInvalid as well where a power or `young` is out of its bounds. `node_pods`: what an empty node holds,
  // 1 .. kMostPodsOfANode, else kInvalid.
  static Result<Prices> make(const Objective& objective, int levels, int node_pods);

  // What `taken` pods cost a domain of size `size` with a hole of `hole` ≤ size pods itself. A covered domain has a
  // survivor. `level` kClusterLevel costs nothing.
  Cost of(int level, std::int64_t size, double hole, std::int64_t taken, bool covered) const {
    if (level < 0 || taken == 0) return 0;
    const auto at = static_cast<std::size_t>(level);
    const auto whole = static_cast<double>(size);
    const double damage =
        hole_[at] * whole *
        (raised(hole / whole, power_[at]) - raised((hole - static_cast<double>(taken)) / whole, power_[at]));
    // Rounded as a whole: in a coefficient, the holes of large domains would vanish.
    return (covered ? 0 : span(level)) + static_cast<Cost>(static_cast<std::int64_t>(damage + 0.5));
  }
  // The hole of a domain with room for `free` pods, where `young` more would fit without the pods that began lately.
  double hole(std::int64_t free, std::int64_t young) const {
    return static_cast<double>(free) + young_ * static_cast<double>(young);
  }
  // Of one more domain of the level.
  Cost span(int level) const { return span_[static_cast<std::size_t>(level)]; }
  int node_pods() const { return node_pods_; }
  // A cost in the units of the objective.
  double in_units(Cost cost) const { return cost / scale_; }

  bool operator==(const Prices&) const = default;

 private:
  // By multiplications alone: std::pow() may differ in the last bit between libraries.
  static double raised(double base, int power) {
    double result = 1;
    for (; power > 0; power /= 2, base *= base) {
      if (power % 2 == 1) result *= base;
    }
    return result;
  }

  std::vector<Cost> span_;    // by level; the node is the last
  std::vector<double> hole_;  // λ · hole · scale / node_pods
  std::vector<int> power_;
  double young_ = 0;
  int node_pods_ = 1;
  double scale_ = 1;
};

}  // namespace lockstep::placement
