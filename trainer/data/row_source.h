// A base for sources that compute a sample at once, in memory: they write rows, and the base makes batches of them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/core/source.h"
#include "trainer/data/batch_pool.h"

namespace lockstep::trainer::data {

class RowSource : public core::SampleSource {
 public:
  // `row_bytes`: of one sample, by input. `pixels`: as core::Batch::pixels().
  explicit RowSource(std::vector<size_t> row_bytes, std::shared_ptr<const core::PixelValues> pixels = nullptr)
      : pool_(std::move(row_bytes), std::move(pixels)) {}

  // Writes the sample at `position` as row `row` of the inputs, which begin at these addresses. Any number of threads.
  virtual void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const = 0;
  virtual void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const = 0;

  // Neither waits nor fails.
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) final;
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) final;
  // Computes the batch, and keeps it for the take() that follows. Always has one.
  std::optional<core::Batch> peek(std::int64_t position, std::int64_t rows) final;

 private:
  // What no take() has asked for.
  struct Peeked {
    std::mutex mutex;
    std::int64_t position = 0, rows = 0;  // protected by mutex
    std::optional<core::Batch> batch;     // protected by mutex
  };
  core::Batch batch_at(std::int64_t position, std::int64_t rows) const;

  BatchPool pool_;
  std::unique_ptr<Peeked> peeked_ = std::make_unique<Peeked>();
};

}  // namespace lockstep::trainer::data
