#include "trainer/backend/cuda/kernels/embedding.h"

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

namespace {

__device__ bool is_in(std::int32_t index, std::int64_t limit) {
  return index >= 0 && index < limit;
}

template <typename Element>
__global__ void forward_kernel(EmbeddingShape k, const std::int32_t* indices, const float* table,
                               const float* positions, Element* y) {
  const std::int64_t i = thread_of_launch();
  if (i >= k.rows * k.width) return;
  const auto [row, c] = row_and_column(i, k.width);
  const std::int32_t index = indices[row];
  float sum = NAN;
  if (is_in(index, k.vocabulary)) sum = table[index * k.width + c] + positions[row % k.positions * k.width + c];
  y[i] = rounded<Element>(sum);
}

// A thread for each element of the table looks through all rows for its own, so no two threads add to one element. The
// index is the same for all threads of a warp that share a row of the table.
template <typename Element>
__global__ void backward_table_kernel(EmbeddingShape k, const std::int32_t* indices, const Element* dy, float* dtable) {
  const std::int64_t i = thread_of_launch();
  if (i >= k.vocabulary * k.width) return;
  const auto [entry, c] = row_and_column(i, k.width);
  float sum = 0;
  for (std::int64_t row = 0; row < k.rows; ++row) {
    if (indices[row] == entry) sum += wide(dy[row * k.width + c]);
  }
  dtable[i] += sum;
}

template <typename Element>
__global__ void backward_positions_kernel(EmbeddingShape k, const Element* dy, float* dpositions) {
  const std::int64_t i = thread_of_launch();
  if (i >= k.positions * k.width) return;
  const auto [position, c] = row_and_column(i, k.width);
  float sum = 0;
  for (std::int64_t row = position; row < k.rows; row += k.positions) sum += wide(dy[row * k.width + c]);
  dpositions[i] += sum;
}

__global__ void find_bad_index_kernel(const std::int32_t* indices, std::int64_t rows, std::int64_t limit,
                                      unsigned long long* first_bad) {
  const std::int64_t row = thread_of_launch();
  if (row >= rows || is_in(indices[row], limit)) return;
  const auto place = static_cast<unsigned long long>(row) << 32;
  atomicMin(first_bad, place | static_cast<std::uint32_t>(indices[row]));
}

}  // namespace

template <typename Element>
CudaError embedding_forward(CudaStream* stream, const EmbeddingShape& shape, const std::int32_t* indices,
                            const float* table, const float* positions, Element* y) {
  return launch(forward_kernel<Element>, blocks_for(shape.rows * shape.width), kThreads, 0, stream, shape, indices,
                table, positions, y);
}

template <typename Element>
CudaError embedding_backward(CudaStream* stream, const EmbeddingShape& shape, const std::int32_t* indices,
                             const Element* dy, float* dtable, float* dpositions) {
  const CudaError error = launch(backward_table_kernel<Element>, blocks_for(shape.vocabulary * shape.width), kThreads,
                                 0, stream, shape, indices, dy, dtable);
  if (error != CudaError::kSuccess) return error;
  return launch(backward_positions_kernel<Element>, blocks_for(shape.positions * shape.width), kThreads, 0, stream,
                shape, dy, dpositions);
}

CudaError find_bad_index(CudaStream* stream, const std::int32_t* indices, std::int64_t rows, std::int64_t limit,
                         std::uint64_t* first_bad) {
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long));
  return launch(find_bad_index_kernel, blocks_for(rows), kThreads, 0, stream, indices, rows, limit,
                reinterpret_cast<unsigned long long*>(first_bad));
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                            \
  template CudaError embedding_forward(CudaStream*, const EmbeddingShape&, const std::int32_t*, const float*,    \
                                       const float*, Element*);                                                  \
  template CudaError embedding_backward(CudaStream*, const EmbeddingShape&, const std::int32_t*, const Element*, \
                                        float*, float*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
