// Remembers what we wrote until the cache shows it. Whoever decides from a cache that is older than the last decision
// takes that decision twice: a second set of pods, a restart counted twice.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "operator/api/object.h"
#include "operator/base/clock.h"

namespace lockstep::control {

// What a cache can say about itself; cache::Store has both.
struct CacheView {
  // The resourceVersion up to which it has seen everything; "" before its first list.
  std::function<std::string()> observed;
  // The object of that uid is there and not about to go (no deletionTimestamp).
  std::function<bool(const std::string& uid)> lives;
};

// A view of a cache::Store (or anything with observed() and get_by_uid()), which outlives it.
template <typename Store>
CacheView view_of(const Store& store) {
  return {[&store] { return store.observed(); },
          [&store](const std::string& uid) {
            const auto object = store.get_by_uid(uid);
            return object != nullptr && !object->meta.deleted;
          }};
}

// Thread-safe.
class OwnWrites {
 public:
  // An expectation that is not met for so long is dropped with a warning: better a late decision than none.
  explicit OwnWrites(Clock& clock, Duration give_up_after = std::chrono::minutes(5))
      : clock_(clock), give_up_after_(give_up_after) {}

  // `kind` names a cache: "Pod". Before the first call of the others; a kind without a view is not waited for.
  void add_cache(const std::string& kind, CacheView view);

  // A create, replace or patch for `job` was answered with this resourceVersion.
  void wrote(const api::ObjectKey& job, const std::string& kind, const std::string& resource_version);
  // A delete for `job` was accepted: the object of that uid is gone or terminating.
  void deleted(const api::ObjectKey& job, const std::string& kind, const std::string& uid);
  // All of the job's writes can be seen in the caches: it may be decided about.
  bool ready(const api::ObjectKey& job);
  // The job is gone.
  void forget(const api::ObjectKey& job);

 private:
  struct Expected {
    std::string resource_version;  // the newest that we wrote; "" for none
    std::set<std::string> gone;    // uids
    MonotonicTime since;           // of the last write
  };
  static bool seen(const CacheView& view, const std::string& resource_version);

  Clock& clock_;
  const Duration give_up_after_;
  std::map<std::string, CacheView> caches_;  // constant once the controller runs
  std::mutex mutex_;                         // protects what follows
  std::map<api::ObjectKey, std::map<std::string, Expected>> expected_;
};

}  // namespace lockstep::control
