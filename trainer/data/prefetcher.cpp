#include "trainer/data/prefetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "operator/base/thread.h"

namespace lockstep::trainer::data {

Result<std::unique_ptr<Prefetcher>> Prefetcher::start(core::SampleSource& source, const PrefetchOptions& options) {
  std::unique_ptr<Prefetcher> prefetcher(new Prefetcher(source, options));
  try {
    for (int i = 0; i < options.threads; ++i) {
      prefetcher->threads_.push_back(start_without_signals([self = prefetcher.get()] { self->run(); }));
    }
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kExhausted, fmt::format("cannot start a thread to load samples: {}", error.what()));
  }
  return prefetcher;
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    cancel(window_);
  }
  work_.notify_all();
  source_.wake();
  for (std::thread& thread : threads_) thread.join();
}

// Returns whether a thread still reads one of them; then the source has to be woken.
bool Prefetcher::cancel(const std::deque<std::shared_ptr<Read>>& dropped) {
  bool reading = false;
  for (const auto& read : dropped) {
    read->cancelled.store(true);
    reading |= !read->result.has_value();
  }
  return reading;
}

void Prefetcher::aim(const core::Aim& next) {
  std::deque<std::shared_ptr<Read>> dropped;  // freed without the lock
  bool reading = false;
  {
    const std::lock_guard guard(mutex_);
    core::Aim continued = aim_;
    continued.step = next.step;
    continued.first = first_;
    const std::int64_t expected = window_.empty() ? aim_.position(aim_.step, aim_.first) : window_.front()->position;
    if (continued == next && expected == next.position(next.step, next.first)) return;
    dropped.swap(window_);
    reading = cancel(dropped);
    if (next.rows != aim_.rows) batch_bytes_ = 0;
    aim_ = next;
    first_ = next.first;
  }
  work_.notify_all();
  if (reading) source_.wake();
  source_.aim(next);
}

Result<core::Batch> Prefetcher::take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) {
  std::deque<std::shared_ptr<Read>> dropped;
  std::shared_ptr<Read> read;
  bool reading = false;
  {
    const std::lock_guard guard(mutex_);
    const auto found = std::find_if(window_.begin(), window_.end(),
                                    [&](const auto& each) { return each->position == position && each->rows == rows; });
    if (found != window_.end()) {
      read = *found;
      dropped.assign(window_.begin(), found);
      window_.erase(window_.begin(), found + 1);
    } else if (skip_to(position, rows)) {
      dropped.swap(window_);
      skip();
    }
    reading = cancel(dropped);
  }
  work_.notify_all();
  if (reading) source_.wake();
  if (!read) return source_.take(position, rows, abort);
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return read->result.has_value() || abort.load(); });
  if (read->result) return std::move(*read->result);
  read->cancelled.store(true);
  lock.unlock();
  source_.wake();
  return fail(ErrorCode::kCancelled, "loading samples was aborted");
}

void Prefetcher::wake() {
  // With the lock, no call is between its look at `abort` and its wait.
  { const std::lock_guard guard(mutex_); }
  ready_.notify_all();
  source_.wake();
}

bool Prefetcher::has_room() const {
  if (aim_.first >= aim_.end) return false;
  // One batch tells how large all of them are.
  if (batch_bytes_ == 0) return window_.empty();
  const size_t fit = std::max<size_t>(options_.bytes / batch_bytes_, 1);
  return window_.size() < std::min(fit, std::max<size_t>(options_.batches, 1));
}

bool Prefetcher::skip_to(std::int64_t position, std::int64_t rows) {
  const std::int64_t place = position - aim_.offset;
  if (rows != aim_.rows || place % rows != 0 || position < aim_.position(aim_.step, aim_.first)) return false;
  const std::int64_t step = place / rows / aim_.micro_batches, index = place / rows % aim_.micro_batches;
  if (index < first_ || index >= aim_.end || (index - first_) % aim_.stride != 0) return false;
  aim_.step = step;
  aim_.first = index;
  return true;
}

void Prefetcher::skip() {
  aim_.first += aim_.stride;
  if (aim_.first < aim_.end) return;
  aim_.first = first_;
  aim_.step += 1;
}

std::shared_ptr<Prefetcher::Read> Prefetcher::next() {
  auto read = std::make_shared<Read>();
  read->position = aim_.position(aim_.step, aim_.first);
  read->rows = aim_.rows;
  window_.push_back(read);
  skip();
  return read;
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || has_room(); });
    if (stopping_) return;
    const std::shared_ptr<Read> read = next();
    lock.unlock();
    Result<core::Batch> batch = source_.take(read->position, read->rows, read->cancelled);
    lock.lock();
    if (batch && read->rows == aim_.rows) batch_bytes_ = batch->bytes();
    read->result = std::move(batch);
    work_.notify_all();  // one thread read the first batch, whose size lets others read
    ready_.notify_all();
  }
}

}  // namespace lockstep::trainer::data
