#include "operator/kube/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/base/log.h"
#include "operator/base/timestamp.h"
#include "operator/base/utf8.h"

namespace lockstep::kube {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(500);  // of an Api that allows no write at the moment

}  // namespace

EventRecorder::EventRecorder(Api& api, Clock& clock, MetricsRegistry& metrics, EventRecorderOptions options)
    : api_(api), clock_(clock), metrics_(metrics), options_(std::move(options)), thread_([this] { run(); }) {}

EventRecorder::~EventRecorder() {
  stop();
}

void EventRecorder::stop() {
  {
    const std::lock_guard guard(mutex_);
    if (!stop_) stop_deadline_ = clock_.now() + std::chrono::seconds(2);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void EventRecorder::drop(const char* why) {
  metrics_.counter("lockstep_events_dropped_total", "Events that were not delivered.", {{"reason", why}}).increment();
}

void EventRecorder::record(const EventObject& about, const std::string& type, const std::string& reason,
                           const std::string& action, const std::string& note) {
  Item item{about,
            type,
            whole_characters(reason, 128),
            whole_characters(action, 128),
            whole_characters(note, 1000),
            clock_.wall_now()};
  {
    const std::lock_guard guard(mutex_);
    if (!stop_ && queue_.size() < options_.most_queued) {
      queue_.push_back(std::move(item));
      changed_.notify_one();
      return;
    }
  }
  drop("queue_full");
}

void EventRecorder::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto tick = clock_.now() + options_.series_flush;
    while (queue_.empty() && !stop_ && clock_.now() < tick) clock_.wait_until(lock, changed_, tick);
    const bool too_late = stop_deadline_ && clock_.now() >= *stop_deadline_;
    if (queue_.empty() || too_late) {
      const bool last = stop_;
      lock.unlock();
      if (!too_late) flush_series(last);
      lock.lock();
      if (last) return;
      continue;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const bool handled = handle(item);
    lock.lock();
    if (handled) continue;
    if (stop_) {
      drop("refused");
      continue;
    }
    queue_.push_front(std::move(item));
    const auto again = clock_.now() + kAskAgain;
    while (!stop_ && clock_.now() < again) clock_.wait_until(lock, changed_, again);
  }
}

bool EventRecorder::allowed(const std::string& uid) {
  const auto now = clock_.now();
  if (buckets_.size() > options_.most_series) {
    std::erase_if(buckets_, [&](const auto& entry) {
      return now - entry.second.at > options_.refill * options_.burst;  // full again: same as a new bucket
    });
    if (buckets_.size() > options_.most_series) buckets_.clear();
  }
  Bucket& bucket = buckets_.try_emplace(uid, Bucket{static_cast<double>(options_.burst), now}).first->second;
  const double refilled = std::chrono::duration<double>(now - bucket.at) / options_.refill;
  bucket.tokens = std::min<double>(options_.burst, bucket.tokens + refilled);
  bucket.at = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

Json EventRecorder::make_event(const Item& item, std::string& name) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(item.time.time_since_epoch()).count();
  name = fmt::format("{}.{:x}{:02x}", whole_characters(item.about.name, 200), micros, names_++ & 0xffU);
  const std::string name_space = item.about.name_space.empty() ? "default" : item.about.name_space;
  Json regarding{{"apiVersion", item.about.api_version}, {"kind", item.about.kind}, {"name", item.about.name}};
  if (!item.about.name_space.empty()) regarding["namespace"] = item.about.name_space;
  if (!item.about.uid.empty()) regarding["uid"] = item.about.uid;
  return {{"apiVersion", kEvents.api_version()},
          {"kind", kEvents.kind},
          {"metadata", {{"name", name}, {"namespace", name_space}}},
          {"eventTime", format_micro_timestamp(item.time)},
          {"reportingController", options_.controller},
          {"reportingInstance", whole_characters(options_.instance.empty() ? "lockstep" : options_.instance, 128)},
          {"action", item.action},
          {"reason", item.reason},
          {"regarding", std::move(regarding)},
          {"note", item.note},
          {"type", item.type}};
}

bool EventRecorder::handle(const Item& item) {
  const auto now = clock_.now();
  while (!series_.empty() &&
         (now - series_.front().last_seen > options_.series_window || series_.size() > options_.most_series)) {
    by_key_.erase(series_.front().key);
    series_.pop_front();
  }
  const Key key{item.about.uid + "/" + item.about.name, item.type, item.reason, item.action, item.note};
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    Series& series = *known->second;
    ++series.count;
    series.last = item.time;
    series.last_seen = now;
    series_.splice(series_.end(), series_, known->second);
    if (now - series.last_write >= options_.series_flush) flush_series(false);
    return true;
  }
  if (!allowed(item.about.uid)) {
    drop("too_many");
    return true;
  }
  std::string name;
  const Json event = make_event(item, name);
  const std::string name_space = event["metadata"]["namespace"];
  if (const auto created = api_.create(kEvents, name_space, event); !created) {
    if (created.error().code == ErrorCode::kCancelled) {
      buckets_.at(item.about.uid).tokens += 1;
      return false;
    }
    log::debug("an event was not written", {{"reason", item.reason}, {"error", created.error().message}});
    drop("refused");
    return true;
  }
  series_.push_back(
      {.key = key, .name_space = name_space, .name = name, .last = item.time, .last_seen = now, .last_write = now});
  by_key_[key] = std::prev(series_.end());
  return true;
}

void EventRecorder::flush_series(bool all) {
  const auto now = clock_.now();
  for (Series& series : series_) {
    if (series.count == series.written || (!all && now - series.last_write < options_.series_flush)) continue;
    const Json patch{{"series", {{"count", series.count}, {"lastObservedTime", format_micro_timestamp(series.last)}}}};
    const auto patched = api_.patch(kEvents, series.name_space, series.name, PatchType::kMerge, patch);
    if (!patched && patched.error().code == ErrorCode::kCancelled && !all) return;  // the next flush retries it
    series.last_write = now;
    if (patched) {
      series.written = series.count;
    } else {
      drop("refused");
    }
    const std::lock_guard guard(mutex_);
    if (stop_deadline_ && clock_.now() >= *stop_deadline_) return;
  }
}

}  // namespace lockstep::kube
