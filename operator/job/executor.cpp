#include "operator/job/executor.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/thread.h"

namespace lockstep::job {
namespace {

kube::AdaptiveLimit::Options limit_options(const ExecutorOptions& options) {
  kube::AdaptiveLimit::Options limit;
  limit.most = std::max(options.most, 1);
  limit.first = std::clamp<double>(options.first, 1, limit.most);
  limit.least = std::min(limit.least, limit.most);
  return limit;
}

}  // namespace

struct Executor::Running {
  explicit Running(Batch given) : batch(std::move(given)) {}

  Batch batch;
  std::size_t next = 0;                // the first write that has not begun
  std::vector<std::size_t> again;      // writes that the server refused for now
  int inside = 0;                      // writes under way
  bool closed = false;                 // no further write begins
  bool queued = true;                  // it is in its line
  std::optional<MonotonicTime> until;  // end of its slice; empty before its first write
  std::optional<Error> error;

  bool exhausted() const { return closed || (next == batch.count && again.empty()); }
  // A write may begin: there is one, and no barrier is before it.
  bool ready() const {
    if (exhausted()) return false;
    if (!again.empty()) return true;
    return inside == 0 || !batch.barriers.contains(next);
  }
  std::size_t take() {
    if (again.empty()) return next++;
    const std::size_t index = again.back();
    again.pop_back();
    return index;
  }
};

Executor::Executor(Clock& clock, MetricsRegistry& metrics, ExecutorOptions options,
                   std::function<void(const api::ObjectKey&)> ended)
    : clock_(clock),
      options_(options),
      ended_(std::move(ended)),
      limit_gauge_(metrics.gauge("lockstep_bulk_writes_limit", "Bulk writes that may be under way at once.")),
      inside_gauge_(metrics.gauge("lockstep_bulk_writes_under_way", "Bulk writes that are under way.")),
      seconds_(metrics.histogram("lockstep_bulk_write_duration_seconds", "Seconds that a bulk write took.")),
      metrics_(metrics),
      limit_(limit_options(options)) {
  if (options_.most == 0) return;
  const std::lock_guard guard(mutex_);
  add_thread_locked();
}

// A machine that has no room for another thread has fewer writes under way.
void Executor::add_thread_locked() {
  std::erase_if(workers_, [](Worker& worker) {
    if (worker.ended) worker.thread.join();
    return worker.ended;
  });
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = start_without_signals([this, &worker] { work(worker); });
  } catch (const std::system_error& error) {
    workers_.pop_back();
    if (workers_.empty()) throw;  // no write would ever be made
    log::warn("no thread for another bulk write", {{"error", error.what()}});
  }
}

Executor::~Executor() {
  stop();
}

void Executor::submit(Batch batch) {
  if (options_.most == 0) return carry_out(batch);
  const std::lock_guard guard(mutex_);
  if (stop_) return;
  auto running = std::make_shared<Running>(std::move(batch));
  batches_[running->batch.key] = running;
  line_of(*running).push_back(std::move(running));
  const bool all_busy = idle_ == 0 && threads_locked() <= options_.most;
  if (all_busy) add_thread_locked();
  changed_.notify_one();
}

void Executor::carry_out(Batch& batch) {
  std::optional<Error> error;
  for (std::size_t i = 0; i < batch.count && !error; ++i) {
    if (auto written = batch.write(i); !written) error = written.error();
  }
  batch.done(error);
  if (ended_) ended_(batch.key);
}

bool Executor::busy(const api::ObjectKey& key) const {
  const std::lock_guard guard(mutex_);
  return batches_.contains(key);
}

void Executor::interrupt(const api::ObjectKey& key) {
  const std::lock_guard guard(mutex_);
  const auto found = batches_.find(key);
  if (found == batches_.end()) return;
  found->second->closed = true;
  changed_.notify_one();  // a batch with nothing under way is ended by a worker
}

void Executor::stop() {
  std::list<Worker> workers;
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
    repair_.clear();
    bulk_.clear();
    workers.swap(workers_);
    changed_.notify_all();
  }
  for (Worker& worker : workers) worker.thread.join();
  const std::lock_guard guard(mutex_);
  batches_.clear();
}

bool Executor::healthy() const {
  const std::lock_guard guard(mutex_);
  return under_way_.empty() || clock_.now() - *under_way_.begin() < options_.stuck_after;
}

int Executor::limit() const {
  const std::lock_guard guard(mutex_);
  return limit_.limit();
}

int Executor::threads() const {
  const std::lock_guard guard(mutex_);
  return threads_locked();
}

int Executor::threads_locked() const {
  const auto lives = [](const Worker& worker) { return !worker.ended; };
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), lives));
}

