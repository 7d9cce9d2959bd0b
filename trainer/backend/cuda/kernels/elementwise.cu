#include "trainer/backend/cuda/kernels/elementwise.h"

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

namespace {

template <typename Element>
__global__ void add_kernel(const Element* a, const Element* b, Element* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = rounded<Element>(wide(a[i]) + wide(b[i]));
}

template <typename From, typename To>
__global__ void give_kernel(const From* from, To* to, std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(to + i, wide(from[i]), accumulate);
}

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
template <typename Element>
__global__ void relu_forward_kernel(const Element* x, Element* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i < count) y[i] = wide(x[i]) <= 0 ? rounded<Element>(0) : x[i];
}

template <typename Element>
__global__ void relu_backward_kernel(const Element* y, const Element* dy, Element* dx, std::int64_t count,
                                     bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(dx + i, wide(y[i]) <= 0 ? 0 : wide(dy[i]), accumulate);
}

template <typename Element>
__global__ void relu6_forward_kernel(const Element* x, Element* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float value = wide(x[i]);
  y[i] = rounded<Element>(value <= 0 ? 0 : value >= 6 ? 6 : value);
}

template <typename Element>
__global__ void relu6_backward_kernel(const Element* y, const Element* dy, Element* dx, std::int64_t count,
                                      bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float value = wide(y[i]);
  put(dx + i, value <= 0 || value >= 6 ? 0 : wide(dy[i]), accumulate);
}

constexpr float kRoot = 0.79788456080286535588f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// 0.5 (1 + tanh(u)) is the logistic function of 2 u: 1 / (1 + e) with e of this function. The bound keeps e finite.
__device__ float exponential_of_gelu(float x) {
  const float u = -2.0f * kRoot * (x + kCubic * x * x * x);
  return expf(u > 60.0f ? 60.0f : u);
}

template <typename Element>
__global__ void gelu_forward_kernel(const Element* x, Element* y, std::int64_t count) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float value = wide(x[i]);
  y[i] = rounded<Element>(value / (1.0f + exponential_of_gelu(value)));
}

template <typename Element>
__global__ void gelu_backward_kernel(const Element* x, const Element* dy, Element* dx, std::int64_t count,
                                     bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float v = wide(x[i]), e = exponential_of_gelu(v), s = 1.0f / (1.0f + e);  // 1 - s is e s, without cancellation
  const float slope = s + v * s * (e * s) * (2.0f * kRoot * (1.0f + 3.0f * kCubic * v * v));
  put(dx + i, wide(dy[i]) * slope, accumulate);
}

}  // namespace

template <typename Element>
CudaError add(CudaStream* stream, const Element* a, const Element* b, Element* y, std::int64_t count) {
  return launch(add_kernel<Element>, blocks_for(count), kThreads, 0, stream, a, b, y, count);
}

template <typename From, typename To>
CudaError give(CudaStream* stream, const From* from, To* to, std::int64_t count, bool accumulate) {
  return launch(give_kernel<From, To>, blocks_for(count), kThreads, 0, stream, from, to, count, accumulate);
}

template <typename Element>
CudaError relu_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count) {
  return launch(relu_forward_kernel<Element>, blocks_for(count), kThreads, 0, stream, x, y, count);
}

template <typename Element>
CudaError relu_backward(CudaStream* stream, const Element* y, const Element* dy, Element* dx, std::int64_t count,
                        bool accumulate) {
  return launch(relu_backward_kernel<Element>, blocks_for(count), kThreads, 0, stream, y, dy, dx, count, accumulate);
}

template <typename Element>
CudaError relu6_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count) {
  return launch(relu6_forward_kernel<Element>, blocks_for(count), kThreads, 0, stream, x, y, count);
}

template <typename Element>
CudaError relu6_backward(CudaStream* stream, const Element* y, const Element* dy, Element* dx, std::int64_t count,
                         bool accumulate) {
  return launch(relu6_backward_kernel<Element>, blocks_for(count), kThreads, 0, stream, y, dy, dx, count, accumulate);
}

template <typename Element>
CudaError gelu_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count) {
  return launch(gelu_forward_kernel<Element>, blocks_for(count), kThreads, 0, stream, x, y, count);
}

template <typename Element>
CudaError gelu_backward(CudaStream* stream, const Element* x, const Element* dy, Element* dx, std::int64_t count,
                        bool accumulate) {
  return launch(gelu_backward_kernel<Element>, blocks_for(count), kThreads, 0, stream, x, dy, dx, count, accumulate);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                           \
  template CudaError add(CudaStream*, const Element*, const Element*, Element*, std::int64_t);                  \
  template CudaError relu_forward(CudaStream*, const Element*, Element*, std::int64_t);                         \
  template CudaError relu_backward(CudaStream*, const Element*, const Element*, Element*, std::int64_t, bool);  \
  template CudaError relu6_forward(CudaStream*, const Element*, Element*, std::int64_t);                        \
  template CudaError relu6_backward(CudaStream*, const Element*, const Element*, Element*, std::int64_t, bool); \
  template CudaError gelu_forward(CudaStream*, const Element*, Element*, std::int64_t);                         \
  template CudaError gelu_backward(CudaStream*, const Element*, const Element*, Element*, std::int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

template CudaError give(CudaStream*, const float*, float*, std::int64_t, bool);
template CudaError give(CudaStream*, const float*, Bfloat16*, std::int64_t, bool);
template CudaError give(CudaStream*, const Bfloat16*, float*, std::int64_t, bool);
template CudaError give(CudaStream*, const Bfloat16*, Bfloat16*, std::int64_t, bool);

}  // namespace lockstep::trainer::cuda
