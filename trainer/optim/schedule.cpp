#include "trainer/optim/schedule.h"

#include <algorithm>

namespace lockstep::trainer::optim {

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

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  std::int64_t span = schedule.total_steps - schedule.warmup_steps;
  if (schedule.total_steps == 0 || span <= 0) return schedule.peak;
  double t = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(span));
  double share = 0.5 * (1 + cosine_of_half_turns(t));
  return schedule.peak * (schedule.final_share + (1 - schedule.final_share) * share);
}

}  // namespace lockstep::trainer::optim
