#include "trainer/core/norm.h"

#include <cmath>

#include "trainer/core/parallel.h"

namespace lockstep::trainer::core {

namespace {

template <typename Real>
double sum_of_squares(const Real* data, size_t count) {
  double lanes[8] = {};  // fixed lanes let the compiler use vectors without changing the order of the sums
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t k = 0; k < 8; ++k) {
      double x = data[i + k];
      lanes[k] += x * x;
    }
  }
  for (size_t k = 0; i < count; ++i, ++k) {
    double x = data[i];
    lanes[k] += x * x;
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <typename Real>
void sum_blocks(const Real* data, size_t count, int threads, std::vector<double>& sums) {
  for_blocks(count, threads,
             [&](size_t block, size_t begin, size_t end) { sums[block] = sum_of_squares(data + begin, end - begin); });
}

}  // namespace

double NormTree::norm(const void* data, size_t count, ElementType real, int threads) {
  if (count == 0) return 0;
  const size_t blocks = blocks_of(count);
  if (sums_.size() < blocks) sums_.resize(blocks);
  if (real == ElementType::kFloat32) {
    sum_blocks(static_cast<const float*>(data), count, threads, sums_);
  } else {
    sum_blocks(static_cast<const double*>(data), count, threads, sums_);
  }
  for (size_t stride = 1; stride < blocks; stride *= 2) {
    for (size_t i = 0; i + stride < blocks; i += 2 * stride) sums_[i] += sums_[i + stride];
  }
  return std::sqrt(sums_[0]);
}

}  // namespace lockstep::trainer::core
