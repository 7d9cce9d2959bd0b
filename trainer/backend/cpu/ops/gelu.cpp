#include "trainer/backend/cpu/elementwise.h"

namespace lockstep::trainer::backend::cpu {

Needs needs_of(const core::ops::Gelu&, const Dimensions&, const Team&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Gelu&, Site site) {
  using GeluKernel = ElementwiseKernel<&RowKernels::gelu, &RowKernels::gelu_backward, SlopeFrom::kInput>;
  return std::make_unique<GeluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
