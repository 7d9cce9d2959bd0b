#include "tests/trainer/backend/cuda/roofline/roofline.h"

#include <algorithm>

namespace lockstep::trainer::testing {

namespace {

double arithmetic_of(const Work& work, const Gpu& gpu) {
  return work.flops / (work.tensor_cores ? gpu.tensor_flops : gpu.float_flops);
}

}  // namespace

double seconds_of(const Work& work, const Gpu& gpu) {
  return std::max(arithmetic_of(work, gpu), work.bytes / gpu.bandwidth);
}

Bound bound_of(const std::vector<Work>& works, const Gpu& gpu) {
  Bound bound;
  for (const Work& work : works) {
    const double seconds = seconds_of(work, gpu);
    bound.seconds += seconds;
    if (seconds > arithmetic_of(work, gpu)) bound.memory_seconds += seconds;
    bound.kinds[work.kind] += seconds;
  }
  return bound;
}

}  // namespace lockstep::trainer::testing
