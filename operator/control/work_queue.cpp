#include "operator/control/work_queue.h"

#include <algorithm>

namespace lockstep::control {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

WorkQueue::WorkQueue(Clock& clock, MetricsRegistry& metrics, WorkQueueOptions options)
    : clock_(clock),
      options_(std::move(options)),
      adds_(metrics.counter("workqueue_adds_total", "Keys added.", {{"name", options_.name}})),
      retries_(
          metrics.counter("workqueue_retries_total", "Keys added again after a failure.", {{"name", options_.name}})),
      depth_(metrics.gauge("workqueue_depth", "Keys that wait for a worker.", {{"name", options_.name}})),
      unfinished_(metrics.gauge("workqueue_unfinished_work_seconds", "Seconds that keys at work have taken so far.",
                                {{"name", options_.name}})),
      longest_(metrics.gauge("workqueue_longest_running_processor_seconds",
                             "Seconds that the oldest key at work has taken so far.", {{"name", options_.name}})),
      queued_seconds_(metrics.histogram("workqueue_queue_duration_seconds", "Seconds from add to worker.",
                                        {{"name", options_.name}})),
      work_seconds_(metrics.histogram("workqueue_work_duration_seconds", "Seconds from worker to done.",
                                      {{"name", options_.name}})),
      tokens_(options_.retry_burst),
      tokens_at_(clock.now()) {}

void WorkQueue::add(const api::ObjectKey& key) {
  const MutexLock lock(mutex_);
  if (!shutting_down_) add_rested_locked(key, Pace::kNow);
}

void WorkQueue::add_soon(const api::ObjectKey& key) {
  const MutexLock lock(mutex_);
  if (!shutting_down_) add_rested_locked(key, Pace::kSoon);
}

void WorkQueue::add_rested_locked(const api::ObjectKey& key, Pace pace) {
  if (processing_.contains(key)) {
    const auto [it, fresh] = again_.try_emplace(key, pace);
    if (!fresh && pace == Pace::kNow) it->second = pace;
    return;
  }
  const auto at = rested_locked(key, pace);
  const auto now = clock_.now();
  if (now >= at) {
    add_locked(key);
  } else {
    add_after_locked(key, at - now);
  }
}

MonotonicTime WorkQueue::rested_locked(const api::ObjectKey& key, Pace pace) const {
  const auto known = rests_.find(key);
  if (known == rests_.end()) return MonotonicTime{};
  const bool soon = pace == Pace::kSoon;
  const auto rest =
      std::chrono::duration_cast<Duration>(known->second.work * (soon ? options_.soon_share : options_.now_share));
  return known->second.since +
         (soon ? std::clamp(rest, options_.soon_least, options_.soon_most) : std::min(rest, options_.now_most));
}

void WorkQueue::forget_rests_locked() {
  if (rests_.size() < rests_bound_) return;
  const auto now = clock_.now();
  std::erase_if(rests_, [&](const auto& entry) { return now - entry.second.since > options_.soon_most; });
  rests_bound_ = std::max<std::size_t>(64, 2 * rests_.size());
}

void WorkQueue::add_locked(const api::ObjectKey& key) {
  if (!dirty_.try_emplace(key, clock_.now()).second) return;
  adds_.increment();
  if (processing_.contains(key)) return;
  queue_.push_back(key);
  measure_locked();
  changed_.notify_one();
}

void WorkQueue::add_after(const api::ObjectKey& key, Duration delay) {
  const MutexLock lock(mutex_);
  if (!shutting_down_) add_after_locked(key, delay);
}

void WorkQueue::add_after_locked(const api::ObjectKey& key, Duration delay) {
  if (delay <= Duration::zero()) {
    add_locked(key);
    return;
  }
  const MonotonicTime at = clock_.now() + delay;
  const auto [it, fresh] = due_.try_emplace(key, at);
  if (!fresh) {
    if (it->second <= at) return;
    waiting_.erase({it->second, key});
    it->second = at;
  }
  waiting_.emplace(at, key);
  changed_.notify_one();  // a worker that waits for a later time must check again
}

void WorkQueue::retry(const api::ObjectKey& key) {
  const MutexLock lock(mutex_);
  if (shutting_down_) return;
  const int failures = failures_[key]++;
  Duration delay = options_.most_backoff;
  if (failures < 30) delay = std::min(delay, options_.first_backoff * (std::int64_t{1} << failures));
  const auto now = clock_.now();
  tokens_ = std::min(options_.retry_burst, tokens_ + seconds(now - tokens_at_) * options_.retries_per_second);
  tokens_at_ = now;
  tokens_ -= 1;
  if (tokens_ < 0) {
    const std::chrono::duration<double> turn(-tokens_ / options_.retries_per_second);
    delay = std::max(delay, std::chrono::duration_cast<Duration>(turn));
  }
  retries_.increment();
  add_after_locked(key, delay);
}

void WorkQueue::forget(const api::ObjectKey& key) {
  const MutexLock lock(mutex_);
  failures_.erase(key);
}

std::optional<MonotonicTime> WorkQueue::promote_locked() {
  const auto now = clock_.now();
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    if (first->first > now) return first->first;
    const api::ObjectKey key = first->second;
    waiting_.erase(first);
    due_.erase(key);
    add_locked(key);
  }
  return std::nullopt;
}

