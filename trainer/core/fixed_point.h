// Real numbers as int64 times a power of two, so that sums of them are bitwise identical in any order. A number is
// rounded once (to nearest, ties to even); what does not fit is counted, never wrapped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

// A rounded number is below 2^50 in size: the rounding trick needs it, and 2^12 of them can be summed in an int64.
inline constexpr int kRoundedBits = 50;
inline constexpr std::int64_t kMaxSummands = std::int64_t{1} << 12;
// The target size of the next step's largest sum. The 12 bits below the limit are room for growth from step to step,
// and 38 bits leave 14 more than float32 has.
inline constexpr int kTargetBits = 38;
inline constexpr int kFirstExponent = 30;  // before a first sum is known
inline constexpr int kRetreat = 20;        // bits given up when a step overflowed and is recomputed
inline constexpr int kMaxExponent = 400;   // in size

struct RoundingFlags {
  std::int64_t overflow = 0;    // 1: a finite number was too large for the exponent
  std::int64_t not_finite = 0;  // 1: a NaN or an infinity was met
};

// sums[i] (= or +=, when `add`) round(values[i] * 2^exponent), and values[i] = 0. Elements that do not fit count as 0.
// `values` are float32 or float64 by `real`.
void round_and_clear(void* values, ElementType real, size_t count, int exponent, bool add, std::int64_t* sums,
                     int threads, RoundingFlags& flags);

// The same for doubles that stay as they are.
void round_into(const double* values, size_t count, int exponent, bool add, std::int64_t* sums, RoundingFlags& flags);

// values[i] = sums[i] * 2^-exponent. Returns the largest |sums[i]|.
std::uint64_t unround(const std::int64_t* sums, size_t count, int exponent, void* values, ElementType real,
                      int threads);
std::uint64_t unround(const std::int64_t* sums, size_t count, int exponent, double* values);

// The exponent for the next step after the largest sum of this one was `largest` under `exponent`.
int next_exponent(int exponent, std::uint64_t largest);

}  // namespace lockstep::trainer::core
