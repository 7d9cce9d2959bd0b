#include "operator/control/own_writes.h"

#include "operator/base/log.h"

namespace lockstep::control {

void OwnWrites::add_cache(const std::string& kind, CacheView view) {
  caches_[kind] = std::move(view);
}

void OwnWrites::wrote(const api::ObjectKey& job, const std::string& kind, const std::string& resource_version) {
  if (resource_version.empty() || !caches_.contains(kind)) return;
  const MutexLock lock(mutex_);
  Expected& expected = expected_[job][kind];
  const auto order = api::compare_resource_versions(expected.resource_version, resource_version);
  // Answers of parallel writes may be noted in any order.
  if (!order || *order < 0) expected.resource_version = resource_version;
  expected.since = clock_.now();
}

void OwnWrites::deleted(const api::ObjectKey& job, const std::string& kind, const std::string& uid) {
  if (uid.empty() || !caches_.contains(kind)) return;
  const MutexLock lock(mutex_);
  Expected& expected = expected_[job][kind];
  expected.gone.insert(uid);
  expected.since = clock_.now();
}

bool OwnWrites::seen(const CacheView& view, const std::string& resource_version) {
  const std::string observed = view.observed();
  if (observed.empty()) return false;
  const auto order = api::compare_resource_versions(observed, resource_version);
  return order ? *order >= 0 : observed == resource_version;
}

bool OwnWrites::ready(const api::ObjectKey& job) {
  const MutexLock lock(mutex_);
  const auto of_job = expected_.find(job);
  if (of_job == expected_.end()) return true;
  for (auto it = of_job->second.begin(); it != of_job->second.end();) {
    Expected& expected = it->second;
    const CacheView& view = caches_.at(it->first);
    if (!expected.resource_version.empty() && seen(view, expected.resource_version)) expected.resource_version.clear();
    std::erase_if(expected.gone, [&](const std::string& uid) { return !view.lives(uid); });
    const bool met = expected.resource_version.empty() && expected.gone.empty();
    const bool given_up = !met && clock_.now() - expected.since > give_up_after_;
    if (given_up) {
      log::warn("the cache does not show a write of this operator",
                {{"job", job.text()}, {"kind", it->first}, {"version", expected.resource_version}});
    }
    it = met || given_up ? of_job->second.erase(it) : std::next(it);
  }
  if (!of_job->second.empty()) return false;
  expected_.erase(of_job);
  return true;
}

void OwnWrites::forget(const api::ObjectKey& job) {
  const MutexLock lock(mutex_);
  expected_.erase(job);
}

}  // namespace lockstep::control
