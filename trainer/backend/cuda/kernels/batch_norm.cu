#include "trainer/backend/cuda/kernels/batch_norm.h"

#include "trainer/backend/cuda/kernels/column_sums.h"

// Sums are in double, as the statistics are: a mean may be much larger than the deviation from it.

namespace lockstep::trainer::cuda {

namespace {

// partial (chunks, width).
template <typename Element>
__global__ void sum_kernel(const Element* x, double* partial, std::int64_t rows, std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  double sum = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) sum += wide(x[row * width + part.column]);
  partial[part.chunk * width + part.column] = sum;
}

__global__ void mean_kernel(const double* partial, double* staged_mean, std::int64_t rows, std::int64_t chunks,
                            std::int64_t width) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * width + column];
  staged_mean[column] = sum / static_cast<double>(rows);
}

template <typename Element>
__global__ void squares_kernel(const Element* x, const double* mean, double* partial, std::int64_t rows,
                               std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  const double m = mean[part.column];
  double sum = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const double centred = wide(x[row * width + part.column]) - m;
    sum += centred * centred;
  }
  partial[part.chunk * width + part.column] = sum;
}

__global__ void deviation_kernel(const double* partial, const double* staged_mean, double* staged_variance, float* mean,
                                 float* inverse, std::int64_t rows, std::int64_t chunks, std::int64_t width,
                                 double epsilon) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * width + column];
  staged_variance[column] = sum / static_cast<double>(rows - 1);
  mean[column] = static_cast<float>(staged_mean[column]);
  inverse[column] = static_cast<float>(1.0 / sqrt(sum / static_cast<double>(rows) + epsilon));
}

__global__ void running_kernel(const double* running_mean, const double* running_variance, float* mean, float* inverse,
                               std::int64_t width, double epsilon) {
  const std::int64_t column = thread_of_launch();
  if (column >= width) return;
  mean[column] = static_cast<float>(running_mean[column]);
  inverse[column] = static_cast<float>(1.0 / sqrt(running_variance[column] + epsilon));
}

template <typename Element>
__global__ void normalise_kernel(const Element* x, const float* gain, const float* shift, const float* mean,
                                 const float* inverse, Element* y, std::int64_t count, std::int64_t width) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const std::int64_t column = row_and_column(i, width).column;
  y[i] = rounded<Element>((wide(x[i]) - mean[column]) * inverse[column] * gain[column] + shift[column]);
}

// partial_gain and partial_shift (chunks, width).
template <typename Element>
__global__ void gradient_sums_kernel(const Element* x, const float* mean, const float* inverse, const Element* dy,
                                     double* partial_gain, double* partial_shift, std::int64_t rows,
                                     std::int64_t width) {
  const ColumnPart part = column_part(rows, width);
  if (part.column >= width) return;
  const float m = mean[part.column], inv = inverse[part.column];
  double gain = 0, shift = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const float g = wide(dy[row * width + part.column]);
    gain += g * (wide(x[row * width + part.column]) - m) * inv;
    shift += g;
  }
  partial_gain[part.chunk * width + part.column] = gain;
  partial_shift[part.chunk * width + part.column] = shift;
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
__global__ void input_kernel(const Element* x, const float* gain, const float* mean, const float* inverse,
                             const Element* dy, const float* along, const float* total, Element* dx, std::int64_t rows,
                             std::int64_t width, bool accumulate) {
  const std::int64_t i = thread_of_launch();
  if (i >= rows * width) return;
  const std::int64_t column = row_and_column(i, width).column;
  const float share = 1.0f / static_cast<float>(rows), inv = inverse[column];
  const float normal = (wide(x[i]) - mean[column]) * inv;
  put(dx + i, gain[column] * inv * (wide(dy[i]) - total[column] * share - normal * along[column] * share), accumulate);
}

}  // namespace

template <typename Element>
CudaError batch_norm_train(CudaStream* stream, const Element* x, const float* gain, const float* shift,
                           double* staged_mean, double* staged_variance, float* mean, float* inverse, Element* y,
                           std::int64_t rows, std::int64_t width, double epsilon, void* scratch) {
  auto* partial = static_cast<double*>(scratch);
  const std::int64_t chunks = chunks_of(rows), across = column_blocks(width);
  Launches run(stream);
  run(sum_kernel<Element>, across * chunks, kColumnThreads, x, partial, rows, width);
  run(mean_kernel, across, kColumnThreads, partial, staged_mean, rows, chunks, width);
  run(squares_kernel<Element>, across * chunks, kColumnThreads, x, staged_mean, partial, rows, width);
  run(deviation_kernel, across, kColumnThreads, partial, staged_mean, staged_variance, mean, inverse, rows, chunks,
      width, epsilon);
  run(normalise_kernel<Element>, blocks_for(rows * width), kThreads, x, gain, shift, mean, inverse, y, rows * width,
      width);
  return run.error();
}

template <typename Element>
CudaError batch_norm_evaluate(CudaStream* stream, const Element* x, const float* gain, const float* shift,
                              const double* running_mean, const double* running_variance, float* mean, float* inverse,
                              Element* y, std::int64_t rows, std::int64_t width, double epsilon) {
  Launches run(stream);
  run(running_kernel, column_blocks(width), kColumnThreads, running_mean, running_variance, mean, inverse, width,
      epsilon);
  run(normalise_kernel<Element>, blocks_for(rows * width), kThreads, x, gain, shift, mean, inverse, y, rows * width,
      width);
  return run.error();
}

template <typename Element>
CudaError batch_norm_backward(CudaStream* stream, const Element* x, const float* gain, const float* mean,
                              const float* inverse, const Element* dy, Element* dx, float* dgain, float* dshift,
                              std::int64_t rows, std::int64_t width, bool accumulate, void* scratch) {
  const std::int64_t chunks = chunks_of(rows), across = column_blocks(width);
  auto* partial_gain = static_cast<double*>(scratch);
  double* partial_shift = partial_gain + chunks * width;
  auto* along = reinterpret_cast<float*>(partial_shift + chunks * width);
  float* total = along + width;
  Launches run(stream);
  run(gradient_sums_kernel<Element>, across * chunks, kColumnThreads, x, mean, inverse, dy, partial_gain, partial_shift,
      rows, width);
  run(parameters_kernel, across, kColumnThreads, partial_gain, partial_shift, along, total, dgain, dshift, chunks,
      width);
  if (dx == nullptr) return run.error();
  run(input_kernel<Element>, blocks_for(rows * width), kThreads, x, gain, mean, inverse, dy, along, total, dx, rows,
      width, accumulate);
  return run.error();
}

size_t batch_norm_scratch(std::int64_t rows, std::int64_t width) {
  return static_cast<size_t>(width) * (2 * static_cast<size_t>(chunks_of(rows)) * sizeof(double) + 2 * sizeof(float));
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                                  \
  template CudaError batch_norm_train(CudaStream*, const Element*, const float*, const float*, double*, double*,       \
                                      float*, float*, Element*, std::int64_t, std::int64_t, double, void*);            \
  template CudaError batch_norm_evaluate(CudaStream*, const Element*, const float*, const float*, const double*,       \
                                         const double*, float*, float*, Element*, std::int64_t, std::int64_t, double); \
  template CudaError batch_norm_backward(CudaStream*, const Element*, const float*, const float*, const float*,        \
                                         const Element*, Element*, float*, float*, std::int64_t, std::int64_t, bool,   \
                                         void*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
