#include "trainer/backend/cuda/kernels/layer_norm.h"

#include "trainer/backend/cuda/kernels/column_sums.h"

namespace lockstep::trainer::cuda {

namespace {

__global__ void forward_kernel(const float* x, const float* gain, const float* shift, float* mean, float* inverse,
                               float* y, std::int64_t rows, std::int64_t width, float epsilon) {
  const std::int64_t row = row_of_warp(), lane = lane_of_thread();
  if (row >= rows) return;  // the whole warp
  const float* from = x + row * width;
  float* to = y + row * width;
  const float share = 1.0f / static_cast<float>(width);
  float sum = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) sum += from[c];
  const float m = warp_sum(sum) * share;
  float squares = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) squares += (from[c] - m) * (from[c] - m);
  const float inv = 1.0f / sqrtf(warp_sum(squares) * share + epsilon);
  if (lane == 0) {
    mean[row] = m;
    inverse[row] = inv;
  }
  for (std::int64_t c = lane; c < width; c += kWarpSize) to[c] = (from[c] - m) * inv * gain[c] + shift[c];
}

__global__ void backward_kernel(const float* x, const float* gain, const float* mean, const float* inverse,
                                const float* dy, float* dx, std::int64_t rows, std::int64_t width, bool accumulate) {
  const std::int64_t row = row_of_warp(), lane = lane_of_thread();
  if (row >= rows) return;  // the whole warp
  const float* from = x + row * width;
  const float* g = dy + row * width;
  float* to = dx + row * width;
  const float m = mean[row], inv = inverse[row], share = 1.0f / static_cast<float>(width);
  float sum_g = 0, sum_gx = 0;
  for (std::int64_t c = lane; c < width; c += kWarpSize) {
    const float weighted = g[c] * gain[c];
    sum_g += weighted;
    sum_gx += weighted * (from[c] - m) * inv;
  }
  const float a = warp_sum(sum_g) * share, b = warp_sum(sum_gx) * share;
  for (std::int64_t c = lane; c < width; c += kWarpSize) {
    put(to + c, inv * (g[c] * gain[c] - a - (from[c] - m) * inv * b), accumulate);
  }
}

// partial_gain and partial_shift (chunks, width).
__global__ void sum_chunks_kernel(const float* x, const float* mean, const float* inverse, const float* dy,
                                  float* partial_gain, float* partial_shift, std::int64_t rows, std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  float gain = 0, shift = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const float g = dy[row * width + part.column];
    gain += g * (x[row * width + part.column] - mean[row]) * inverse[row];
    shift += g;
  }
  partial_gain[part.chunk * width + part.column] = gain;
  partial_shift[part.chunk * width + part.column] = shift;
}

}  // namespace

CudaError layer_norm_forward(CudaStream* stream, const float* x, const float* gain, const float* shift, float* mean,
                             float* inverse, float* y, std::int64_t rows, std::int64_t width, float epsilon) {
  return launch(forward_kernel, row_blocks(rows), kRowThreads, 0, stream, x, gain, shift, mean, inverse, y, rows, width,
                epsilon);
}

CudaError layer_norm_backward(CudaStream* stream, const float* x, const float* gain, const float* mean,
                              const float* inverse, const float* dy, float* dx, std::int64_t rows, std::int64_t width,
                              bool accumulate) {
  return launch(backward_kernel, row_blocks(rows), kRowThreads, 0, stream, x, gain, mean, inverse, dy, dx, rows, width,
                accumulate);
}

CudaError layer_norm_parameters(CudaStream* stream, const float* x, const float* mean, const float* inverse,
                                const float* dy, float* dgain, float* dshift, std::int64_t rows, std::int64_t width,
                                void* scratch) {
  if (rows <= 0) return CudaError::kSuccess;
  const std::int64_t chunks = chunks_of(rows);
  auto* partial_gain = static_cast<float*>(scratch);
  float* partial_shift = partial_gain + chunks * width;
  CudaError error = launch(sum_chunks_kernel, column_blocks(width) * chunks, kColumnThreads, 0, stream, x, mean,
                           inverse, dy, partial_gain, partial_shift, rows, width);
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

}  // namespace lockstep::trainer::cuda
