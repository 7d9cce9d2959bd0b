// The learning rate as a pure function of the step: it has no state, and no bit of it depends on a maths library.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace lockstep::trainer::core {

// What follows the warm-up: the peak, or a fall from it.
struct ConstantRate {};

// Half a cosine down to `final_share` of the peak at `total_steps`. No steps after the warm-up: constant.
struct CosineDecay {
  std::int64_t total_steps = 0;  // warm-up included
  double final_share = 0.1;
};

// The peak times `factor` for each milestone that the committed steps have reached.
struct StepDecay {
  std::vector<std::int64_t> milestones;  // committed steps, in any order
  double factor = 0.1;
};

// peak (final_share + (1 - final_share) (1 - t)^power), where t goes from 0 after the warm-up to 1 at `total_steps`. No
// steps after the warm-up: constant.
struct PolynomialDecay {
  std::int64_t total_steps = 0;  // warm-up included
  int power = 2;                 // whole, from 1: a root would come from a maths library
  double final_share = 0;
};

using Decay = std::variant<ConstantRate, CosineDecay, StepDecay, PolynomialDecay>;

// Linear warm-up to `peak` (step k of W has rate peak k / W, from k = 1), then `decay`.
struct Schedule {
  double peak = 1e-3;
  std::int64_t warmup_steps = 0;
  Decay decay;
};

// Of the step that follows `step` committed ones.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace lockstep::trainer::core
