#include "trainer/backend/cuda/kernels/depthwise.h"

#include "trainer/backend/cuda/kernels/column_sums.h"
#include "trainer/backend/cuda/kernels/window.h"

namespace lockstep::trainer::cuda {

namespace {

// From (channels, window) to (window, channels), so that neighbouring threads load neighbouring weights.
__global__ void transpose_kernel(const float* weight, float* to, std::int64_t window, std::int64_t channels) {
  const std::int64_t i = thread_of_launch();
  if (i >= window * channels) return;
  const auto [tap, channel] = row_and_column(i, channels);
  to[i] = weight[channel * window + tap];
}

// A thread for each place of the window and each pack of channels. weight (window, channels).
template <int kCount, typename Element>
__global__ void forward_kernel(SlidImages k, const Element* x, const float* weight, const float* bias, Element* y,
                               std::int64_t packs) {
  const std::int64_t i = thread_of_launch();
  if (i >= packs) return;
  const auto [sample, row, column, pack] = image_place(i, k.out_height, k.out_width, k.channels / kCount);
  const Range rows = rows_inside(k, row, k.height), columns = rows_inside(k, column, k.width);
  Pack<float, kCount> sum = {};
  for (int kh = rows.begin; kh < rows.end; ++kh) {
    const int h = row * k.stride - k.padding + kh;
    for (int kw = columns.begin; kw < columns.end; ++kw) {
      const std::int64_t pixel = (sample * k.height + h) * k.width + column * k.stride - k.padding + kw;
      const Pack<float, kCount> value = load_wide<kCount>(x + pixel * k.channels + pack * kCount);
      const Pack<float, kCount> w = load<kCount>(weight + (kh * k.kernel + kw) * k.channels + pack * kCount);
      for (int c = 0; c < kCount; ++c) sum.at[c] += value.at[c] * w.at[c];
    }
  }
  if (bias != nullptr) {
    for (int c = 0; c < kCount; ++c) sum.at[c] += bias[pack * kCount + c];
  }
  store_rounded(y + i * kCount, sum);
}

// A thread for each pixel of the images and each pack of channels. weight (window, channels).
template <int kCount, typename Element>
__global__ void input_kernel(SlidImages k, const Element* dy, const float* weight, Element* dx, std::int64_t packs,
                             bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= packs) return;
  const auto [sample, row, column, pack] = image_place(i, k.height, k.width, k.channels / kCount);
  const Range rows = windows_with(k, row, k.out_height), columns = windows_with(k, column, k.out_width);
  Pack<float, kCount> sum = {};
  for (int oh = rows.begin; oh < rows.end; ++oh) {
    const int kh = row + k.padding - oh * k.stride;
    for (int ow = columns.begin; ow < columns.end; ++ow) {
      const int kw = column + k.padding - ow * k.stride;
      const std::int64_t place = (sample * k.out_height + oh) * k.out_width + ow;
      const Pack<float, kCount> gradient = load_wide<kCount>(dy + place * k.channels + pack * kCount);
      const Pack<float, kCount> w = load<kCount>(weight + (kh * k.kernel + kw) * k.channels + pack * kCount);
      for (int c = 0; c < kCount; ++c) sum.at[c] += gradient.at[c] * w.at[c];
    }
  }
  put(dx + i * kCount, sum, accumulate);
}

// Taps of the window whose sums a thread of weight_kernel has in registers: a window of 3 x 3.
constexpr int kTaps = 9;
// Rows of partial sums that a thread of fold_kernel adds up.
constexpr std::int64_t kFold = 64;

// partial (chunks, window, channels). A thread for each chunk of kChunk places, each kTaps of the window, and each
// channel.
template <typename Element>
__global__ void weight_kernel(SlidImages k, const Element* x, const Element* dy, float* partial, std::int64_t places,
                              std::int64_t groups, std::int64_t threads) {
  const std::int64_t i = thread_of_launch();
  if (i >= threads) return;
  const auto [part, channel] = row_and_column(i, k.channels);
  const auto [chunk, group] = row_and_column(part, groups);
  const std::int64_t begin = chunk * kChunk, end = begin + kChunk < places ? begin + kChunk : places;
  int tap_rows[kTaps], tap_columns[kTaps];  // a tap after the last is below the window
  float sums[kTaps] = {};
  for (int t = 0; t < kTaps; ++t) {
    const auto [row, column] = row_and_column(group * kTaps + t, k.kernel);
    tap_rows[t] = static_cast<int>(row);
    tap_columns[t] = static_cast<int>(column);
  }
  ImagePlace at = image_place(begin, k.out_height, k.out_width, 1);
  for (std::int64_t place = begin; place < end; ++place) {
    const float gradient = wide(dy[place * k.channels + channel]);
    const int top = at.row * k.stride - k.padding, left = at.column * k.stride - k.padding;
    for (int t = 0; t < kTaps; ++t) {
      const int h = top + tap_rows[t], w = left + tap_columns[t];
      if (h < 0 || h >= k.height || w < 0 || w >= k.width) continue;
      const std::int64_t pixel = (at.sample * k.height + h) * k.width + w;
      sums[t] += gradient * wide(x[pixel * k.channels + channel]);
    }
    if (++at.column < k.out_width) continue;
    at.column = 0;
    if (++at.row < k.out_height) continue;
    at.row = 0;
    ++at.sample;
  }
  const std::int64_t window = k.kernel * k.kernel;
  for (int t = 0; t < kTaps; ++t) {
    const std::int64_t tap = group * kTaps + t;
    if (tap < window) partial[(chunk * window + tap) * k.channels + channel] = sums[t];
  }
}

// to (folded rows, columns) = sums of kFold rows of from (rows, columns).
__global__ void fold_kernel(const float* from, float* to, std::int64_t rows, std::int64_t columns, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const auto [folded, column] = row_and_column(i, columns);
  const std::int64_t begin = folded * kFold, end = begin + kFold < rows ? begin + kFold : rows;
  float sum = 0;
  for (std::int64_t row = begin; row < end; ++row) sum += from[row * columns + column];
  to[i] = sum;
}

// dweight (channels, window) += the sums of the rows of partial (rows, window, channels).
__global__ void add_weight_kernel(const float* partial, float* dweight, std::int64_t rows, std::int64_t window,
                                  std::int64_t channels) {
  const std::int64_t i = thread_of_launch(), columns = window * channels;
  if (i >= columns) return;
  const auto [tap, channel] = row_and_column(i, channels);
  float sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) sum += partial[row * columns + i];
  dweight[channel * window + tap] += sum;
}