std::optional<api::ObjectKey> WorkQueue::take(MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (true) {
    const auto next = promote_locked();
    if (!queue_.empty()) {
      api::ObjectKey key = std::move(queue_.front());
      queue_.pop_front();
      const auto now = clock_.now();
      const auto since = dirty_.find(key);
      queued_seconds_.observe(seconds(now - since->second));
      dirty_.erase(since);
      processing_.emplace(key, now);
      measure_locked();
      return key;
    }
    if (shutting_down_ || clock_.now() >= deadline) return std::nullopt;
    clock_.wait_until(lock, changed_, next ? std::min(*next, deadline) : deadline);
  }
}

void WorkQueue::done(const api::ObjectKey& key) {
  const MutexLock lock(mutex_);
  const auto it = processing_.find(key);
  if (it == processing_.end()) return;
  const auto now = clock_.now();
  work_seconds_.observe(seconds(now - it->second));
  rests_[key] = {now, now - it->second};
  processing_.erase(it);
  if (dirty_.contains(key)) {
    queue_.push_back(key);
    changed_.notify_one();
  }
  if (const auto again = again_.find(key); again != again_.end()) {
    const Pace pace = again->second;
    again_.erase(again);
    if (!shutting_down_) add_rested_locked(key, pace);
  }
  forget_rests_locked();
  measure_locked();
}

void WorkQueue::shut_down() {
  const MutexLock lock(mutex_);
  shutting_down_ = true;
  waiting_.clear();
  due_.clear();
  again_.clear();
  changed_.notify_all();
}

void WorkQueue::shut_down_now() {
  const MutexLock lock(mutex_);
  shutting_down_ = true;
  waiting_.clear();
  due_.clear();
  again_.clear();
  queue_.clear();
  dirty_.clear();
  measure_locked();
  changed_.notify_all();
}

bool WorkQueue::shutting_down() const {
  const MutexLock lock(mutex_);
  return shutting_down_;
}

std::size_t WorkQueue::depth() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

Duration WorkQueue::longest_running() const {
  const MutexLock lock(mutex_);
  Duration longest{0};
  for (const auto& [key, since] : processing_) longest = std::max<Duration>(longest, clock_.now() - since);
  return longest;
}

void WorkQueue::measure_locked() {
  depth_.set(static_cast<double>(queue_.size()));
  double sum = 0, longest = 0;
  const auto now = clock_.now();
  for (const auto& [key, since] : processing_) {
    sum += seconds(now - since);
    longest = std::max(longest, seconds(now - since));
  }
  unfinished_.set(sum);
  longest_.set(longest);
}

}  // namespace lockstep::control
