#include "trainer/backend/cpu/elementwise.h"

namespace lockstep::trainer::backend::cpu {

Needs needs_of(const core::ops::Relu&, const Dimensions&, const Team&) {
  return {.reads_output = true, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu&, Site site) {
  using ReluKernel = ElementwiseKernel<&RowKernels::relu, &RowKernels::relu_backward, SlopeFrom::kOutput>;
  return std::make_unique<ReluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
