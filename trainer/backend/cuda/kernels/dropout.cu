#include "trainer/backend/cuda/kernels/dropout.h"

#include "trainer/backend/cuda/kernels/device.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::cuda {

namespace {

template <typename Element>
__global__ void dropout_kernel(DropoutDraw draw, const Element* x, Element* y, std::int64_t count, std::int64_t each,
                               bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const auto [sample, element] = row_and_column(i, each);
  const std::uint64_t place = draw.first_sample + static_cast<std::uint64_t>(sample);
  const std::uint64_t key = core::derive(core::derive(draw.step_key, place), draw.layer);
  const bool kept = core::element_bits(key, static_cast<std::uint32_t>(element)) >= draw.threshold;
  put(y + i, wide(x[i]) * (kept ? draw.factor : 0.0f), accumulate);
}

}  // namespace

template <typename Element>
CudaError dropout(CudaStream* stream, const DropoutDraw& draw, const Element* x, Element* y, std::int64_t samples,
                  std::int64_t each, bool accumulate) {
  return launch(dropout_kernel<Element>, blocks_for(samples * each), kThreads, 0, stream, draw, x, y, samples * each,
                each, accumulate);
}

template CudaError dropout(CudaStream*, const DropoutDraw&, const float*, float*, std::int64_t, std::int64_t, bool);
template CudaError dropout(CudaStream*, const DropoutDraw&, const Bfloat16*, Bfloat16*, std::int64_t, std::int64_t,
                           bool);

}  // namespace lockstep::trainer::cuda
