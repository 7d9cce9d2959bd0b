// What the kernels of `ref` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <memory>
#include <utility>

#include "trainer/backend/node_kernel.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::ref {

using core::RunContext;

using Site = NodeSite;

#define LOCKSTEP_KERNEL(name)                                     \
  Needs needs_of(const core::ops::name& op, const Dimensions& d); \
  std::unique_ptr<Kernel> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

class Base : public NodeKernel<double> {
 public:
  explicit Base(Site site) : NodeKernel(std::move(site)) {}

 protected:
  // Adds or writes the gradient of element `at` of input `i`.
  void give(size_t i, size_t at, double value) const {
    if (dx(i) == nullptr) return;
    dx(i)[at] = accumulate(i) ? dx(i)[at] + value : value;
  }
};

}  // namespace lockstep::trainer::backend::ref
