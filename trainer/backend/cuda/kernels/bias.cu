#include "trainer/backend/cuda/kernels/bias.h"

#include "trainer/backend/cuda/kernels/column_sums.h"

namespace lockstep::trainer::cuda {

namespace {

template <typename Element>
__global__ void add_bias_kernel(const float* bias, Element* y, std::int64_t count, std::int64_t columns) {
  const std::int64_t i = thread_of_launch();
  if (i < count) put(y + i, bias[row_and_column(i, columns).column], true);
}

template <typename Element>
__global__ void sum_chunks_kernel(const Element* x, float* partial, std::int64_t rows, std::int64_t columns) {
  const ColumnPart part = column_part(rows, columns);
  if (part.column >= columns) return;
  float sum = 0;
  for (std::int64_t row = part.begin; row < part.end; ++row) sum += wide(x[row * columns + part.column]);
  partial[part.chunk * columns + part.column] = sum;
}

}  // namespace

template <typename Element>
CudaError add_bias(CudaStream* stream, const float* bias, Element* y, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = rows * columns;
  return launch(add_bias_kernel<Element>, blocks_for(count), kThreads, 0, stream, bias, y, count, columns);
}

template <typename Element>
CudaError add_column_sums(CudaStream* stream, const Element* x, float* sums, std::int64_t rows, std::int64_t columns,
                          void* scratch) {
  auto* partial = static_cast<float*>(scratch);  // (chunks, columns)
  const CudaError error = launch(sum_chunks_kernel<Element>, column_blocks(columns) * chunks_of(rows), kColumnThreads,
                                 0, stream, x, partial, rows, columns);
  if (error != CudaError::kSuccess || rows <= 0) return error;
  return launch(add_chunks_kernel, column_blocks(columns), kColumnThreads, 0, stream, partial, sums, chunks_of(rows),
                columns);
}

template CudaError add_bias(CudaStream*, const float*, float*, std::int64_t, std::int64_t);
template CudaError add_bias(CudaStream*, const float*, Bfloat16*, std::int64_t, std::int64_t);
template CudaError add_column_sums(CudaStream*, const float*, float*, std::int64_t, std::int64_t, void*);
template CudaError add_column_sums(CudaStream*, const Bfloat16*, float*, std::int64_t, std::int64_t, void*);

size_t column_sums_scratch(std::int64_t rows, std::int64_t columns) {
  return static_cast<size_t>(chunks_of(rows) * columns) * sizeof(float);
}

}  // namespace lockstep::trainer::cuda
