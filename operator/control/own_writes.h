// Remembers the operator's writes until the cache shows them. A reconcile on a cache older than its last decision would
// decide twice: a second set of pods, a restart counted twice.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "operator/api/object.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace lockstep::control {

// What a cache says about itself; cache::Store has both.
struct CacheView {
  // The cache has seen everything up to this resourceVersion; "" before its first list.
  std::function<std::string()> observed;
  // The object of that uid exists and has no deletionTimestamp.
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
  // An expectation that is unmet for this long is dropped with a warning: a late decision is better than none.
  explicit OwnWrites(Clock& clock, Duration give_up_after = std::chrono::minutes(5))
      : clock_(clock), give_up_after_(give_up_after) {}

  // `kind` names a cache: "Pod". To be called before the other functions; kinds without a view are not waited for.
  void add_cache(const std::string& kind, CacheView view);

  // The server answered a create, replace or patch for `job` with this resourceVersion.
  void wrote(const api::ObjectKey& job, const std::string& kind, const std::string& resource_version);
  // The server accepted a delete for `job`: the object of that uid is deleted or terminating.
  void deleted(const api::ObjectKey& job, const std::string& kind, const std::string& uid);
  // Whether the caches show all of the job's writes, so that it may be reconciled.
  bool ready(const api::ObjectKey& job);
  // The job was deleted.
  void forget(const api::ObjectKey& job);

 private:
  struct Expected {
    std::string resource_version;  // the newest write; "" for none
    std::set<std::string> gone;    // uids
    MonotonicTime since;           // of the last write
  };
  static bool seen(const CacheView& view, const std::string& resource_version);

  Clock& clock_;
  const Duration give_up_after_;
  std::map<std::string, CacheView> caches_;  // constant once the controller runs
  Mutex mutex_;
  std::map<api::ObjectKey, std::map<std::string, Expected>> expected_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::control
