// Keeps a local copy of one kind of object in step with the server: list, then watch from the list's resourceVersion,
// and list again only when the server has forgotten that version.
//
// Guarantees: every object of a list and every change after it reaches the sink, in order, exactly once per version; a
// list replaces everything at once, so what was deleted while nobody watched is deleted here too; the copy never goes
// back in time, whichever server answers.
// Assumptions: one resource, one thread at a time in step().
// Caveats: the copy is late by design; own writes are awaited by control/own_writes.h.
#pragma once

#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "operator/base/backoff.h"
#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/kube/api.h"

namespace lockstep::cache {

// Where a reflector puts what it learns. Called on the reflector's thread only. Functions return nothing: an object
// that cannot be used is the sink's to count.
class ListSink {
 public:
  virtual ~ListSink() = default;
  // A list arrives item by item, and takes effect as a whole with end_list(); begin_list() drops what an unfinished
  // one left behind.
  virtual void begin_list() = 0;
  virtual void end_list(const std::string& resource_version) = 0;
  virtual void bookmark(const std::string& resource_version) = 0;
};

// The sink of objects as JSON.
class ReflectorSink : public ListSink {
 public:
  virtual void add_page(std::vector<kube::Json> items) = 0;
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
  int page_size = 500;
  // Watches end by themselves after a random time in this range, so that they do not all come back at once, and
  // spread over the API servers again.
  int least_watch_seconds = 290, most_watch_seconds = 580;
  // Backoff of client-go's reflector; it starts anew after this long without a failure.
  BackoffOptions backoff{std::chrono::milliseconds(800), std::chrono::seconds(30), 0.5};
  Duration healthy_after = std::chrono::minutes(2);
  // A watch that ends sooner than this and brought nothing counts as a failure.
  Duration very_short = std::chrono::seconds(1);
};

class Reflector {
 public:
  // What we know, not what we do.
  enum class State {
    kEmpty,     // nothing, or only a version that the server has forgotten
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
  // Ends a watch under way at once and joins the thread; a call under way is waited for (10 s at most).
  void stop();

  // Lists once more, soon: for a sink that now needs what it left out of the last list. A watch under way ends, a list
  // under way is finished first. Any thread.
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
  // The server has forgotten our version: list anew, at first not older than what we have seen.
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

  // Of the stepping thread.
  State state_ = State::kEmpty;
  std::string version_;         // the newest that we have seen everything up to; "" at first
  std::string list_version_;    // of the list under way
  std::string continue_token_;  // of the list under way
  bool any_version_ = false;    // the next list may be of any version (the server's history was lost)
  Backoff backoff_;
  MonotonicTime last_failure_{};
  std::string last_error_;  // logged once, not at each try

  std::jthread thread_;
};

}  // namespace lockstep::cache
