// What only a leader does for its agents, as one level-triggered reconcile of three objects. They are the Secret with
// authority and term, the selectorless Service that agents dial, and the EndpointSlice by which it points at this
// process.
//
// Guarantees: every write asks the fence right before it and is conditional on the resourceVersion that was read. So a
// former leader that stalled overwrites nothing of its successor's. A term, once claimed, never falls, whichever of
// Lease and Secret somebody deletes. Caveat: when both are gone, terms begin at 1 again; records of jobs then move job
// by job.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/job/coordinator_authority.h"
#include "operator/kube/api.h"

namespace lockstep::job {

inline constexpr const char* kCoordinatorService = "lockstep-coordinator";

struct LeaderDutiesOptions {
  std::string name_space;         // of Secret, Service and EndpointSlice
  std::string watch_namespace;    // where pods are that may trust an old authority; "": everywhere
  std::int64_t lease_term = 0;    // leaseTransitions of the leadership; 0 without election
  std::string advertise_address;  // what pods dial; empty: the Service, whose EndpointSlice is kept
  std::string pod_ip;             // this process, for the EndpointSlice
  Duration rotate_before = std::chrono::hours(24 * 365);
  // New pods have trusted both authorities for so long before the old one may go. A pod that was built before and is
  // still on its way to the API server is there by then.
  Duration rotation_settles = std::chrono::seconds(30);
  // A missing Service is put back after this: a removal of the chart removes the operator within it.
  Duration service_returns = std::chrono::seconds(5);
};

// Not thread-safe: one owner.
class LeaderDuties {
 public:
  // `api` asks the fence before each write (FencedApi); it and `clock` outlive this.
  LeaderDuties(kube::Api& api, Clock& clock, LeaderDutiesOptions options);

  // One pass over everything; `port` is where the coordinator listens, once it does. Each duty is tried, whatever
  // became of the others; the first error is returned, as a sentence that says what is waited for. Blocks for some API
  // calls.
  Status reconcile(std::optional<int> port);

  // The claimed term; 0 before that.
  std::int64_t term() const { return term_; }
  // What the coordinator serves and new pods trust; nullopt before the first look.
  const std::optional<Authority>& authority() const { return held_; }
  // "ip:port" (or advertise_address) that pods dial; "" before it is known.
  const std::string& address() const { return address_; }

 private:
  Status keep_authority();
  Status keep_service();
  Status keep_endpoint(int port);
  Result<bool> everyone_trusts_next();
  Status restore_service();

  kube::Api& api_;
  Clock& clock_;
  const LeaderDutiesOptions options_;
  std::int64_t term_ = 0;
  std::optional<Authority> held_;
  MonotonicTime rotating_since_{};  // when this process first knew held_->next
  std::string address_;
  std::optional<api::Json> service_;  // as it was last seen
  std::optional<MonotonicTime> service_gone_since_;
};

}  // namespace lockstep::job
