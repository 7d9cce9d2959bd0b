#include "trainer/backend/cuda/kernels/elementwise.h"

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

namespace {

__global__ void add_kernel(const float* a, const float* b, float* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = a[i] + b[i];
}

__global__ void give_kernel(const float* from, float* to, std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(to + i, from[i], accumulate);
}

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
__global__ void relu_forward_kernel(const float* x, float* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = x[i] <= 0 ? 0 : x[i];
}

__global__ void relu_backward_kernel(const float* y, const float* dy, float* dx, std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(dx + i, y[i] <= 0 ? 0 : dy[i], accumulate);
}

__global__ void relu6_forward_kernel(const float* x, float* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = x[i] <= 0 ? 0 : x[i] >= 6 ? 6 : x[i];
}

__global__ void relu6_backward_kernel(const float* y, const float* dy, float* dx, std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(dx + i, y[i] <= 0 || y[i] >= 6 ? 0 : dy[i], accumulate);
}

constexpr float kRoot = 0.79788456080286535588f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// 0.5 (1 + tanh(u)) is the logistic function of 2 u: 1 / (1 + e) with e of this function. The bound keeps e finite.
__device__ float exponential_of_gelu(float x) {
  const float u = -2.0f * kRoot * (x + kCubic * x * x * x);
  return expf(u > 60.0f ? 60.0f : u);
}

__global__ void gelu_forward_kernel(const float* x, float* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = x[i] / (1.0f + exponential_of_gelu(x[i]));
}

__global__ void gelu_backward_kernel(const float* x, const float* dy, float* dx, std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float e = exponential_of_gelu(x[i]), s = 1.0f / (1.0f + e);  // 1 - s is e s, without cancellation
  const float slope = s + x[i] * s * (e * s) * (2.0f * kRoot * (1.0f + 3.0f * kCubic * x[i] * x[i]));
  put(dx + i, dy[i] * slope, accumulate);
}

}  // namespace

CudaError add(CudaStream* stream, const float* a, const float* b, float* y, std::int64_t count) {
  return launch(add_kernel, blocks_for(count), kThreads, 0, stream, a, b, y, count);
}

CudaError give(CudaStream* stream, const float* from, float* to, std::int64_t count, bool accumulate) {
  return launch(give_kernel, blocks_for(count), kThreads, 0, stream, from, to, count, accumulate);
}

CudaError relu_forward(CudaStream* stream, const float* x, float* y, std::int64_t count) {
  return launch(relu_forward_kernel, blocks_for(count), kThreads, 0, stream, x, y, count);
}

CudaError relu_backward(CudaStream* stream, const float* y, const float* dy, float* dx, std::int64_t count,
                        bool accumulate) {
  return launch(relu_backward_kernel, blocks_for(count), kThreads, 0, stream, y, dy, dx, count, accumulate);
}

CudaError relu6_forward(CudaStream* stream, const float* x, float* y, std::int64_t count) {
  return launch(relu6_forward_kernel, blocks_for(count), kThreads, 0, stream, x, y, count);
}

CudaError relu6_backward(CudaStream* stream, const float* y, const float* dy, float* dx, std::int64_t count,
                         bool accumulate) {
  return launch(relu6_backward_kernel, blocks_for(count), kThreads, 0, stream, y, dy, dx, count, accumulate);
}

CudaError gelu_forward(CudaStream* stream, const float* x, float* y, std::int64_t count) {
  return launch(gelu_forward_kernel, blocks_for(count), kThreads, 0, stream, x, y, count);
}

CudaError gelu_backward(CudaStream* stream, const float* x, const float* dy, float* dx, std::int64_t count,
                        bool accumulate) {
  return launch(gelu_backward_kernel, blocks_for(count), kThreads, 0, stream, x, dy, dx, count, accumulate);
}

}  // namespace lockstep::trainer::cuda
