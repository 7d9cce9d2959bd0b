// A source whose batches several threads fill at a time, part by part.
#pragma once

#include <cstdint>

#include "trainer/core/source.h"
#include "trainer/data/batch_pool.h"

namespace lockstep::trainer::data {

// Some rows of a batch. Row r of it is the sample at position + r, or the held-out sample of that number; after the
// last held-out sample it is that one again.
struct Part {
  bool held_out = false;
  std::int64_t position = 0;
  std::int64_t first = 0;  // row
  std::int64_t rows = 0;
};

class PartSource : public core::SampleSource {
 public:
  // Memory for `rows` samples. Any thread.
  virtual DraftBatch draft(std::int64_t rows) const = 0;
  // Writes the rows of `part`, and no others, into `to`. Errors are those of take(), of its first row that fails. Any
  // number of threads, also with the same `to` and different rows.
  virtual Status fill(const DraftBatch& to, const Part& part, const std::atomic<bool>& abort) = 0;
  // kDeadlineExceeded: a read has not returned for longer than the source is patient. The thread that reads may never
  // return, and no abort reaches it. The sentence names file and offset. Any thread.
  virtual Status answers() const { return {}; }

  // The whole batch, by this thread.
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) final {
    DraftBatch batch = draft(rows);
    LOCKSTEP_CHECK_OK(fill(batch, {.position = position, .rows = rows}, abort));
    return std::move(batch).finish();
  }
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) final {
    DraftBatch batch = draft(rows);
    LOCKSTEP_CHECK_OK(fill(batch, {.held_out = true, .position = first, .rows = rows}, abort));
    return std::move(batch).finish();
  }
};

}  // namespace lockstep::trainer::data
