#include "trainer/core/schedule.h"

#include <algorithm>

#include "trainer/core/power.h"

namespace lockstep::trainer::core {

namespace {

// cos(pi t) for t in [0, 1] by the Taylor series of the sine around the middle, to 1e-12.
double cosine_of_half_turns(double t) {
  double x = 3.14159265358979323846 * (0.5 - t);
  double square = x * x;
  double term = x, sum = x;
  for (int k = 3; k <= 19; k += 2) {
    term *= -square / (k * (k - 1));
    sum += term;
  }
  return sum;
}

// The share of the way from the end of the warm-up to a later `total_steps` that `step` committed steps have gone, in
// [0, 1].
double progress(const Schedule& schedule, std::int64_t total_steps, std::int64_t step) {
  const std::int64_t span = total_steps - schedule.warmup_steps;
  return std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(span));
}

// The rate after the warm-up, as a share of the peak.
double share(const ConstantRate&, const Schedule&, std::int64_t) {
  return 1;
}

double share(const CosineDecay& decay, const Schedule& schedule, std::int64_t step) {
  if (decay.total_steps <= schedule.warmup_steps) return 1;
  const double left = 0.5 * (1 + cosine_of_half_turns(progress(schedule, decay.total_steps, step)));
  return decay.final_share + (1 - decay.final_share) * left;
}

double share(const StepDecay& decay, const Schedule&, std::int64_t step) {
  return power(decay.factor, std::count_if(decay.milestones.begin(), decay.milestones.end(),
                                           [step](std::int64_t milestone) { return milestone <= step; }));
}

double share(const PolynomialDecay& decay, const Schedule& schedule, std::int64_t step) {
  if (decay.total_steps <= schedule.warmup_steps) return 1;
  const double left = power(1 - progress(schedule, decay.total_steps, step), decay.power);
  return decay.final_share + (1 - decay.final_share) * left;
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  return schedule.peak * std::visit([&](const auto& decay) { return share(decay, schedule, step); }, schedule.decay);
}

}  // namespace lockstep::trainer::core
