// What the kernels of `cpu` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "trainer/backend/cpu/row_kernels.h"
#include "trainer/backend/node_kernel.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::cpu {

using core::RunContext;

// A node, and what computes it. The row kernels outlive the node's kernel.
struct Site {
  NodeSite at;
  const RowKernels& kernels;
  int threads;
};

#define LOCKSTEP_KERNEL(name)                                                     \
  Needs needs_of(const core::ops::name& op, const Dimensions& d, size_t threads); \
  std::unique_ptr<Kernel> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

// The windows that a pooling or a convolution of each channel by itself slides over an image. `d` is that of the node.
template <typename Op>
SlidImage windows_of(const Op& op, const Dimensions& d) {
  return {.height = d.height,
          .width = d.width,
          .channels = d.in,
          .out_height = d.out_height,
          .out_width = d.out_width,
          .kernel = static_cast<size_t>(op.kernel),
          .stride = static_cast<size_t>(op.stride),
          .padding = static_cast<size_t>(op.padding)};
}

// Loops over threads.
class Base : public NodeKernel<float> {
 public:
  explicit Base(Site site)
      : NodeKernel(std::move(site.at)), kernels_(site.kernels), threads_(static_cast<size_t>(site.threads)) {}

 protected:
  // Calls body(begin, end) with one range of [0, count) for each thread, in multiples of `grain`.
  template <typename Body>
  void share(size_t count, size_t grain, const Body& body) const {
    if (threads_ == 1) {
      body(size_t{0}, count);
      return;
    }
    const size_t part = share_of(count, grain);
    auto threads = static_cast<int>(threads_);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      size_t begin = std::min(count, static_cast<size_t>(i) * part);
      size_t end = std::min(count, begin + part);
      if (begin < end) body(begin, end);
    }
  }
  // The most that one of these ranges has.
  size_t share_of(size_t count, size_t grain) const {
    return ((count + threads_ - 1) / threads_ + grain - 1) / grain * grain;
  }
  template <typename Body>
  void share_rows(const Body& body) const {
    share(d_.rows, 1, body);
  }
  template <typename Body>
  void share_elements(const Body& body) const {
    share(elements(), 64, body);
  }
  template <typename Body>
  void share_columns(size_t columns, const Body& body) const {
    share(columns, 64, body);
  }

  const RowKernels& kernels_;
  const size_t threads_;
};

}  // namespace lockstep::trainer::backend::cpu
