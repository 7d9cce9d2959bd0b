// For the .cu files: sums over the rows of a matrix, column by column, in a shape that depends on the sizes alone. A
// first kernel sums kChunk rows at a time, a second one the chunks.
#pragma once

#include "trainer/backend/cuda/kernels/device.h"

namespace lockstep::trainer::cuda {

inline constexpr std::int64_t kChunk = 128;  // rows
inline constexpr int kColumnThreads = 128;   // of a block, one for each of as many columns

inline std::int64_t chunks_of(std::int64_t rows) {
  return blocks_for(rows, kChunk);
}

// Where the running thread of the first kernel works, whose launch has column_blocks(columns) * chunks_of(rows) blocks.
struct ColumnPart {
  std::int64_t column, chunk;
  std::int64_t begin, end;  // rows
};

inline std::int64_t column_blocks(std::int64_t columns) {
  return blocks_for(columns, kColumnThreads);
}

inline __device__ ColumnPart column_part(std::int64_t rows, std::int64_t columns) {
  const std::int64_t across = (columns + kColumnThreads - 1) / kColumnThreads;
  const std::int64_t block = blockIdx.x;
  const std::int64_t begin = block / across * kChunk;
  return {block % across * kColumnThreads + threadIdx.x, block / across, begin,
          begin + kChunk < rows ? begin + kChunk : rows};
}

namespace {

// sums += the sum of the chunks; partial (chunks, columns).
[[maybe_unused]] __global__ void add_chunks_kernel(const float* partial, float* sums, std::int64_t chunks,
                                                   std::int64_t columns) {
  const std::int64_t column = thread_of_launch();
  if (column >= columns) return;
  float sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * columns + column];
  sums[column] += sum;
}

}  // namespace

}  // namespace lockstep::trainer::cuda
