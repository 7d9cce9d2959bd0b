// Loops over fixed blocks on a fixed number of threads. What a block computes never depends on how many threads there
// are, so results are bitwise identical for every number.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::trainer::core {

inline constexpr size_t kBlock = 4096;  // elements: small enough for the first-level cache, large enough to pay

constexpr size_t blocks_of(size_t count) {
  return (count + kBlock - 1) / kBlock;
}

// Calls body(block, begin, end) for each block of [0, count). With one thread no OpenMP team is made, so nothing spins.
template <typename Body>
void for_blocks(size_t count, int threads, const Body& body) {
  auto blocks = static_cast<std::ptrdiff_t>(blocks_of(count));
  if (threads == 1) {
    for (std::ptrdiff_t i = 0; i < blocks; ++i) {
      auto begin = static_cast<size_t>(i) * kBlock;
      body(static_cast<size_t>(i), begin, std::min(count, begin + kBlock));
    }
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::ptrdiff_t i = 0; i < blocks; ++i) {
    auto begin = static_cast<size_t>(i) * kBlock;
    body(static_cast<size_t>(i), begin, std::min(count, begin + kBlock));
  }
}

// Calls body(begin, end) once for each thread that has a part of [0, count), and not at all for nothing. For what is
// faster in one long call.
template <typename Body>
void for_parts(size_t count, int threads, const Body& body) {
  const auto parts = static_cast<size_t>(threads);
  const size_t part = (blocks_of(count) + parts - 1) / parts * kBlock;
  if (count == 0) return;
  if (threads == 1 || part >= count) return body(size_t{0}, count);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int i = 0; i < threads; ++i) {
    const size_t begin = std::min(count, static_cast<size_t>(i) * part);
    const size_t end = std::min(count, begin + part);
    if (begin < end) body(begin, end);
  }
}

}  // namespace lockstep::trainer::core
