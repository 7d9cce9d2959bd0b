// The learning rate as a pure function of the step: it has no state, and no bit of it depends on a maths library.
#pragma once

#include <cstdint>
#include <variant>

namespace lockstep::trainer::core {

// What follows the warm-up. Each falls from the peak to a share of it, and is constant from then on.
struct ConstantRate {};

// Half a cosine down to `final_share` of the peak at `total_steps`. No steps after the warm-up: constant.
struct CosineDecay {
  std::int64_t total_steps = 0;  // warm-up included
  double final_share = 0.1;
};

using Decay = std::variant<ConstantRate, CosineDecay>;

// Linear warm-up to `peak` (step k of W has rate peak k / W, from k = 1), then `decay`.
struct Schedule {
  double peak = 1e-3;
  std::int64_t warmup_steps = 0;
  Decay decay;
};

// Of the step that follows `step` committed ones.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace lockstep::trainer::core
