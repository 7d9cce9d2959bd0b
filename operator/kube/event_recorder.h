// Events (events.k8s.io/v1): what happened to an object, for people. A repeated event becomes a series on the first
// one. Best effort: recording never waits for the API server, and undeliverable events are dropped. If the Api refuses
// writes for the moment (kCancelled: a renewal of the Lease is late), the recorder retries.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/kube/api.h"

namespace lockstep::kube {

// The object that an event is about.
struct EventObject {
  std::string api_version, kind, name_space, name, uid;
};

struct EventRecorderOptions {
  std::string controller = "lockstep.dev/operator";  // reportingController
  std::string instance;                              // reportingInstance; cut to 128 characters
  std::size_t most_queued = 1000;
  std::size_t most_series = 1024;                    // kept at once; the oldest is dropped
  Duration series_window = std::chrono::minutes(6);  // after this silence a repetition is a new Event
  Duration series_flush = std::chrono::seconds(30);  // least time between two updates of a series
  // Rate of different events about one object: a burst of this many, then one per interval.
  int burst = 25;
  Duration refill = std::chrono::seconds(30);
};

class EventRecorder {
 public:
  // The references outlive this. Starts its thread.
  EventRecorder(Api& api, Clock& clock, MetricsRegistry& metrics, EventRecorderOptions options);
  // stop()
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // Writes what is queued, for two seconds and the call in flight at most, and joins the thread. Later events are
  // dropped. A leader calls it before it releases its Lease. Idempotent; one thread.
  void stop();

  // `type` is "Normal" or "Warning"; `reason` and `action` are CamelCase words of at most 128 characters; `note` is a
  // sentence, cut to 1 kB. Never blocks. Any thread.
  void record(const EventObject& about, const std::string& type, const std::string& reason, const std::string& action,
              const std::string& note);

 private:
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::string>;  // uid type reason action note
  struct Item {
    EventObject about;
    std::string type, reason, action, note;
    WallTime time;
  };
  struct Series {
    Key key;
    std::string name_space, name;  // of the Event
    std::int64_t count = 1;
    std::int64_t written = 1;
    WallTime last;
    MonotonicTime last_seen, last_write;
  };
  struct Bucket {
    double tokens;
    MonotonicTime at;
  };

  void run();
  // Creates the Event, or counts it in its series. False if the Api allows no write at the moment.
  bool handle(const Item& item);
  void flush_series(bool all);
  bool allowed(const std::string& uid);
  Json make_event(const Item& item, std::string& name);
  void drop(const char* why);

  Api& api_;
  Clock& clock_;
  MetricsRegistry& metrics_;
  const EventRecorderOptions options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;                      // protected by mutex_
  bool stop_ = false;                           // protected by mutex_
  std::optional<MonotonicTime> stop_deadline_;  // protected by mutex_

  // Used by the thread alone.
  std::list<Series> series_;  // the most recently seen last
  std::map<Key, std::list<Series>::iterator> by_key_;
  std::map<std::string, Bucket> buckets_;  // by uid
  std::uint64_t names_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::kube
