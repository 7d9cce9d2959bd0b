// A row of a table for each index, plus a row for its position; and the check of indices.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

struct EmbeddingShape {
  std::int64_t rows = 0;        // a multiple of the positions
  std::int64_t positions = 0;   // row r has position r mod positions
  std::int64_t vocabulary = 0;  // rows of the table
  std::int64_t width = 0;       // features
};

// y = table[index] + positions[r mod positions]. indices (rows), table (vocabulary, width), positions (positions,
// width), y (rows, width). A row whose index is outside the table becomes NaN.
template <typename Element>
CudaError embedding_forward(CudaStream* stream, const EmbeddingShape& shape, const std::int32_t* indices,
                            const float* table, const float* positions, Element* y);

// dtable += and dpositions += the gradients. A row whose index is outside the table counts for its position alone.
template <typename Element>
CudaError embedding_backward(CudaStream* stream, const EmbeddingShape& shape, const std::int32_t* indices,
                             const Element* dy, float* dtable, float* dpositions);

// Lowers *first_bad to row * 2^32 + index (as 32 bits) of the first row whose index is not in [0, limit). The caller
// sets it to kNoBadIndex (all bits 1) before.
inline constexpr std::uint64_t kNoBadIndex = ~std::uint64_t{0};
CudaError find_bad_index(CudaStream* stream, const std::int32_t* indices, std::int64_t rows, std::int64_t limit,
                         std::uint64_t* first_bad);

}  // namespace lockstep::trainer::cuda
