#include "operator/control/controller.h"

#include <algorithm>
#include <exception>

#include "operator/base/log.h"

namespace lockstep::control {
namespace {

// Polls until the caches are complete; then events take over.
constexpr Duration kCacheWait = std::chrono::milliseconds(50);
// A write comes back as an event, which adds the key; this is for a write whose event concerns no key.
constexpr Duration kOwnWriteWait = std::chrono::milliseconds(250);
// A renewal of the Lease is late. It arrives within seconds, or the process restarts; neither is the job's failure.
constexpr Duration kFenceWait = std::chrono::milliseconds(500);

}  // namespace

Controller::Controller(WorkQueue& queue, OwnWrites& own_writes, std::vector<const cache::Synced*> caches, Clock& clock,
                       MetricsRegistry& metrics, ControllerOptions options, Reconcile reconcile,
                       std::function<std::vector<api::ObjectKey>()> all_keys)
    : queue_(queue),
      own_writes_(own_writes),
      caches_(std::move(caches)),
      clock_(clock),
      metrics_(metrics),
      options_(std::move(options)),
      reconcile_(std::move(reconcile)),
      all_keys_(std::move(all_keys)),
      seconds_(metrics.histogram("lockstep_operator_reconcile_duration_seconds", "Seconds that a reconcile took.")) {}

Controller::~Controller() {
  stop();
}

void Controller::start() {
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  if (options_.resync > Duration::zero() && all_keys_) threads_.emplace_back([this] { resync(); });
}

void Controller::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    stopping_.notify_all();
  }
  queue_.shut_down_now();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Controller::caches_synced() const {
  return std::all_of(caches_.begin(), caches_.end(), [](const cache::Synced* cache) { return cache->has_synced(); });
}

bool Controller::healthy() const {
  return queue_.longest_running() < options_.stuck_after;
}

void Controller::work() {
  while (true) {
    const auto key = queue_.take(clock_.now() + std::chrono::hours(1));
    if (key) {
      handle(*key);
      queue_.done(*key);
    } else if (queue_.shutting_down()) {
      return;
    }
  }
}

void Controller::handle(const api::ObjectKey& key) {
  if (!caches_synced()) {
    queue_.add_after(key, kCacheWait);
    return;
  }
  if (!own_writes_.ready(key)) {
    queue_.add_after(key, kOwnWriteWait);
    return;
  }
  const auto start = clock_.now();
  // The workers' boundary: an exception of any library below ends here as an error of this key.
  const auto result = [&]() -> Result<std::optional<Duration>> {
    try {
      return reconcile_(key);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInternal, std::string("an exception: ") + error.what());
    }
  }();
  seconds_.observe(std::chrono::duration<double>(clock_.now() - start).count());
  metrics_
      .counter("lockstep_operator_reconcile_total", "Reconciles by their result.",
               {{"result", result ? "success" : error_code_name(result.error().code)}})
      .increment();
  settle(key, result);
}

void Controller::settle(const api::ObjectKey& key, const Result<std::optional<Duration>>& result) {
  if (result) {
    queue_.forget(key);
    if (*result) queue_.add_after(key, std::max(**result, Duration(std::chrono::milliseconds(1))));
    return;
  }
  const Error& error = result.error();
  switch (error.code) {
    case ErrorCode::kInvalid:
      log::error("a job cannot be reconciled as it is", {{"job", key.text()}, {"error", error.message}});
      queue_.forget(key);
      return;
    case ErrorCode::kCancelled:
      queue_.add_after(key, kFenceWait);
      return;
    case ErrorCode::kConflict:
      queue_.retry(key);
      return;
    case ErrorCode::kTooManyRequests:
      queue_.add_after(key, std::chrono::duration_cast<Duration>(
                                std::chrono::duration<double>(std::max(error.retry_after_seconds, 1.0))));
      return;
    default:
      log::warn("a reconcile failed and will be retried", {{"job", key.text()}, {"error", error.message}});
      queue_.retry(key);
      return;
  }
}

void Controller::resync() {
  MutexLock lock(mutex_);
  while (!stop_) {
    const auto next = clock_.now() + options_.resync;
    while (!stop_ && clock_.now() < next) clock_.wait_until(lock, stopping_, next);
    if (stop_) return;
    lock.unlock();
    for (const api::ObjectKey& key : all_keys_()) queue_.add(key);
    lock.lock();
  }
}

}  // namespace lockstep::control
