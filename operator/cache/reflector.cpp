#include "operator/cache/reflector.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "operator/base/json_cut.h"
#include "operator/base/log.h"
#include "operator/kube/json_text.h"

namespace lockstep::cache {

// Lists and watches in one form, and hands the objects to the sink of that form.
class Reflector::Intake {
 public:
  using Version = const std::string&;

  virtual ~Intake() = default;
  // Reads a page and adds its items to the sink. Calls `begin` right before the first item, and once for a page without
  // items. A page that fails after `begin` may have added some of its items; one that fails before has added none.
  virtual Result<kube::ListEnd> list(const kube::ListOptions& options, const std::function<void()>& begin) = 0;
  // Asks `accept` of each event by its version, "" when it has none; hands it on when accepted. Ends when `stop` is.
  virtual Status watch(const kube::WatchOptions& options, const std::function<bool(Version)>& accept,
                       std::stop_token stop) = 0;
};

namespace {

// What both forms do with an event.
template <typename Sink, typename Object>
void hand_on(Sink& sink, kube::WatchEventType type, Object object, const std::string& version) {
  switch (type) {
    case kube::WatchEventType::kAdded:
    case kube::WatchEventType::kModified:
      sink.put(std::move(object), version);
      break;
    case kube::WatchEventType::kDeleted:
      sink.remove(std::move(object), version);
      break;
    case kube::WatchEventType::kBookmark:
      sink.bookmark(version);
      break;
  }
}

// A page of texts. Calls `begin` right before the first one, and once for a page without any.
Result<kube::ListEnd> list_items(kube::Api& api, const kube::Resource& resource, const kube::ListOptions& options,
                                 const std::function<void()>& begin, const std::function<void(std::string_view)>& add) {
  bool begun = false;
  const auto begin_once = [&] {
    if (!begun) begin();
    begun = true;
  };
  LOCKSTEP_TRY(kube::ListEnd end, api.list_text(resource, options, [&](std::string_view item) {
    begin_once();
    add(item);
  }));
  begin_once();
  return end;
}

class JsonIntake final : public Reflector::Intake {
 public:
  JsonIntake(kube::Api& api, const kube::Resource& resource, const JsonPaths* fields, ReflectorSink& sink)
      : api_(api), resource_(resource), fields_(fields), sink_(sink) {}

  // One object at a time: the objects of a page together are ten times as large as its text.
  Result<kube::ListEnd> list(const kube::ListOptions& options, const std::function<void()>& begin) override {
    bool whole = true;
    LOCKSTEP_TRY(kube::ListEnd end, list_items(api_, resource_, options, begin, [&](std::string_view text) {
                   kube::Json item = kube::parse_object(text, fields_);
                   whole = whole && item.is_object();
                   if (!whole) return;
                   // Items of a list come without their kind.
                   item.emplace("apiVersion", resource_.api_version());
                   item.emplace("kind", resource_.kind);
                   sink_.add_item(std::move(item));
                 }));
    // An object that is left out would count as deleted.
    if (!whole) return fail(ErrorCode::kUnavailable, "a list of " + resource_.plural + " holds text that is no object");
    return end;
  }
  Status watch(const kube::WatchOptions& options, const std::function<bool(Version)>& accept,
               std::stop_token stop) override {
    const auto on_event = [&](kube::WatchEvent event) {
      const std::string version = kube::text_at(event.object, {"metadata", "resourceVersion"});
      if (!accept(version)) return true;
      hand_on(sink_, event.type, std::move(event.object), version);
      return !stop.stop_requested();
    };
    return api_.watch(resource_, options, on_event, stop);
  }

 private:
  kube::Api& api_;
  const kube::Resource resource_;
  const JsonPaths* const fields_;
  ReflectorSink& sink_;
};

class TextIntake final : public Reflector::Intake {
 public:
  TextIntake(kube::Api& api, const kube::Resource& resource, TextSink& sink)
      : api_(api), resource_(resource), sink_(sink) {}

  Result<kube::ListEnd> list(const kube::ListOptions& options, const std::function<void()>& begin) override {
    return list_items(api_, resource_, options, begin, [this](std::string_view item) { sink_.add_item(item); });
  }
  Status watch(const kube::WatchOptions& options, const std::function<bool(Version)>& accept,
               std::stop_token stop) override {
    const auto on_event = [&](kube::WatchEventType type, std::string_view object) {
      const std::string version = characters_of(cut_at(object, {"metadata", "resourceVersion"}));
      if (!accept(version)) return true;
      hand_on(sink_, type, object, version);
      return !stop.stop_requested();
    };
    return api_.watch_text(resource_, options, on_event, stop);
  }

