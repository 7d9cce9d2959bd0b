// The priorities that the cluster's PriorityClasses stand for.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/kube/api.h"

namespace lockstep::job {

// Thread-safe. Lists the classes and keeps them: the value of a class cannot change while the class exists.
class PriorityClasses {
 public:
  // The references outlive this.
  PriorityClasses(kube::Api& api, const Clock& clock) : api_(api), clock_(clock) {}

  // The priority that the API server gives to a pod that names this class. "" is a pod that names none. It has the
  // priority of the cluster's default class, or 0 (also where the operator may not list classes). kNotFound, with a
  // sentence for the job's condition: there is no such class. It may come, and nothing watches for it, so ask again
  // (refusal_wait()). However often that is, the API server is asked once in 5 s.
  Result<int> value_of(const std::string& name);

 private:
  struct Known {
    std::map<std::string, int> values;  // by name
    int without_class = 0;
    MonotonicTime listed{};
  };
  Result<Known> list() const;

  kube::Api& api_;
  const Clock& clock_;
  std::mutex mutex_;
  std::optional<Known> known_;  // protected by mutex_
};

}  // namespace lockstep::job
