// A Reflector and a Store of parsed objects, and callbacks for changes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/log.h"
#include "operator/cache/reflector.h"
#include "operator/cache/store.h"
#include "operator/kube/json_text.h"

namespace lockstep::cache {

// An informer without its type, for a controller.
class Synced {
 public:
  virtual ~Synced() = default;
  // The first list is complete. Any thread.
  virtual bool has_synced() const = 0;
};

// T: a plain struct with `api::ObjectMeta meta`.
template <typename T>
class Informer final : public Synced, private ReflectorSink {
 public:
  using Pointer = typename Store<T>::Pointer;
  using Parse = std::function<Result<T>(const kube::Json&)>;
  // Called on the reflector's thread after the store has changed; `before` or `after` is null. It should only put keys
  // into queues: the next event waits. Not called for a relisted object that did not change.
  using OnChange = std::function<void(const Pointer& before, const Pointer& after)>;
  struct Options {
    ReflectorOptions reflector;
    typename Store<T>::IndexBy index_by;  // see Store::by_index
  };

  // The references outlive this; no thread runs until start().
  Informer(kube::Api& api, Clock& clock, MetricsRegistry& metrics, const kube::Resource& resource, Parse parse,
           Options options, OnChange on_change)
      : resource_(resource),
        parse_(std::move(parse)),
        on_change_(std::move(on_change)),
        metrics_(metrics),
        store_(std::move(options.index_by)),
        reflector_(api, clock, metrics, resource, std::move(options.reflector), *this) {}

  void start() { reflector_.start(); }
  void stop() { reflector_.stop(); }
  const Store<T>& store() const { return store_; }
  bool has_synced() const override { return synced_; }

 private:
  void begin_list() override {
    listed_.clear();
    keep_.clear();
  }
  void add_item(kube::Json item) override {
    if (auto object = parse(item)) {
      listed_.push_back(std::move(*object));
    } else if (auto key = key_of(item)) {
      keep_.push_back(std::move(*key));
    }
  }
  void end_list(const std::string& resource_version) override {
    const auto changes = store_.replace(std::exchange(listed_, {}), std::exchange(keep_, {}), resource_version);
    synced_ = true;
    for (const auto& change : changes) tell(change);
    measure();
  }
  void put(kube::Json object, const std::string& resource_version) override {
    // An object that cannot be parsed keeps its last readable form: a deletion would be worse.
    if (auto parsed = parse(object)) {
      tell(store_.put(std::move(*parsed), resource_version));
      measure();
    } else {
      store_.observe(resource_version);
    }
  }
  void remove(kube::Json object, const std::string& resource_version) override {
    if (auto key = key_of(object)) {
      tell(store_.remove(*key, resource_version));
      measure();
    } else {
      store_.observe(resource_version);
    }
  }
  void bookmark(const std::string& resource_version) override { store_.observe(resource_version); }

  void tell(const typename Store<T>::Change& change) {
    if (on_change_ && (change.before || change.after)) on_change_(change.before, change.after);
  }
  void measure() { objects_.set(static_cast<double>(store_.size())); }
  std::optional<T> parse(const kube::Json& object) {
    auto parsed = parse_(object);
    if (parsed && !parsed->meta.name.empty()) return std::move(*parsed);
    log::warn("an object cannot be read and is left out",
              {{"kind", resource_.kind}, {"error", parsed ? std::string("it has no name") : parsed.error().message}});
    dropped_.increment();
    return std::nullopt;
  }
  static std::optional<api::ObjectKey> key_of(const kube::Json& object) {
    api::ObjectKey key{kube::text_at(object, {"metadata", "namespace"}), kube::text_at(object, {"metadata", "name"})};
    if (key.name.empty()) return std::nullopt;
    return key;
  }

  const kube::Resource resource_;
  const Parse parse_;
  const OnChange on_change_;
  MetricsRegistry& metrics_;
  Counter& dropped_ = metrics_.counter("lockstep_cache_unreadable_total", "Objects that could not be parsed.",
                                       {{"resource", resource_.plural}});
  Gauge& objects_ = metrics_.gauge("lockstep_cache_objects", "Objects in the cache.", {{"resource", resource_.plural}});
  Store<T> store_;
  std::atomic<bool> synced_ = false;
  // Of the reflector's thread: the list in progress.
  std::vector<T> listed_;
  std::vector<api::ObjectKey> keep_;
  Reflector reflector_;  // last: its thread uses all of the above
};

}  // namespace lockstep::cache