 private:
  kube::Api& api_;
  const kube::Resource resource_;
  TextSink& sink_;
};

}  // namespace

Reflector::Reflector(kube::Api& api, Clock& clock, MetricsRegistry& metrics, kube::Resource resource,
                     ReflectorOptions options, ReflectorSink& sink, unsigned seed)
    : Reflector(clock, metrics, resource, options, sink,
                std::make_unique<JsonIntake>(api, resource, options.fields, sink), seed) {}

Reflector::Reflector(kube::Api& api, Clock& clock, MetricsRegistry& metrics, kube::Resource resource,
                     ReflectorOptions options, TextSink& sink, unsigned seed)
    : Reflector(clock, metrics, resource, std::move(options), sink, std::make_unique<TextIntake>(api, resource, sink),
                seed) {}

Reflector::Reflector(Clock& clock, MetricsRegistry& metrics, kube::Resource resource, ReflectorOptions options,
                     ListSink& sink, std::unique_ptr<Intake> intake, unsigned seed)
    : clock_(clock),
      metrics_(metrics),
      resource_(std::move(resource)),
      options_(std::move(options)),
      sink_(sink),
      intake_(std::move(intake)),
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

void Reflector::list_again() {
  const std::lock_guard guard(mutex_);
  list_again_ = true;
  ending_.request_stop();
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
  list.fields = options_.fields;
  const bool first_page = state_ == State::kEmpty;
  const bool not_older = first_page && !any_version_ && !version_.empty();
  if (not_older) list.resource_version = version_;

  bool begun = false;
  auto page = intake_->list(list, [&] {
    begun = true;
    if (!first_page) return;
    sink_.begin_list();
    state_ = State::kListing;
  });
  if (!page) {
    // The sink may hold some items of the failed page, and a second request for that page would add them twice.
    if (begun) forget_list(any_version_);
    if (page.error().code == ErrorCode::kGone) {
      restarts(first_page ? "version_too_new" : "continue_expired").increment();
      // A first page that is "gone" asked for a version that the server does not have. The server was restored from a
      // backup, or lags longer than it waits. Then its newest version is the truth. A continue token lives for some
      // minutes only: begin again with the first page.
      forget_list(not_older);
      if (not_older) return Duration::zero();
    } else if (!first_page && page.error().code == ErrorCode::kInvalid) {
      forget_list(false);  // the token of another server
    }
    return failed(page.error(), "list");
  }

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
  watch.fields = options_.fields;
  watch.timeout_seconds =
      std::uniform_int_distribution<int>(options_.least_watch_seconds, options_.most_watch_seconds)(random_);

  std::stop_source ending;
  {
    const std::lock_guard guard(mutex_);
    ending_ = ending;
    if (list_again_) ending.request_stop();
  }
  const std::stop_callback on_stop(stop, [&] { ending.request_stop(); });
  const auto start = clock_.now();
  long events = 0;
  const auto accept = [&](const std::string& version) {
    ++events;
    if (version.empty()) {
      metrics_
          .counter("lockstep_watch_undecodable_total", "Events of a watch that could not be parsed.",
                   {{"resource", resource_.plural}})
          .increment();
      return false;
    }
    version_ = version;
    last_error_.clear();
    return true;
  };
  const Status ended = intake_->watch(watch, accept, ending.get_token());

  if (stop.stop_requested()) return Duration::zero();
  {
    const std::lock_guard guard(mutex_);
    if (std::exchange(list_again_, false)) {
      restarts("asked").increment();
      forget_list(false);
      return Duration::zero();
    }
  }
  if (ended) {
    // The server's own timeout, a restart, a proxy: continue from the last version. Without a pause a watch that ends
    // at once would repeat thousands of times a second.
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
      // Usually at once; but a server that answers 410 to every watch must not cause a loop of lists.
      if (events > 0 || clock_.now() - start >= options_.very_short) return Duration::zero();
      return failed(ended.error(), "watch");
    case ErrorCode::kDeadlineExceeded:
      restarts("idle").increment();
      metrics_
          .counter("lockstep_watch_idle_timeouts_total", "Watches that ended because the server was silent.",
                   {{"resource", resource_.plural}})
          .increment();
      return failed(ended.error(), "watch");
    case ErrorCode::kForbidden:
    case ErrorCode::kNotFound:
    case ErrorCode::kInvalid:
      // The rights or the kind may be gone: a list says which, and finds the changes since.
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
  return metrics_.counter("lockstep_watch_restarts_total", "Watches and lists that were restarted, by reason.",
                          {{"resource", resource_.plural}, {"reason", reason}});
}

}  // namespace lockstep::cache
