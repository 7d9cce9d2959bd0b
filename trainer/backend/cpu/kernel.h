// What the kernels of `cpu` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <memory>
#include <utility>

#include "trainer/backend/cpu/team.h"
#include "trainer/backend/node_kernel.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::cpu {

using core::RunContext;

// A node, and what computes it.
struct Site {
  NodeSite at;
  Team team;
};

#define LOCKSTEP_KERNEL(name)                                                       \
  Needs needs_of(const core::ops::name& op, const Dimensions& d, const Team& team); \
  std::unique_ptr<Kernel> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

// The windows that a pooling or a convolution slides over an image. `d` is that of the node.
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
      : NodeKernel(std::move(site.at)), team_(site.team), kernels_(team_.kernels), threads_(team_.threads) {}

 protected:
  // See Team.
  template <typename Body>
  void share(size_t count, size_t grain, const Body& body) const {
    team_.share(count, grain, body);
  }
  size_t share_of(size_t count, size_t grain) const { return team_.share_of(count, grain); }
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

  const Team team_;
  const RowKernels& kernels_;
  const size_t threads_;
};

}  // namespace lockstep::trainer::backend::cpu
