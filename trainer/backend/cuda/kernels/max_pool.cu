#include "trainer/backend/cuda/kernels/max_pool.h"

#include "trainer/backend/cuda/kernels/window.h"

namespace lockstep::trainer::cuda {

namespace {

// A thread for each place of the window and each pack of channels.
template <int kCount, typename Element>
__global__ void forward_kernel(SlidImages k, const Element* x, Element* y, std::int32_t* chosen, std::int64_t packs) {
  const std::int64_t i = thread_of_launch();
  if (i >= packs) return;
  const auto [sample, row, column, pack] = image_place(i, k.out_height, k.out_width, k.channels / kCount);
  const Range rows = rows_inside(k, row, k.height), columns = rows_inside(k, column, k.width);
  Pack<float, kCount> largest;
  Pack<std::int32_t, kCount> first;
  for (int c = 0; c < kCount; ++c) {
    largest.at[c] = -INFINITY;
    first.at[c] = rows.begin * k.kernel + columns.begin;
  }
  for (int kh = rows.begin; kh < rows.end; ++kh) {
    const int h = row * k.stride - k.padding + kh;
    for (int kw = columns.begin; kw < columns.end; ++kw) {
      const std::int64_t pixel = (sample * k.height + h) * k.width + column * k.stride - k.padding + kw;
      const Pack<float, kCount> value = load_wide<kCount>(x + pixel * k.channels + pack * kCount);
      for (int c = 0; c < kCount; ++c) {
        const bool nan = value.at[c] != value.at[c], found_nan = largest.at[c] != largest.at[c];
        if (!(value.at[c] > largest.at[c]) && (!nan || found_nan)) continue;
        largest.at[c] = value.at[c];
        first.at[c] = kh * k.kernel + kw;
      }
    }
  }
  store_rounded(y + i * kCount, largest);
  store(chosen + i * kCount, first);
}

// A thread for each pixel of the images and each pack of channels looks through the windows that hold the pixel. So no
// two threads add to one element.
template <int kCount, typename Element>
__global__ void backward_kernel(SlidImages k, const Element* dy, const std::int32_t* chosen, Element* dx,
                                std::int64_t packs, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= packs) return;
  const auto [sample, row, column, pack] = image_place(i, k.height, k.width, k.channels / kCount);
  const Range rows = windows_with(k, row, k.out_height), columns = windows_with(k, column, k.out_width);
  Pack<float, kCount> sum = {};
  for (int oh = rows.begin; oh < rows.end; ++oh) {
    const int kh = row + k.padding - oh * k.stride;
    for (int ow = columns.begin; ow < columns.end; ++ow) {
      const int number = kh * k.kernel + column + k.padding - ow * k.stride;
      const std::int64_t at = ((sample * k.out_height + oh) * k.out_width + ow) * k.channels + pack * kCount;
      const Pack<std::int32_t, kCount> choice = load<kCount>(chosen + at);
      const Pack<float, kCount> gradient = load_wide<kCount>(dy + at);
      for (int c = 0; c < kCount; ++c) {
        if (choice.at[c] == number) sum.at[c] += gradient.at[c];
      }
    }
  }
  put(dx + i * kCount, sum, accumulate);
}

}  // namespace

template <typename Element>
CudaError max_pool_forward(CudaStream* stream, const SlidImages& images, const Element* x, Element* y,
                           std::int32_t* chosen) {
  const int count = pack_of(images.channels);
  const std::int64_t packs = images.places() * images.channels / count;
  return launch(count == 4 ? forward_kernel<4, Element> : forward_kernel<1, Element>, blocks_for(packs), kThreads, 0,
                stream, images, x, y, chosen, packs);
}

template <typename Element>
CudaError max_pool_backward(CudaStream* stream, const SlidImages& images, const Element* dy, const std::int32_t* chosen,
                            Element* dx, bool accumulate) {
  const int count = pack_of(images.channels);
  const std::int64_t packs = images.elements() / count;
  return launch(count == 4 ? backward_kernel<4, Element> : backward_kernel<1, Element>, blocks_for(packs), kThreads, 0,
                stream, images, dy, chosen, dx, packs, accumulate);
}

template CudaError max_pool_forward(CudaStream*, const SlidImages&, const float*, float*, std::int32_t*);
template CudaError max_pool_forward(CudaStream*, const SlidImages&, const Bfloat16*, Bfloat16*, std::int32_t*);
template CudaError max_pool_backward(CudaStream*, const SlidImages&, const float*, const std::int32_t*, float*, bool);
template CudaError max_pool_backward(CudaStream*, const SlidImages&, const Bfloat16*, const std::int32_t*, Bfloat16*,
                                     bool);

}  // namespace lockstep::trainer::cuda
