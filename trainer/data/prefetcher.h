// Batches ahead of the training thread: threads of its own take from another source what aim() has announced, as far
// ahead as the memory allows. It changes when samples are read, never which.
//
//   aim(next)  ->  [ window: batches being read or ready, in the order of their use ]  ->  take(position)
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "trainer/core/source.h"

namespace lockstep::trainer::data {

struct PrefetchOptions {
  int threads = 1;                   // that read
  size_t batches = 4;                // at most, in the window
  size_t bytes = size_t{256} << 20;  // at most, in the window; one batch is always allowed
};

class Prefetcher final : public core::SampleSource {
 public:
  // Reads nothing before the first aim(). `source` must outlive the prefetcher. kExhausted: no thread could be started.
  static Result<std::unique_ptr<Prefetcher>> start(core::SampleSource& source, const PrefetchOptions& options);

  // Cancels the reads and waits for the threads. No call may be under way.
  ~Prefetcher() override;
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // A batch of the window, whose earlier batches are dropped; any other one is taken from the source by this thread.
  // Waits as long as the source does. The error of a read that was ahead is returned by the call that takes that batch,
  // and a second call reads it again.
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) override;

  Duration patience() const override { return source_.patience(); }

  // From the source, by this thread.
  std::int64_t held_out() const override { return source_.held_out(); }
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) override {
    return source_.take_held_out(first, rows, abort);
  }

  // Keeps the window if it begins with `next`, else drops it and cancels its reads.
  void aim(const core::Aim& next) override;
  void wake() override;

 private:
  // A batch of the window. The thread that reads it also owns it, so it may end after it was dropped.
  struct Read {
    std::int64_t position = 0;
    std::int64_t rows = 0;
    std::atomic<bool> cancelled{false};
    std::optional<Result<core::Batch>> result;  // protected by mutex_; empty while it is being read
  };

  Prefetcher(core::SampleSource& source, const PrefetchOptions& options) : source_(source), options_(options) {}
  void run();

  // With mutex_ held.
  bool has_room() const;
  std::shared_ptr<Read> next();  // adds what is read next to the window
  void skip();                   // what is read next
  // Reads continue with this batch. False: the aim does not contain it, or the reads have passed it.
  bool skip_to(std::int64_t position, std::int64_t rows);
  static bool cancel(const std::deque<std::shared_ptr<Read>>& dropped);

  core::SampleSource& source_;
  const PrefetchOptions options_;
  std::mutex mutex_;
  std::condition_variable work_;              // there is room in the window, or the end has come
  std::condition_variable ready_;             // a read has ended, or an `abort` has become true
  std::deque<std::shared_ptr<Read>> window_;  // in the order of their use; protected by mutex_
  core::Aim aim_{.first = 0, .end = 0};       // its step and first are what is read next; protected by mutex_
  std::int64_t first_ = 0;                    // micro-batch with which each step begins; protected by mutex_
  size_t batch_bytes_ = 0;                    // of one batch of this aim; 0: not known yet; protected by mutex_
  bool stopping_ = false;                     // protected by mutex_
  std::vector<std::thread> threads_;          // the owner's thread
};

}  // namespace lockstep::trainer::data
