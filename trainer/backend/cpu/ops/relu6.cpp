#include "trainer/backend/cpu/elementwise.h"

namespace lockstep::trainer::backend::cpu {

Needs needs_of(const core::ops::Relu6&, const Dimensions&, const Team&) {
  return {.reads_output = true, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu6&, Site site) {
  using Relu6Kernel = ElementwiseKernel<&RowKernels::relu6, &RowKernels::relu6_backward, SlopeFrom::kOutput>;
  return std::make_unique<Relu6Kernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