Executor::Line& Executor::line_of(const Running& batch) {
  return batch.batch.priority == Priority::kRepair ? repair_ : bulk_;
}

std::shared_ptr<Executor::Running> Executor::take_from(Line& line, MonotonicTime now) {
  for (std::size_t left = line.size(); left > 0; --left) {
    auto batch = std::move(line.front());
    line.pop_front();
    if (batch->until && now >= *batch->until) batch->closed = true;
    if (batch->exhausted()) {
      batch->queued = false;
      if (batch->inside == 0) return batch;  // to be ended
      continue;                              // the last of its writes ends it
    }
    const bool ready = batch->ready();
    line.push_back(batch);
    if (ready) return batch;
  }
  return nullptr;
}

std::shared_ptr<Executor::Running> Executor::next_locked(MonotonicTime now) {
  const int inside = static_cast<int>(under_way_.size());
  if (now < limit_.closed_until()) return nullptr;
  if (inside <= limit_.limit()) {
    if (auto batch = take_from(repair_, now)) return batch;
  }
  if (inside < limit_.limit()) return take_from(bulk_, now);
  return nullptr;
}

// Returns after stop(), or after `idle` without a write while another thread lives.
void Executor::work(Worker& self) {
  std::unique_lock lock(mutex_);
  auto idle_since = clock_.now();
  while (!stop_) {
    const auto now = clock_.now();
    const auto batch = next_locked(now);
    if (!batch) {
      const bool closed = now < limit_.closed_until(), alone = threads_locked() == 1;
      const auto end = idle_since + options_.idle;
      if (!closed && !alone && now >= end) break;
      ++idle_;
      clock_.wait_until(lock, changed_, closed ? limit_.closed_until() : alone ? now + std::chrono::hours(1) : end);
      --idle_;
      continue;
    }
    if (batch->exhausted()) {
      end_batch(lock, batch);
      continue;
    }
    const std::size_t index = batch->take();
    const auto start = clock_.now();
    if (!batch->until) batch->until = start + options_.slice;
    const auto since = under_way_.insert(start);
    ++batch->inside;
    // The next thread looks for the next write while this one makes its own.
    if (idle_ > 0) {
      changed_.notify_one();
    } else if (threads_locked() <= std::min(options_.most, limit_.limit())) {
      add_thread_locked();
    }
    lock.unlock();
    const Status written = [&]() -> Status {
      try {
        return batch->batch.write(index);
      } catch (const std::exception& error) {
        return fail(ErrorCode::kInternal, std::string("an exception: ") + error.what());
      }
    }();
    lock.lock();
    count_answer(written, clock_.now() - start);
    under_way_.erase(since);
    inside_gauge_.set(static_cast<double>(under_way_.size()));
    --batch->inside;
    if (!written && written.error().code == ErrorCode::kTooManyRequests) {
      batch->again.push_back(index);
      if (!batch->queued) line_of(*batch).push_back(batch);
      batch->queued = true;
    } else if (!written && !batch->error) {
      batch->error = written.error();
      batch->closed = true;
    }
    if (batch->inside == 0 && batch->exhausted() && !stop_) end_batch(lock, batch);
    idle_since = clock_.now();
  }
  self.ended = true;
}

void Executor::count_answer(const Status& written, Duration latency) {
  using Answer = kube::AdaptiveLimit::Answer;
  seconds_.observe(std::chrono::duration<double>(latency).count());
  if (!written) {
    metrics_
        .counter("lockstep_bulk_write_failures_total", "Bulk writes that failed, by error code.",
                 {{"code", error_code_name(written.error().code)}})
        .increment();
  }
  auto answer = Answer::kServed;
  Duration wait{};
  if (!written) {
    const Error& error = written.error();
    if (error.code == ErrorCode::kTooManyRequests) {
      answer = Answer::kRefused;
      wait =
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::max(error.retry_after_seconds, 0.1)));
    } else if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded) {
      answer = Answer::kLost;
    } else {
      return;  // a refusal by policy is quicker than a write, and says nothing of the load
    }
  }
  limit_.ended(clock_.now(), latency, answer, static_cast<int>(under_way_.size()), wait);
  limit_gauge_.set(limit_.limit());
}

void Executor::end_batch(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Running>& batch) {
  std::erase(line_of(*batch), batch);
  const api::ObjectKey key = batch->batch.key;
  const auto known = batches_.find(key);
  if (known == batches_.end() || known->second != batch) return;
  lock.unlock();
  batch->batch.done(batch->error);
  lock.lock();
  batches_.erase(key);
  lock.unlock();
  if (ended_) ended_(key);
  lock.lock();
}

}  // namespace lockstep::job
