#include "operator/cache/reflector.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "operator/base/log.h"
#include "operator/kube/json_text.h"

namespace lockstep::cache {

Reflector::Reflector(kube::Api& api, Clock& clock, MetricsRegistry& metrics, kube::Resource resource,
                     ReflectorOptions options, ReflectorSink& sink, unsigned seed)
    : api_(api),
      clock_(clock),
      metrics_(metrics),
      resource_(std::move(resource)),
      options_(std::move(options)),
      sink_(sink),
      random_(seed),
      backoff_(options_.backoff, seed) {}

Reflector::~Reflector() {
  stop();
}

void Reflector::start() {
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void Reflector::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Reflector::run(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable wake;
  const std::stop_callback on_stop(stop, [&] {
    const std::lock_guard guard(mutex);
    wake.notify_all();
  });
  while (!stop.stop_requested()) {
    const Duration wait = step(stop);
    const auto until = clock_.now() + wait;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested() && clock_.now() < until) clock_.wait_until(lock, wake, until);
  }
}

Duration Reflector::step(std::stop_token stop) {
  return state_ == State::kWatching ? step_watch(std::move(stop)) : step_list();
}

void Reflector::forget_list(bool any_version) {
  state_ = State::kEmpty;
  continue_token_.clear();
  any_version_ = any_version;
}

Duration Reflector::step_list() {
  kube::ListOptions list;
  list.name_space = options_.name_space;
  list.label_selector = options_.label_selector;
  list.field_selector = options_.field_selector;
  list.limit = options_.page_size;
  list.continue_token = continue_token_;
  const bool first_page = state_ == State::kEmpty;
  const bool not_older = first_page && !any_version_ && !version_.empty();
  if (not_older) list.resource_version = version_;

  auto page = api_.list(resource_, list);
  if (!page) {
    if (page.error().code == ErrorCode::kGone) {
      restarts(first_page ? "version_too_new" : "continue_expired").increment();
      // A first page that is "gone" asked for a version that the server does not have: it was restored from a backup,
      // or lags behind for longer than it waits. Then the newest that it has is the truth. A continue token lives for
      // some minutes only: begin again with the first page.
      forget_list(not_older);
      if (not_older) return Duration::zero();
    } else if (!first_page && page.error().code == ErrorCode::kInvalid) {
      forget_list(false);  // the token of another server
    }
    return failed(page.error(), "list");
  }

  if (first_page) {
    sink_.begin_list();
    state_ = State::kListing;
  }
  sink_.add_page(std::move(page->items));
  list_version_ = page->resource_version;
  continue_token_ = page->continue_token;
  if (!continue_token_.empty()) return Duration::zero();

  sink_.end_list(list_version_);
  version_ = list_version_;
  state_ = State::kWatching;
  any_version_ = false;
  last_error_.clear();
  metrics_.counter("lockstep_lists_total", "Complete lists by kind.", {{"resource", resource_.plural}}).increment();
  return Duration::zero();
}

Duration Reflector::step_watch(std::stop_token stop) {
  kube::WatchOptions watch;
  watch.name_space = options_.name_space;
  watch.label_selector = options_.label_selector;
  watch.field_selector = options_.field_selector;
  watch.resource_version = version_;
  watch.timeout_seconds =
      std::uniform_int_distribution<int>(options_.least_watch_seconds, options_.most_watch_seconds)(random_);

  const auto start = clock_.now();
  long events = 0;
  const auto on_event = [&](kube::WatchEvent event) {
    ++events;
    const std::string version = kube::text_at(event.object, {"metadata", "resourceVersion"});
    if (version.empty()) {
      metrics_
          .counter("lockstep_watch_undecodable_total", "Lines of a watch that were no event.",
                   {{"resource", resource_.plural}})
          .increment();
      return true;
    }
    version_ = version;
    last_error_.clear();
    switch (event.type) {
      case kube::WatchEventType::kAdded:
      case kube::WatchEventType::kModified:
        sink_.put(std::move(event.object), version);
        break;
      case kube::WatchEventType::kDeleted:
        sink_.remove(std::move(event.object), version);
        break;
      case kube::WatchEventType::kBookmark:
        sink_.bookmark(version);
        break;
    }
    return !stop.stop_requested();
  };
  const Status ended = api_.watch(resource_, watch, on_event, stop);

  if (stop.stop_requested()) return Duration::zero();
  if (ended) {
    // The server's own timeout, a restart, a proxy: go on from where we are. An end at once would repeat thousands of
    // times a second.
    if (events == 0 && clock_.now() - start < options_.very_short) {
      restarts("very_short").increment();
      return failed(fail(ErrorCode::kUnavailable, "the watch ended at once"), "watch");
    }
    restarts("ended").increment();
    return Duration::zero();
  }
  switch (ended.error().code) {
    case ErrorCode::kGone:
      restarts("gone").increment();
      forget_list(false);
      // Usually at once; but a server that answers 410 to every watch must not make us list in a loop.
      if (events > 0 || clock_.now() - start >= options_.very_short) return Duration::zero();
      return failed(ended.error(), "watch");
    case ErrorCode::kDeadlineExceeded:
      restarts("idle").increment();
      metrics_
          .counter("lockstep_watch_idle_timeouts_total", "Watches given up because the server had gone silent.",
                   {{"resource", resource_.plural}})
          .increment();
      return failed(ended.error(), "watch");
    case ErrorCode::kForbidden:
    case ErrorCode::kNotFound:
    case ErrorCode::kInvalid:
      // Rights or the kind itself went away: a list says which, and finds out what changed meanwhile.
      restarts("refused").increment();
      forget_list(false);
      return failed(ended.error(), "watch");
    default:
      restarts("failed").increment();
      return failed(ended.error(), "watch");
  }
}

Duration Reflector::failed(const Error& error, const char* doing) {
  const auto now = clock_.now();
  if (last_failure_ != MonotonicTime{} && now - last_failure_ > options_.healthy_after) backoff_.reset();
  last_failure_ = now;
  if (error.message != last_error_) {
    log::warn("cannot " + std::string(doing) + " " + resource_.plural, {{"error", error.message}});
    last_error_ = error.message;
  }
  const auto asked = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(error.retry_after_seconds));
  return std::max(backoff_.next(), asked);
}

Counter& Reflector::restarts(const char* reason) {
  return metrics_.counter("lockstep_watch_restarts_total", "Watches and lists begun anew, by reason.",
                          {{"resource", resource_.plural}, {"reason", reason}});
}

}  // namespace lockstep::cache
