// A base for sources that compute a sample at once, in memory: they write rows, and the base makes batches of them.
#pragma once

#include <utility>
#include <vector>

#include "trainer/core/source.h"
#include "trainer/data/batch_pool.h"

namespace lockstep::trainer::data {

class RowSource : public core::SampleSource {
 public:
  // `row_bytes`: of one sample, by input.
  explicit RowSource(std::vector<size_t> row_bytes) : pool_(std::move(row_bytes)) {}

  // Writes the sample at `position` as row `row` of the inputs, which begin at these addresses. Any number of threads.
  virtual void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const = 0;
  virtual void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const = 0;

  // Neither waits nor fails.
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) final;
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) final;

 private:
  BatchPool pool_;
};

}  // namespace lockstep::trainer::data
