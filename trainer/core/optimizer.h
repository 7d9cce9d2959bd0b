// The rule that turns gradients into new parameters, as data. A backend carries it out (Backend::update), so it runs
// where the parameters are. The formulas stand beside the rules; trainer/optim has them for memory of the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trainer/core/layout.h"
#include "trainer/core/schedule.h"

namespace lockstep::trainer::core {

// In the formulas, g is the gradient times Update::gradient_scale, p the parameter, rate and decay those of p's group.

// Stochastic gradient descent with momentum: d = g + decay p; v = momentum v + d; p = p - rate v. With `nesterov`,
// p = p - rate (d + momentum v).
struct Sgd {
  double momentum = 0.9;
  bool nesterov = false;
};

// Adam's moments with bias correction, and weight decay apart from the gradient (Loshchilov and Hutter): m = beta1 m +
// (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; p = (1 - rate decay) p - rate m' / (sqrt(v') + epsilon); m' = m / (1 -
// beta1^t) and v' = v / (1 - beta2^t) in step t, from 1.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
};

// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg): v = momentum v + rate ratio (g + decay p); p = p - v.
// The ratio of a tensor in a group with `trust_ratio` is trust_coefficient |p| / (|g| + decay |p|), by Euclidean norms
// (norm.h); it is 1 where |p| or the divisor is 0, and in other groups.
struct Lars {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
};

using Rule = std::variant<Sgd, AdamW, Lars>;

// What parameters of one kind have in common.
struct Group {
  double weight_decay = 0;
  double rate_multiplier = 1;  // of the schedule's learning rate
  bool trust_ratio = false;    // of Lars
};

struct Optimizer {
  Rule rule;
  Schedule schedule;
  Group matrices;  // segments with Segment::decay
  Group vectors;   // all others: biases, and what normalisations learn
};

// Names of the arenas of state that the rule needs ("momentum"), in the order of Update::slots; all start at zero.
const std::vector<std::string>& slots_of(const Rule& rule);

// The group of a parameter.
inline const Group& group_of(const Optimizer& optimizer, const Segment& segment) {
  return segment.decay ? optimizer.matrices : optimizer.vectors;
}

// The group's learning rate in the step that follows `step` committed ones.
inline double learning_rate(const Optimizer& optimizer, const Group& group, std::int64_t step) {
  return learning_rate(optimizer.schedule, step) * group.rate_multiplier;
}

// One update over flat arenas of a backend's memory, which share a layout and its element type. Padding stays zero.
struct Update {
  const Layout* layout = nullptr;
  void* parameters = nullptr;       // (layout->count)
  const void* gradients = nullptr;  // (layout->count)
  std::span<void* const> slots;     // one arena, (layout->count), for each of slots_of()
  double gradient_scale = 1;        // of clipping: gradients are multiplied by it
  std::int64_t step = 0;            // steps committed before this one; the schedule's clock
};

// The number that a segment's parameters (`part` 0) or slot part - 1 have in the digest of a state with `slots` slots.
constexpr size_t array_of(size_t segment, size_t part, size_t slots) {
  return segment * (slots + 1) + part;
}

}  // namespace lockstep::trainer::core
