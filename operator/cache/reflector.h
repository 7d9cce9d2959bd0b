// Keeps a local copy of one kind of object in step with the server. It lists, then watches from the list's
// resourceVersion, and lists again only if the server no longer has that version.
//
// Guarantees: every object of a list and every change after it reaches the sink, in order, exactly once per version. A
// list replaces everything at once, so it also removes objects that were deleted while no watch ran. The copy never
// goes back in time, whichever server answers.
// Assumptions: one resource, one thread at a time in step().
// Caveats: the copy is late by design; control/own_writes.h waits for the operator's own writes.
#pragma once

#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "operator/base/backoff.h"
#include "operator/base/clock.h"
#include "operator/base/json_paths.h"
#include "operator/base/metrics.h"
#include "operator/kube/api.h"

namespace lockstep::cache {

// The receiver of what a reflector reads. Called on the reflector's thread only. Functions return nothing: the sink
// counts objects that it cannot use.
class ListSink {
 public:
  virtual ~ListSink() = default;
  // A list arrives item by item, and takes effect as a whole with end_list(). begin_list() drops the items of an
  // unfinished list.
  virtual void begin_list() = 0;
  virtual void end_list(const std::string& resource_version) = 0;
  virtual void bookmark(const std::string& resource_version) = 0;
};

// The sink of objects as JSON.
class ReflectorSink : public ListSink {
 public:
  virtual void add_item(kube::Json item) = 0;
  virtual void put(kube::Json object, const std::string& resource_version) = 0;
  virtual void remove(kube::Json object, const std::string& resource_version) = 0;
};

// The sink of objects as the text that the server sent, for kinds of which there are very many. Texts are valid during
// the call, and may be no JSON.
class TextSink : public ListSink {
 public:
  virtual void add_item(std::string_view item) = 0;
  virtual void put(std::string_view object, const std::string& resource_version) = 0;
  virtual void remove(std::string_view object, const std::string& resource_version) = 0;
};

struct ReflectorOptions {
  std::string name_space;  // "" is all
  std::string label_selector;
  std::string field_selector;
  // What the sink reads: see kube::WatchOptions. metadata.name, namespace and resourceVersion are among them. Items of
  // a list of Json have kind and apiVersion in any case. It outlives the reflector.
  const JsonPaths* fields = nullptr;
  int page_size = 500;
  // Watches end after a random time in this range. So they do not all reconnect at once, and spread over the API
  // servers.
  int least_watch_seconds = 290, most_watch_seconds = 580;
  // Backoff of client-go's reflector; it resets after this long without a failure.
  BackoffOptions backoff{std::chrono::milliseconds(800), std::chrono::seconds(30), 0.5};
  Duration healthy_after = std::chrono::minutes(2);
  // A watch that ends sooner than this without an event counts as a failure.
  Duration very_short = std::chrono::seconds(1);
};

class Reflector {
 public:
  // What the copy holds, not what the thread does.
  enum class State {
    kEmpty,     // no version, or one that the server no longer has
    kListing,   // some pages of a list
    kWatching,  // everything up to `resource_version()`
  };

  // The references outlive this. No thread runs until start().
  Reflector(kube::Api& api, Clock& clock, MetricsRegistry& metrics, kube::Resource resource, ReflectorOptions options,
            ReflectorSink& sink, unsigned seed = std::random_device{}());
  Reflector(kube::Api& api, Clock& clock, MetricsRegistry& metrics, kube::Resource resource, ReflectorOptions options,
            TextSink& sink, unsigned seed = std::random_device{}());
  // Stops and joins.
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // Runs step() on a thread of its own until stop().
  void start();
  // Ends a watch in progress at once and joins the thread; waits for another call in progress (10 s at most).
  void stop();

  // Lists again soon, for a sink that needs objects which it left out of the last list. A watch in progress ends; a
  // list in progress completes first. Any thread.
  void list_again();

  // One request: a page of a list, or a watch from its beginning to its end. Returns how long to wait before the next.
  Duration step(std::stop_token stop);

  State state() const { return state_; }                            // on the stepping thread
  const std::string& resource_version() const { return version_; }  // on the stepping thread

  // A request in the form that the sink reads. An inside of this class.
  class Intake;

 private:
  Reflector(Clock& clock, MetricsRegistry& metrics, kube::Resource resource, ReflectorOptions options, ListSink& sink,
            std::unique_ptr<Intake> intake, unsigned seed);
  Duration step_list();
  Duration step_watch(std::stop_token stop);
  // Counts and logs the failure; returns the time to wait.
  Duration failed(const Error& error, const char* doing);
  // The server no longer has this version: list again, first with at least the version seen so far.
  void forget_list(bool any_version);
  void run(std::stop_token stop);
  Counter& restarts(const char* reason);

  Clock& clock_;
  MetricsRegistry& metrics_;
  const kube::Resource resource_;
  const ReflectorOptions options_;
  ListSink& sink_;
  const std::unique_ptr<Intake> intake_;
  std::minstd_rand random_;

  std::mutex mutex_;         // protects these two
  bool list_again_ = false;  // when the state is kWatching next
  std::stop_source ending_;  // of the watch under way

  // Used by the stepping thread alone.
  State state_ = State::kEmpty;
  std::string version_;         // the copy has everything up to it; "" before the first list
  std::string list_version_;    // of the list in progress
  std::string continue_token_;  // of the list in progress
  bool any_version_ = false;    // the next list may be of any version (the server's history was lost)
  Backoff backoff_;
  MonotonicTime last_failure_{};
  std::string last_error_;  // so that it is logged once, not at each retry

  std::jthread thread_;
};

}  // namespace lockstep::cache
