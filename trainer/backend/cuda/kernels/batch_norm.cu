#include "trainer/backend/cuda/kernels/batch_norm.h"

#include "trainer/backend/cuda/kernels/column_sums.h"

// Sums are in double, as the statistics are, and of distances from the first row. A mean may be much larger than the
// deviation from it.

namespace lockstep::trainer::cuda {

namespace {

using backend::Activation;

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
__device__ float activated(float value, Activation activation) {
  if (activation == Activation::kNone) return value;
  if (value <= 0) return 0;
  return activation == Activation::kRelu6 && value >= 6 ? 6 : value;
}

__device__ bool lets_through(float value, Activation activation) {
  if (activation == Activation::kNone) return true;
  return !(value <= 0 || (activation == Activation::kRelu6 && value >= 6));
}

// partial_sum and partial_square (chunks, width).
template <typename Element>
__global__ void moments_kernel(const Element* x, double* partial_sum, double* partial_square, std::int64_t rows,
                               std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  const double origin = wide(x[part.column]);
  double sum = 0, square = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const double distance = wide(x[row * width + part.column]) - origin;
    sum += distance;
    square += distance * distance;
  }
  partial_sum[part.chunk * width + part.column] = sum;
  partial_square[part.chunk * width + part.column] = square;
}

template <typename Element>
__global__ void statistics_kernel(const Element* x, const double* partial_sum, const double* partial_square,
                                  double* staged_mean, double* staged_variance, float* mean, float* inverse,
                                  std::int64_t rows, std::int64_t chunks, std::int64_t width, double epsilon) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  double sum = 0, square = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    sum += partial_sum[chunk * width + column];
    square += partial_square[chunk * width + column];
  }
  const auto n = static_cast<double>(rows);
  const double from_origin = sum / n, difference = square / n - from_origin * from_origin;
  const double variance = difference < 0 ? 0 : difference;  // a NaN passes
  staged_mean[column] = wide(x[column]) + from_origin;
  staged_variance[column] = variance * n / (n - 1);
  mean[column] = static_cast<float>(staged_mean[column]);
  inverse[column] = static_cast<float>(1.0 / sqrt(variance + epsilon));
}

__global__ void running_kernel(const double* running_mean, const double* running_variance, float* mean, float* inverse,
                               std::int64_t width, double epsilon) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  mean[column] = static_cast<float>(running_mean[column]);
  inverse[column] = static_cast<float>(1.0 / sqrt(running_variance[column] + epsilon));
}

template <typename Element>
__global__ void normalise_kernel(const Element* x, const Element* other, const float* gain, const float* shift,
                                 const float* mean, const float* inverse, Activation activation, Element* y,
                                 std::int64_t count, std::int64_t width) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const std::int64_t column = row_and_column(i, width).column;
  float value = (wide(x[i]) - mean[column]) * inverse[column] * gain[column] + shift[column];
  if (other != nullptr) value += wide(other[i]);
  y[i] = rounded<Element>(activated(value, activation));
}

// What the activation lets through of the gradient `g` of element `i`. Without a `y`, the value at the activation is
// the norm, which is computed again: that costs less than reading it.
template <typename Element>
__device__ float through(float g, Activation activation, const Element* y, std::int64_t i, float normal, float gain,
                         float shift) {
  if (activation == Activation::kNone) return g;
  const float value = y != nullptr ? wide(y[i]) : wide(rounded<Element>(normal * gain + shift));
  return lets_through(value, activation) ? g : 0;
}

// partial_gain and partial_shift (chunks, width). dother (+)= what the activation lets through, unless it is null.
template <typename Element>
__global__ void gradient_sums_kernel(const Element* x, const float* gain, const float* shift, const float* mean,
                                     const float* inverse, Activation activation, const Element* y, const Element* dy,
                                     Element* dother, bool adds_to_other, double* partial_gain, double* partial_shift,
                                     std::int64_t rows, std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  const float m = mean[part.column], inv = inverse[part.column], a = gain[part.column], b = shift[part.column];
  double along = 0, total = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const std::int64_t i = row * width + part.column;
    const float normal = (wide(x[i]) - m) * inv, g = through(wide(dy[i]), activation, y, i, normal, a, b);
    along += g * normal;
    total += g;
    if (dother != nullptr) put(dother + i, g, adds_to_other);
  }
  partial_gain[part.chunk * width + part.column] = along;
  partial_shift[part.chunk * width + part.column] = total;
}

// along and total (width): the sums of this micro-batch alone.
__global__ void parameters_kernel(const double* partial_gain, const double* partial_shift, float* along, float* total,
                                  float* dgain, float* dshift, std::int64_t chunks, std::int64_t width) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  double gain = 0, shift = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    gain += partial_gain[chunk * width + column];
    shift += partial_shift[chunk * width + column];
  }
  along[column] = static_cast<float>(gain);
  total[column] = static_cast<float>(shift);
  dgain[column] += along[column];
  dshift[column] += total[column];
}

