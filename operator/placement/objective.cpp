#include "operator/placement/objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operator/placement/mutation.h"

namespace lockstep::placement {

Objective default_objective(int levels) {
  const auto size = static_cast<std::size_t>(levels) + 1;
  Objective objective;
  objective.span.assign(size, 1);
  objective.hole.assign(size, 0.1);
  objective.power.assign(size, 2);
  const double factor = levels > 4 ? 10 : 100;
  double span = 100, hole = 1;
  for (int level = levels - 1; level >= 0; --level) {
    const bool innermost = level == levels - 1;
    objective.span[static_cast<std::size_t>(level)] = span;
    objective.hole[static_cast<std::size_t>(level)] = hole;
    if (!innermost) objective.power[static_cast<std::size_t>(level)] = 8;
    span = innermost ? 50 : span * factor;
    hole *= 0.4;
  }
  return objective;
}

Result<Prices> Prices::make(const Objective& objective, int levels, int node_pods) {
  const auto size = static_cast<std::size_t>(levels) + 1;
  if (objective.span.size() != size || objective.hole.size() != size || objective.power.size() != size) {
    return fail(ErrorCode::kInvalid,
                fmt::format("objective: must have {} weights of span, of hole and powers, has {}, {} and {}", size,
                            objective.span.size(), objective.hole.size(), objective.power.size()));
  }
  if (!(objective.young >= 0) || objective.young > 1) {
    return fail(ErrorCode::kInvalid, fmt::format("objective: young must be 0 to 1, is {}", objective.young));
  }
  if (node_pods < 1 || node_pods > kMostPodsOfANode) {
    return fail(ErrorCode::kInvalid, fmt::format("node_pods: must be 1 to {}, is {}", kMostPodsOfANode, node_pods));
  }
  double spans = 0, holes = 0;
  for (std::size_t level = 0; level < size; ++level) {
    const double span = objective.span[level], hole = objective.hole[level] * objective.lambda;
    if (!(span >= 0) || !(hole >= 0) || !std::isfinite(span + hole)) {
      return fail(ErrorCode::kInvalid, fmt::format("objective: weight {} is negative or no number", level));
    }
    if (objective.power[level] < 1 || objective.power[level] > kMostPower) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("objective: power {} must be 1 to {}, is {}", level, kMostPower, objective.power[level]));
    }
    spans += span;
    holes += hole;
  }
  // The largest sums that can occur stay below 2^52: a domain's hole costs at most its weight times its nodes.
  const double most = std::max({spans * kMostPods, holes * kMostNodes, 1.0});
  Prices prices;
  prices.scale_ = std::exp2(std::min(30.0, std::floor(52 - std::log2(most)) - 1));
  if (prices.scale_ < 1) {
    return fail(ErrorCode::kInvalid, "objective: the weights are too large to be added exactly");
  }
  prices.node_pods_ = node_pods;
  prices.power_ = objective.power;
  prices.young_ = kMutation == Mutation::kForgetYoung ? 0 : objective.young;
  if (kMutation == Mutation::kSquareHoles) prices.power_.assign(size, 2);
  for (std::size_t level = 0; level < size; ++level) {
    const bool is_node = level + 1 == size;
    bool free_of_charge = kMutation == (is_node ? Mutation::kFreeNodes : Mutation::kFreeDomains);
    prices.span_.push_back(free_of_charge ? 0 : std::round(objective.span[level] * prices.scale_));
    const double hole = kMutation == Mutation::kNoHoles ? 0 : objective.hole[level] * objective.lambda;
    prices.hole_.push_back(hole * prices.scale_ / node_pods);
  }
  return prices;
}

}  // namespace lockstep::placement
