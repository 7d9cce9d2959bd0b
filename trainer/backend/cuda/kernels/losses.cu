#include "trainer/backend/cuda/kernels/losses.h"

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

namespace {

// nats (rows): the loss of each row.
template <typename Element>
__global__ void probabilities_kernel(ClassifierShape k, const Element* scores, const std::int32_t* classes,
                                     float smoothing, float* p, double* nats) {
  const std::int64_t row = row_of_warp(), lane = lane_of_thread();
  if (row >= k.samples * k.positions) return;  // the whole warp
  const Element* from = scores + row * k.classes;
  float* to = p + row * k.classes;
  float largest = -INFINITY;
  for (std::int64_t c = lane; c < k.classes; c += kWarpSize) {
    const float score = wide(from[c]);
    largest = score > largest ? score : largest;
  }
  largest = warp_max(largest);
  float sum = 0;
  for (std::int64_t c = lane; c < k.classes; c += kWarpSize) {
    const float e = expf(wide(from[c]) - largest);
    to[c] = e;
    sum += e;
  }
  sum = warp_sum(sum);
  const float share = 1.0f / sum;
  const std::int32_t hit = classes[row];
  const float score = hit >= 0 && hit < k.classes ? wide(from[hit]) : NAN;
  float above_class = 0;  // sum of what each score has over the class's
  for (std::int64_t c = lane; c < k.classes; c += kWarpSize) {
    to[c] *= share;
    above_class += wide(from[c]) - score;
  }
  above_class = warp_sum(above_class);
  if (lane != 0) return;
  double loss = log(static_cast<double>(sum)) + static_cast<double>(largest - score);
  if (smoothing != 0) {  // 0 times infinity would be a NaN
    loss -= static_cast<double>(smoothing) * static_cast<double>(above_class) / static_cast<double>(k.classes);
  }
  nats[row] = loss;
}

// A warp for each sample.
__global__ void mean_kernel(const double* nats, float* losses, std::int64_t samples, std::int64_t positions) {
  const std::int64_t sample = row_of_warp(), lane = lane_of_thread();
  if (sample >= samples) return;  // the whole warp
  double sum = 0;
  for (std::int64_t i = lane; i < positions; i += kWarpSize) sum += nats[sample * positions + i];
  sum = warp_sum(sum);
  if (lane == 0) losses[sample] = static_cast<float>(sum / static_cast<double>(positions));
}

template <typename Element>
__global__ void classifier_backward_kernel(ClassifierShape k, const float* p, const std::int32_t* classes,
                                           float smoothing, float scale, Element* dscores, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= k.samples * k.positions * k.classes) return;
  const auto [row, c] = row_and_column(i, k.classes);
  const float hit = c == classes[row] ? 1 - smoothing : 0;
  put(dscores + i, (p[i] - hit - smoothing / static_cast<float>(k.classes)) * scale, accumulate);
}

// A warp for each sample.
template <typename Element>
__global__ void squared_error_kernel(const Element* x, const float* target, float* losses, std::int64_t samples,
                                     std::int64_t each) {
  const std::int64_t sample = row_of_warp(), lane = lane_of_thread();
  if (sample >= samples) return;  // the whole warp
  double sum = 0;
  for (std::int64_t i = sample * each + lane; i < (sample + 1) * each; i += kWarpSize) {
    const double difference = static_cast<double>(wide(x[i])) - static_cast<double>(target[i]);
    sum += difference * difference;
  }
  sum = warp_sum(sum);
  if (lane == 0) losses[sample] = static_cast<float>(sum / static_cast<double>(each));
}

template <typename Element>
__global__ void squared_error_backward_kernel(const Element* x, const float* target, float scale, Element* dx,
                                              std::int64_t count, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(dx + i, scale * (wide(x[i]) - target[i]), accumulate);
}

}  // namespace

template <typename Element>
CudaError softmax_cross_entropy_forward(CudaStream* stream, const ClassifierShape& shape, const Element* scores,
                                        const std::int32_t* classes, float smoothing, float* p, float* losses,
                                        void* scratch) {
  auto* nats = static_cast<double*>(scratch);
  const CudaError error = launch(probabilities_kernel<Element>, row_blocks(shape.rows()), kRowThreads, 0, stream, shape,
                                 scores, classes, smoothing, p, nats);
  if (error != CudaError::kSuccess) return error;
  return launch(mean_kernel, row_blocks(shape.samples), kRowThreads, 0, stream, nats, losses, shape.samples,
                shape.positions);
}

size_t softmax_cross_entropy_scratch(const ClassifierShape& shape) {
  return static_cast<size_t>(shape.rows()) * sizeof(double);
}

template <typename Element>
CudaError softmax_cross_entropy_backward(CudaStream* stream, const ClassifierShape& shape, const float* p,
                                         const std::int32_t* classes, float smoothing, float scale, Element* dscores,
                                         bool accumulate) {
  return launch(classifier_backward_kernel<Element>, blocks_for(shape.rows() * shape.classes), kThreads, 0, stream,
                shape, p, classes, smoothing, scale, dscores, accumulate);
}

template <typename Element>
CudaError mean_squared_error_forward(CudaStream* stream, const Element* x, const float* target, float* losses,
                                     std::int64_t samples, std::int64_t each) {
  return launch(squared_error_kernel<Element>, row_blocks(samples), kRowThreads, 0, stream, x, target, losses, samples,
                each);
}

template <typename Element>
CudaError mean_squared_error_backward(CudaStream* stream, const Element* x, const float* target, float scale,
                                      Element* dx, std::int64_t count, bool accumulate) {
  return launch(squared_error_backward_kernel<Element>, blocks_for(count), kThreads, 0, stream, x, target, scale, dx,
                count, accumulate);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                            \
  template CudaError softmax_cross_entropy_forward(CudaStream*, const ClassifierShape&, const Element*,          \
                                                   const std::int32_t*, float, float*, float*, void*);           \
  template CudaError softmax_cross_entropy_backward(CudaStream*, const ClassifierShape&, const float*,           \
                                                    const std::int32_t*, float, float, Element*, bool);          \
  template CudaError mean_squared_error_forward(CudaStream*, const Element*, const float*, float*, std::int64_t, \
                                                std::int64_t);                                                   \
  template CudaError mean_squared_error_backward(CudaStream*, const Element*, const float*, float, Element*,     \
                                                 std::int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
