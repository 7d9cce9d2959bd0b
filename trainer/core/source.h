// The seam between a step and the data: batches of samples as a pure function of their position.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/core/pixels.h"

namespace lockstep::trainer::core {

// A lease of host memory that holds the samples of one micro-batch. The source owns the memory and gets it back when
// the last copy of the batch is destroyed. A batch may outlive its source. One thread at a time for each copy.
class Batch {
 public:
  using Input = std::span<const std::byte>;

  Batch() = default;
  // The end of the last copy of `lease` gives the memory of `inputs` back.
  Batch(std::vector<Input> inputs, std::shared_ptr<const void> lease,
        std::shared_ptr<const PixelValues> pixels = nullptr)
      : lease_(std::move(lease)), inputs_(std::move(inputs)), pixels_(std::move(pixels)) {}

  // One block of bytes per kInput tensor of the graph, in their order. A block is (rows, shape of a sample), of the
  // tensor's type unless pixels() says otherwise.
  const std::vector<Input>& inputs() const { return inputs_; }
  // Not null: the first input is images (rows, height, width, kColours) of a byte for each number, and this says which
  // number a byte stands for.
  const PixelValues* pixels() const { return pixels_.get(); }
  size_t bytes() const {
    size_t sum = 0;
    for (const Input& input : inputs_) sum += input.size();
    return sum;
  }

 private:
  std::shared_ptr<const void> lease_;
  std::vector<Input> inputs_;
  std::shared_ptr<const PixelValues> pixels_;
};

// The micro-batches that a rank takes next. They are those numbered first, first + stride, and so on below `end` of
// step `step`, then the same ones of the steps that follow.
struct Aim {
  std::int64_t step = 0;           // committed steps before it
  std::int64_t first = 0;          // a rank with first >= end takes nothing
  std::int64_t stride = 1;         // at least 1
  std::int64_t end = 0;            // at most micro_batches
  std::int64_t micro_batches = 1;  // of a global batch
  std::int64_t rows = 1;           // samples of a micro-batch
  std::int64_t offset = 0;         // of positions: not 0 if earlier steps had global batches of another size

  // The position of the first sample of a micro-batch.
  std::int64_t position(std::int64_t of_step, std::int64_t micro_batch) const {
    return offset + (of_step * micro_batches + micro_batch) * rows;
  }
  friend bool operator==(const Aim&, const Aim&) = default;
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // The `rows` samples from `position` of the run on, where the position counts the samples that the whole gang has
  // consumed before. The same position gives the same bytes on every rank and at every call. May wait for storage.
  // kUnavailable: the storage failed for longer than the source retries; the same call may succeed later.
  // kCorrupt: a sample is damaged; kInvalid: it is none of this data set, or its file was changed; the sentence names
  // its file and offset. kCancelled: `abort` became true. Any number of threads.
  virtual Result<Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) = 0;

  // What the same call of take() would return, if it is ready; empty: it is not, or its error is. Changes nothing, and
  // neither waits nor reads. One thread, between calls of take().
  virtual std::optional<Batch> peek(std::int64_t position, std::int64_t rows) {
    static_cast<void>(position), static_cast<void>(rows);
    return std::nullopt;
  }

  // For how long a call of take() waits for storage that does not answer; 0: it never waits for storage. Any thread.
  virtual Duration patience() const { return {}; }

  // The number of samples that are never trained on.
  virtual std::int64_t held_out() const = 0;

  // The `rows` held-out samples from number `first` (< held_out()) on. Rows after the last sample repeat it. Otherwise
  // as take().
  virtual Result<Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) = 0;

  // Announces the next calls of take(), so that a source can prepare them and drop everything else. A call that was
  // not announced gives the same bytes. Does not wait. One thread, between calls of take().
  virtual void aim(const Aim& next) { static_cast<void>(next); }

  // Wakes the calls that wait, to look at their `abort` again. Call it after `abort` became true. Any thread.
  virtual void wake() {}
};

}  // namespace lockstep::trainer::core
