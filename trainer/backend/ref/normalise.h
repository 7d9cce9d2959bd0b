// The backward pass that both norms share.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::trainer::backend::ref {

// Gradient of (x - mean) / deviation over `count` values `stride` apart, for both norms.
template <typename Give>
void normalise_backward(const double* x, double mean, double inverse, size_t count, size_t stride,
                        const std::vector<double>& g, const Give& give) {
  double sum_g = 0, sum_gx = 0;
  for (size_t i = 0; i < count; ++i) {
    sum_g += g[i];
    sum_gx += g[i] * (x[i * stride] - mean) * inverse;
  }
  auto n = static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    double normal = (x[i * stride] - mean) * inverse;
    give(i * stride, inverse * (g[i] - sum_g / n - normal * sum_gx / n));
  }
}

}  // namespace lockstep::trainer::backend::ref
