#include "trainer/backend/cuda/kernels/pixels.h"

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

namespace {

__global__ void spread_pixels_kernel(const std::uint8_t* pixels, const float* values, float* to, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) to[i] = values[i % 3 * 256 + pixels[i]];
}

}  // namespace

CudaError spread_pixels(CudaStream* stream, const std::uint8_t* pixels, const float* values, float* to,
                        std::int64_t count) {
  return launch(spread_pixels_kernel, blocks_for(count), kThreads, 0, stream, pixels, values, to, count);
}

}  // namespace lockstep::trainer::cuda
