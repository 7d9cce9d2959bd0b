// Batches ahead of the training thread: threads of its own fill what aim() has announced, as far ahead as the memory
// allows. It changes when samples are read, never which. The threads share the rows of a batch, so a batch is ready
// sooner with more threads, with the same bytes.
//
//   aim(next)  ->  [ window: batches being read or ready, in the order of their use ]  ->  take(position)
//                        ^ parts of kRowsOfPart rows, the earliest batch first
//
// The training thread reads nothing itself. It waits for one of the threads, so a read that hangs in the kernel becomes
// an error of take(). Nothing can join such a thread. The destructor leaves it behind after options.parting:
// it owns all that it uses, and the end of the process ends it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/core/source.h"
#include "trainer/data/part_source.h"

namespace lockstep::trainer::data {

inline constexpr std::int64_t kRowsOfPart = 8;  // that a thread fills at a time

struct PrefetchOptions {
  int threads = 1;                             // that read and decode
  size_t batches = 0;                          // in the window; 0: as many as are found to be needed (prefetch_depth.h)
  size_t bytes = size_t{256} << 20;            // at most, in the window; one batch is always allowed
  Duration parting = std::chrono::seconds(2);  // the destructor waits so long for a read that does not return
};

// The threads to start where nothing else is asked for: what is left of a rank's share of the CPUs, from 1 to 8.
// `ranks`: that share `cpus`, at least 1; `threads`: that compute in each.
int reader_threads(int cpus, int ranks, int threads);

class Prefetcher final : public core::SampleSource {
 public:
  // Reads nothing before the first aim(). kExhausted: no thread could be started.
  static Result<std::unique_ptr<Prefetcher>> start(std::shared_ptr<PartSource> source, const PrefetchOptions& options);

  // Cancels the reads and waits for the threads, but for options.parting at most. No call may be under way.
  ~Prefetcher() override;
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // A batch of the window, whose earlier batches are dropped; the threads read any other one at once. Waits as long as
  // the source does; kDeadlineExceeded as PartSource::answers(). The error of a read that was ahead is returned by the
  // call that takes that batch, and a second call reads it again. It is that of the first row that fails, whichever
  // thread had it.
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) override;
  // A batch of the window that is read.
  std::optional<core::Batch> peek(std::int64_t position, std::int64_t rows) override;
  Duration patience() const override { return source_->patience(); }
  std::int64_t held_out() const override { return source_->held_out(); }
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) override;

  // Keeps the window if it begins with `next`, else drops it and cancels its reads.
  void aim(const core::Aim& next) override;
  void wake() override;

 private:
  // A batch that is read. The threads that read it own it as well, so it may end after it was dropped.
  struct Read {
    bool held_out = false;
    std::int64_t position = 0;
    std::int64_t rows = 0;
    std::atomic<bool> cancelled{false};
    // Protected by the mutex:
    std::optional<DraftBatch> draft;                       // from the first part to the result
    std::int64_t next_row = 0;                             // of the next part
    int filling = 0;                                       // parts
    std::optional<std::pair<std::int64_t, Error>> failed;  // of the lowest part
    std::optional<Result<core::Batch>> result;             // empty while it is being read
  };
  struct Shared;
  using Reads = std::deque<std::shared_ptr<Read>>;

  Prefetcher(std::shared_ptr<PartSource> source, const PrefetchOptions& options);
  Result<core::Batch> await(const std::shared_ptr<Read>& read, const std::atomic<bool>& abort);
  Result<core::Batch> read_at_once(bool held_out, std::int64_t position, std::int64_t rows,
                                   const std::atomic<bool>& abort);
  static bool cancel(const Reads& dropped);

  const std::shared_ptr<PartSource> source_;
  const Duration parting_;
  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;  // the owner's thread
};

}  // namespace lockstep::trainer::data
