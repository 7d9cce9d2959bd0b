// Host memory for batches. It is used again for later batches, because fresh pages cost more than the samples of most
// models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "trainer/core/source.h"

namespace lockstep::trainer::data {

// Zeroed or used memory for the rows of one batch, to be filled by one or more threads.
struct DraftBatch {
  std::vector<std::span<std::byte>> inputs;  // by input: (rows, bytes of a row), aligned to core::kAlignment
  std::shared_ptr<const void> lease;
  std::shared_ptr<const core::PixelValues> pixels;  // as core::Batch::pixels()

  // What may be read of it, when it is filled.
  core::Batch finish() &&;
};

// Any thread. Batches may outlive the pool. Copies share their memory.
class BatchPool {
 public:
  // `row_bytes`: of one sample, by input. `pixels`: of each batch.
  explicit BatchPool(std::vector<size_t> row_bytes, std::shared_ptr<const core::PixelValues> pixels = nullptr);

  const std::vector<size_t>& row_bytes() const { return row_bytes_; }
  // Memory for `rows` samples. Batches of one size do not allocate once as many of them exist as are used at a time.
  DraftBatch draft(std::int64_t rows) const;

 private:
  class Blocks;
  std::vector<size_t> row_bytes_;
  std::shared_ptr<const core::PixelValues> pixels_;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace lockstep::trainer::data
