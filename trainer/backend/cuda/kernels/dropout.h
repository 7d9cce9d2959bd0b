// Sets a random part of the elements to zero and scales the others up. The same elements as every other backend: the
// key of a sample is backend::dropout_key(), and its elements are drawn by core::element_bits().
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

struct DropoutDraw {
  std::uint64_t step_key = 0;      // derive(derive(seed, "dropout"), step)
  std::uint64_t first_sample = 0;  // of the micro-batch in the global batch
  std::uint64_t layer = 0;         // derive(0, the layer's name)
  std::uint32_t threshold = 0;     // dropout_threshold(rate): an element is kept when its bits are at least this
  float factor = 1;                // 1 / (1 - rate), of what is kept
};

// y (+)= x times `factor` where kept, else 0; x, y (samples, each). The same for the gradient, in the backward pass.
template <typename Element>
CudaError dropout(CudaStream* stream, const DropoutDraw& draw, const Element* x, Element* y, std::int64_t samples,
                  std::int64_t each, bool accumulate);

}  // namespace lockstep::trainer::cuda