template <typename Element>
__global__ void input_kernel(const Element* x, const float* gain, const float* shift, const float* mean,
                             const float* inverse, Activation activation, const Element* y, const Element* dy,
                             const float* along, const float* total, Element* dx, bool accumulate, std::int64_t rows,
                             std::int64_t width) {
  const std::int64_t i = thread_of_launch();
  if (i >= rows * width) return;
  const std::int64_t column = row_and_column(i, width).column;
  const float share = 1.0f / static_cast<float>(rows), inv = inverse[column], a = gain[column];
  const float normal = (wide(x[i]) - mean[column]) * inv;
  const float g = through(wide(dy[i]), activation, y, i, normal, a, shift[column]);
  put(dx + i, a * inv * (g - total[column] * share - normal * along[column] * share), accumulate);
}

template <typename Element>
void normalise(Launches& run, const BatchNormSite<Element>& of, Element* y) {
  const std::int64_t count = of.rows * of.width;
  run(normalise_kernel<Element>, blocks_for(count), kThreads, of.x, of.other, of.gain, of.shift, of.mean, of.inverse,
      of.activation, y, count, of.width);
}

}  // namespace

template <typename Element>
CudaError batch_norm_train(CudaStream* stream, const BatchNormSite<Element>& site, double* staged_mean,
                           double* staged_variance, Element* y, double epsilon, void* scratch) {
  const std::int64_t chunks = chunks_of(site.rows), across = column_blocks(site.width);
  auto* sums = static_cast<double*>(scratch);
  double* squares = sums + chunks * site.width;
  Launches run(stream);
  run(moments_kernel<Element>, across * chunks, kColumnThreads, site.x, sums, squares, site.rows, site.width);
  run(statistics_kernel<Element>, across, kColumnThreads, site.x, sums, squares, staged_mean, staged_variance,
      site.mean, site.inverse, site.rows, chunks, site.width, epsilon);
  normalise(run, site, y);
  return run.error();
}

template <typename Element>
CudaError batch_norm_evaluate(CudaStream* stream, const BatchNormSite<Element>& site, const double* running_mean,
                              const double* running_variance, Element* y, double epsilon) {
  Launches run(stream);
  run(running_kernel, column_blocks(site.width), kColumnThreads, running_mean, running_variance, site.mean,
      site.inverse, site.width, epsilon);
  normalise(run, site, y);
  return run.error();
}

template <typename Element>
CudaError batch_norm_recompute(CudaStream* stream, const BatchNormSite<Element>& site, Element* y) {
  Launches run(stream);
  normalise(run, site, y);
  return run.error();
}

template <typename Element>
CudaError batch_norm_backward(CudaStream* stream, const BatchNormSite<Element>& site, const Element* y,
                              const Element* dy, const BatchNormGradients<Element>& gradients, void* scratch) {
  const std::int64_t chunks = chunks_of(site.rows), across = column_blocks(site.width);
  auto* partial_gain = static_cast<double*>(scratch);
  double* partial_shift = partial_gain + chunks * site.width;
  auto* along = reinterpret_cast<float*>(partial_shift + chunks * site.width);
  float* total = along + site.width;
  if (site.other == nullptr || site.activation == Activation::kNone) y = nullptr;
  Launches run(stream);
  run(gradient_sums_kernel<Element>, across * chunks, kColumnThreads, site.x, site.gain, site.shift, site.mean,
      site.inverse, site.activation, y, dy, gradients.other, gradients.adds_to_other, partial_gain, partial_shift,
      site.rows, site.width);
  run(parameters_kernel, across, kColumnThreads, partial_gain, partial_shift, along, total, gradients.gain,
      gradients.shift, chunks, site.width);
  if (gradients.dx == nullptr) return run.error();
  // What was written for the other tensor is what the activation let through.
  const bool passed = gradients.other != nullptr && !gradients.adds_to_other;
  run(input_kernel<Element>, blocks_for(site.rows * site.width), kThreads, site.x, site.gain, site.shift, site.mean,
      site.inverse, passed ? Activation::kNone : site.activation, passed ? nullptr : y, passed ? gradients.other : dy,
      along, total, gradients.dx, gradients.adds_to_dx, site.rows, site.width);
  return run.error();
}

size_t batch_norm_scratch(std::int64_t rows, std::int64_t width) {
  return static_cast<size_t>(width) * (2 * static_cast<size_t>(chunks_of(rows)) * sizeof(double) + 2 * sizeof(float));
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                                 \
  template CudaError batch_norm_train(CudaStream*, const BatchNormSite<Element>&, double*, double*, Element*, double, \
                                      void*);                                                                         \
  template CudaError batch_norm_evaluate(CudaStream*, const BatchNormSite<Element>&, const double*, const double*,    \
                                         Element*, double);                                                           \
  template CudaError batch_norm_recompute(CudaStream*, const BatchNormSite<Element>&, Element*);                      \
  template CudaError batch_norm_backward(CudaStream*, const BatchNormSite<Element>&, const Element*, const Element*,  \
                                         const BatchNormGradients<Element>&, void*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