std::int64_t window_of(const SlidImages& images) {
  return std::int64_t{images.kernel} * images.kernel;
}

}  // namespace

template <typename Element>
CudaError depthwise_forward(CudaStream* stream, const SlidImages& images, const Element* x, const float* weight,
                            const float* bias, Element* y, void* scratch) {
  const int count = pack_of(images.channels);
  const std::int64_t window = window_of(images), packs = images.places() * images.channels / count;
  if (packs <= 0) return CudaError::kSuccess;
  auto* transposed = static_cast<float*>(scratch);
  Launches run(stream);
  run(transpose_kernel, blocks_for(window * images.channels), kThreads, weight, transposed, window, images.channels);
  run(count == 4 ? forward_kernel<4, Element> : forward_kernel<1, Element>, blocks_for(packs), kThreads, images, x,
      transposed, bias, y, packs);
  return run.error();
}

template <typename Element>
CudaError depthwise_backward_input(CudaStream* stream, const SlidImages& images, const Element* dy, const float* weight,
                                   Element* dx, bool accumulate, void* scratch) {
  const int count = pack_of(images.channels);
  const std::int64_t window = window_of(images), packs = images.elements() / count;
  if (packs <= 0) return CudaError::kSuccess;
  auto* transposed = static_cast<float*>(scratch);
  Launches run(stream);
  run(transpose_kernel, blocks_for(window * images.channels), kThreads, weight, transposed, window, images.channels);
  run(count == 4 ? input_kernel<4, Element> : input_kernel<1, Element>, blocks_for(packs), kThreads, images, dy,
      transposed, dx, packs, accumulate);
  return run.error();
}

template <typename Element>
CudaError depthwise_backward_weight(CudaStream* stream, const SlidImages& images, const Element* x, const Element* dy,
                                    float* dweight, void* scratch) {
  const std::int64_t window = window_of(images), columns = window * images.channels;
  const std::int64_t groups = blocks_for(window, kTaps);
  std::int64_t rows = chunks_of(images.places());
  if (rows <= 0) return CudaError::kSuccess;
  const std::int64_t threads = rows * groups * images.channels;
  auto* partial = static_cast<float*>(scratch);  // (rows, window, channels)
  Launches run(stream);
  run(weight_kernel<Element>, blocks_for(threads), kThreads, images, x, dy, partial, images.places(), groups, threads);
  while (rows > kFold) {
    float* const folded = partial + rows * columns;
    const std::int64_t sums = blocks_for(rows, kFold);
    run(fold_kernel, blocks_for(sums * columns), kThreads, partial, folded, rows, columns, sums * columns);
    partial = folded;
    rows = sums;
  }
  run(add_weight_kernel, blocks_for(columns), kThreads, partial, dweight, rows, window, images.channels);
  return run.error();
}

size_t depthwise_scratch(const SlidImages& images) {
  return static_cast<size_t>(window_of(images) * images.channels) * sizeof(float);
}

size_t depthwise_weight_scratch(const SlidImages& images) {
  std::int64_t rows = chunks_of(images.places()), all = rows;
  for (; rows > kFold; all += rows) rows = blocks_for(rows, kFold);
  return static_cast<size_t>(all * window_of(images) * images.channels) * sizeof(float);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                                  \
  template CudaError depthwise_forward(CudaStream*, const SlidImages&, const Element*, const float*, const float*,     \
                                       Element*, void*);                                                               \
  template CudaError depthwise_backward_input(CudaStream*, const SlidImages&, const Element*, const float*, Element*,  \
                                              bool, void*);                                                            \
  template CudaError depthwise_backward_weight(CudaStream*, const SlidImages&, const Element*, const Element*, float*, \
                                               void*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
