#include "trainer/backend/cuda/kernels/global_average_pool.h"

#include "trainer/backend/cuda/kernels/window.h"

namespace lockstep::trainer::cuda {

namespace {

// A block computes so many channels of a sample. For each, kParts threads sum every kParts-th pixel.
constexpr int kChannels = 32;
constexpr int kParts = 8;

template <typename Element>
__global__ void forward_kernel(const Element* x, Element* y, std::int64_t pixels, std::int64_t channels) {
  LOCKSTEP_SHARED(float, sums, kChannels* kParts);
  const auto [sample, group] = row_and_column(blockIdx.x, (channels + kChannels - 1) / kChannels);
  const int thread = static_cast<int>(threadIdx.x), part = thread / kChannels;
  const std::int64_t channel = group * kChannels + thread % kChannels;
  float sum = 0;
  if (channel < channels) {
    for (std::int64_t pixel = part; pixel < pixels; pixel += kParts) {
      sum += wide(x[(sample * pixels + pixel) * channels + channel]);
    }
  }
  sums[thread] = sum;
  for (int parts = kParts / 2; parts > 0; parts /= 2) {
    __syncthreads();
    if (part < parts) sums[thread] += sums[thread + parts * kChannels];
  }
  if (part != 0 || channel >= channels) return;
  y[sample * channels + channel] = rounded<Element>(sums[thread] / static_cast<float>(pixels));
}

template <int kCount, typename Element>
__global__ void backward_kernel(const Element* dy, Element* dx, std::int64_t pixels, std::int64_t channels,
                                std::int64_t packs, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= packs) return;
  const auto [pixel, pack] = row_and_column(i, channels / kCount);
  const std::int64_t sample = row_and_column(pixel, pixels).row;
  Pack<float, kCount> gradient = load_wide<kCount>(dy + sample * channels + pack * kCount);
  for (int c = 0; c < kCount; ++c) gradient.at[c] /= static_cast<float>(pixels);
  put(dx + i * kCount, gradient, accumulate);
}

}  // namespace

template <typename Element>
CudaError global_average_pool_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t samples,
                                      std::int64_t pixels, std::int64_t channels) {
  return launch(forward_kernel<Element>, samples * blocks_for(channels, kChannels), kChannels * kParts, 0, stream, x, y,
                pixels, channels);
}

template <typename Element>
CudaError global_average_pool_backward(CudaStream* stream, const Element* dy, Element* dx, std::int64_t samples,
                                       std::int64_t pixels, std::int64_t channels, bool accumulate) {
  const int count = pack_of(channels);
  const std::int64_t packs = samples * pixels * channels / count;
  return launch(count == 4 ? backward_kernel<4, Element> : backward_kernel<1, Element>, blocks_for(packs), kThreads, 0,
                stream, dy, dx, pixels, channels, packs, accumulate);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                                \
  template CudaError global_average_pool_forward(CudaStream*, const Element*, Element*, std::int64_t, std::int64_t,  \
                                                 std::int64_t);                                                      \
  template CudaError global_average_pool_backward(CudaStream*, const Element*, Element*, std::int64_t, std::int64_t, \
                                                  std::int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
