// The threads of a backend, and the kernels that they run.
#pragma once

#include <algorithm>
#include <cstddef>

#include "trainer/backend/cpu/row_kernels.h"

namespace lockstep::trainer::backend::cpu {

struct Team {
  size_t threads;
  const RowKernels& kernels;  // outlive everything that the backend makes

  // The most that one thread has of `count`, in multiples of `grain`.
  size_t share_of(size_t count, size_t grain) const {
    return ((count + threads - 1) / threads + grain - 1) / grain * grain;
  }
  // Calls body(begin, end) with one range of [0, count) for each thread, in multiples of `grain`. Thread begin /
  // share_of(count, grain) has it.
  template <typename Body>
  void share(size_t count, size_t grain, const Body& body) const {
    if (threads == 1) {
      body(size_t{0}, count);
      return;
    }
    const size_t part = share_of(count, grain);
    const auto all = static_cast<int>(threads);
#pragma omp parallel for schedule(static, 1) num_threads(all)
    for (int i = 0; i < all; ++i) {
      const size_t begin = std::min(count, static_cast<size_t>(i) * part);
      const size_t end = std::min(count, begin + part);
      if (begin < end) body(begin, end);
    }
  }
};

}  // namespace lockstep::trainer::backend::cpu
