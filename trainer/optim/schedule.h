// The learning rate as a pure function of the step: it has no state, and no bit of it depends on a maths library.
#pragma once

#include <cstdint>

namespace lockstep::trainer::optim {

// Linear warm-up to `peak`, then half a cosine down to `peak` times `final_share` at `total_steps`, constant after.
struct Schedule {
  double peak = 1e-3;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // 0: constant after the warm-up
  double final_share = 0.1;
};

// Of the step that follows `step` committed ones.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace lockstep::trainer::optim
