#include "trainer/core/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trainer/core/parallel.h"

namespace lockstep::trainer::core {

namespace {

// Adding 1.5 * 2^52 leaves the nearest integer in the low bits of the sum: a rounding that compiles to vectors.
constexpr double kMagic = 6755399441055744.0;
constexpr double kLimit = static_cast<double>(std::int64_t{1} << kRoundedBits);

inline std::int64_t round_to_integer(double x) {
  return std::bit_cast<std::int64_t>(x + kMagic) - std::bit_cast<std::int64_t>(kMagic);
}

// Returns whether everything fitted. Branch-free, so that it vectorises; only a misfit is searched for its reason.
template <typename Real>
bool round_block(const Real* values, size_t count, double scale, bool add, std::int64_t* sums) {
  std::int64_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    double x = static_cast<double>(values[i]) * scale;
    bool fits = std::fabs(x) < kLimit;  // false for NaN as well
    std::int64_t q = round_to_integer(fits ? x : 0.0);
    bad |= static_cast<std::int64_t>(!fits);
    sums[i] = (add ? sums[i] : 0) + q;
  }
  return bad == 0;
}

template <typename Real>
RoundingFlags why(const Real* values, size_t count, double scale) {
  RoundingFlags flags;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) {
      flags.not_finite = 1;
    } else if (!(std::fabs(static_cast<double>(values[i]) * scale) < kLimit)) {
      flags.overflow = 1;
    }
  }
  return flags;
}

void merge(RoundingFlags& into, const RoundingFlags& from) {
  into.overflow |= from.overflow;
  into.not_finite |= from.not_finite;
}

template <typename Real>
void round_and_clear_typed(Real* values, size_t count, int exponent, bool add, std::int64_t* sums, int threads,
                           RoundingFlags& flags) {
  double scale = std::ldexp(1.0, exponent);
  for_blocks(count, threads, [&](size_t, size_t begin, size_t end) {
    if (!round_block(values + begin, end - begin, scale, add, sums + begin)) {
      RoundingFlags found = why(values + begin, end - begin, scale);
#pragma omp critical(lockstep_rounding_flags)
      merge(flags, found);
    }
    std::fill(values + begin, values + end, Real{0});
  });
}

template <typename Real>
std::uint64_t unround_block(const std::int64_t* sums, size_t count, double scale, Real* values) {
  std::uint64_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    std::int64_t q = sums[i];
    auto magnitude = static_cast<std::uint64_t>(q < 0 ? -q : q);
    largest = magnitude > largest ? magnitude : largest;
    values[i] = static_cast<Real>(static_cast<double>(q) * scale);
  }
  return largest;
}

template <typename Real>
std::uint64_t unround_typed(const std::int64_t* sums, size_t count, int exponent, Real* values, int threads) {
  double scale = std::ldexp(1.0, -exponent);
  std::uint64_t largest = 0;
  for_blocks(count, threads, [&](size_t, size_t begin, size_t end) {
    std::uint64_t found = unround_block(sums + begin, end - begin, scale, values + begin);
#pragma omp critical(lockstep_largest_sum)
    largest = std::max(largest, found);
  });
  return largest;
}

}  // namespace

void round_and_clear(void* values, ElementType real, size_t count, int exponent, bool add, std::int64_t* sums,
                     int threads, RoundingFlags& flags) {
  if (real == ElementType::kFloat32) {
    round_and_clear_typed(static_cast<float*>(values), count, exponent, add, sums, threads, flags);
  } else {
    round_and_clear_typed(static_cast<double*>(values), count, exponent, add, sums, threads, flags);
  }
}

void round_into(const double* values, size_t count, int exponent, bool add, std::int64_t* sums, RoundingFlags& flags) {
  double scale = std::ldexp(1.0, exponent);
  if (!round_block(values, count, scale, add, sums)) merge(flags, why(values, count, scale));
}

std::uint64_t unround(const std::int64_t* sums, size_t count, int exponent, void* values, ElementType real,
                      int threads) {
  return real == ElementType::kFloat32 ? unround_typed(sums, count, exponent, static_cast<float*>(values), threads)
                                       : unround_typed(sums, count, exponent, static_cast<double*>(values), threads);
}

std::uint64_t unround(const std::int64_t* sums, size_t count, int exponent, double* values) {
  return unround_block(sums, count, std::ldexp(1.0, -exponent), values);
}

int next_exponent(int exponent, std::uint64_t largest) {
  if (largest == 0) return exponent;
  int bits = std::bit_width(largest);
  return std::clamp(exponent + kTargetBits - bits, -kMaxExponent, kMaxExponent);
}

}  // namespace lockstep::trainer::core
