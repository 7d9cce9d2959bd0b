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

}  // namespace lockstep::trainer::core
