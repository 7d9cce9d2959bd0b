#include "trainer/backend/cuda/kernels/layer_norm.h"

#include "trainer/backend/cuda/kernels/column_sums.h"

namespace lockstep::trainer::cuda {

namespace {

template <typename Element>
__global__ void forward_kernel(const Element* x, const float* gain, const float* shift, float* mean, float* inverse,
                               Element* y, std::int64_t rows, std::int64_t width, float epsilon) {
  const std::int64_t row = row_of_warp(), lane = lane_of_thread();
  if (row >= rows) return;  // the whole warp
  const Element* from = x + row * width;
  Element* to = y + row * width;
  const float share = 1.0f / static_cast<float>(width);
  float sum = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) sum += wide(from[c]);
  const float m = warp_sum(sum) * share;
  float squares = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) squares += (wide(from[c]) - m) * (wide(from[c]) - m);
  const float inv = 1.0f / sqrtf(warp_sum(squares) * share + epsilon);
  if (lane == 0) {
    mean[row] = m;
    inverse[row] = inv;
  }
  for (std::int64_t c = lane; c < width; c += kWarpSize) {
    to[c] = rounded<Element>((wide(from[c]) - m) * inv * gain[c] + shift[c]);
  }
}

template <typename Element>
__global__ void backward_kernel(const Element* x, const float* gain, const float* mean, const float* inverse,
                                const Element* dy, Element* dx, std::int64_t rows, std::int64_t width,
                                bool accumulate) {
  const std::int64_t row = row_of_warp(), lane = lane_of_thread();
  if (row >= rows) return;  // the whole warp
  const Element* from = x + row * width;
  const Element* g = dy + row * width;
  Element* to = dx + row * width;
  const float m = mean[row], inv = inverse[row], share = 1.0f / static_cast<float>(width);
  float sum_g = 0, sum_gx = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) {
    const float weighted = wide(g[c]) * gain[c];
    sum_g += weighted;
    sum_gx += weighted * (wide(from[c]) - m) * inv;
  }
  const float a = warp_sum(sum_g) * share, b = warp_sum(sum_gx) * share;
  for (std::int64_t c = lane; c < width; c += kWarpSize) {
    put(to + c, inv * (wide(g[c]) * gain[c] - a - (wide(from[c]) - m) * inv * b), accumulate);
  }
}

// partial_gain and partial_shift (chunks, width).
template <typename Element>
__global__ void sum_chunks_kernel(const Element* x, const float* mean, const float* inverse, const Element* dy,
                                  float* partial_gain, float* partial_shift, std::int64_t rows, std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  float gain = 0, shift = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const float g = wide(dy[row * width + part.column]);
    gain += g * (wide(x[row * width + part.column]) - mean[row]) * inverse[row];
    shift += g;
  }
  partial_gain[part.chunk * width + part.column] = gain;
  partial_shift[part.chunk * width + part.column] = shift;
}

}  // namespace

template <typename Element>
CudaError layer_norm_forward(CudaStream* stream, const Element* x, const float* gain, const float* shift, float* mean,
                             float* inverse, Element* y, std::int64_t rows, std::int64_t width, float epsilon) {
  return launch(forward_kernel<Element>, row_blocks(rows), kRowThreads, 0, stream, x, gain, shift, mean, inverse, y,
                rows, width, epsilon);
}

template <typename Element>
CudaError layer_norm_backward(CudaStream* stream, const Element* x, const float* gain, const float* mean,
                              const float* inverse, const Element* dy, Element* dx, std::int64_t rows,
                              std::int64_t width, bool accumulate) {
  return launch(backward_kernel<Element>, row_blocks(rows), kRowThreads, 0, stream, x, gain, mean, inverse, dy, dx,
                rows, width, accumulate);
}

template <typename Element>
CudaError layer_norm_parameters(CudaStream* stream, const Element* x, const float* mean, const float* inverse,
                                const Element* dy, float* dgain, float* dshift, std::int64_t rows, std::int64_t width,
                                void* scratch) {
  if (rows <= 0) return CudaError::kSuccess;
  const std::int64_t chunks = chunks_of(rows);
  auto* partial_gain = static_cast<float*>(scratch);
  float* partial_shift = partial_gain + chunks * width;
  CudaError error = launch(sum_chunks_kernel<Element>, column_blocks(width) * chunks, kColumnThreads, 0, stream, x,
                           mean, inverse, dy, partial_gain, partial_shift, rows, width);
  if (error != CudaError::kSuccess) return error;
  error =
      launch(add_chunks_kernel, column_blocks(width), kColumnThreads, 0, stream, partial_gain, dgain, chunks, width);
  if (error != CudaError::kSuccess) return error;
  return launch(add_chunks_kernel, column_blocks(width), kColumnThreads, 0, stream, partial_shift, dshift, chunks,
                width);
}

size_t layer_norm_scratch(std::int64_t rows, std::int64_t width) {
  return 2 * static_cast<size_t>(chunks_of(rows) * width) * sizeof(float);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                               \
  template CudaError layer_norm_forward(CudaStream*, const Element*, const float*, const float*, float*, float*,    \
                                        Element*, std::int64_t, std::int64_t, float);                               \
  template CudaError layer_norm_backward(CudaStream*, const Element*, const float*, const float*, const float*,     \
                                         const Element*, Element*, std::int64_t, std::int64_t, bool);               \
  template CudaError layer_norm_parameters(CudaStream*, const Element*, const float*, const float*, const Element*, \
                                           float*, float*, std::int64_t, std::int64_t, void*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
