// Elects one of several operators: the holder of a Lease.
//
// Guarantees: no other process takes the Lease before leaseDuration has passed since the last renewal, by this
// process's monotonic clock (wall clocks may be anywhere). is_leader_now() turns false at renewDeadline, earlier than
// that. Caveats: a process that is frozen between is_leader_now() and its write can still write late. So every write is
// conditional on a resourceVersion or uid, and terms order the messages of two leaders.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/kube/api.h"

namespace lockstep::kube {

struct LeaderOptions {
  std::string name_space;
  std::string name = "lockstep-operator";
  std::string identity;  // unique to this start of this process: host name and a random part
  // The ecosystem's values.
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
  // Between two reads of a Lease that another holds. A leader that ends in order is replaced within this time.
  Duration look_period = std::chrono::milliseconds(500);
};

// Options for a Lease of `lease_duration`, at least 3 s: the other times in the ecosystem's proportions.
LeaderOptions leader_options(Duration lease_duration);

// "<host name>_<16 hexadecimal digits>"
std::string make_leader_identity();

// The election as a state machine without I/O: the server's answer and the time in, the next request out.
class LeaderState {
 public:
  struct Step {
    enum class Action { kWait, kRead, kCreate, kReplace };
    Action action = Action::kWait;
    Json lease;             // to write, with kCreate and kReplace
    MonotonicTime until{};  // with kWait: when to ask again
  };

  LeaderState(LeaderOptions options, unsigned seed);

  // The next request. `wall` only dates it.
  Step next(MonotonicTime now, WallTime wall);
  // Answers to the Step: a read (nullopt: there is no Lease), a write that was sent at `sent`, or a failure.
  void read(const std::optional<Json>& lease, MonotonicTime now);
  void wrote(const Json& lease, MonotonicTime sent);
  void failed(const Error& error, MonotonicTime now);

  // Leads until this time; nullopt: it does not lead, or has lost the Lease.
  std::optional<MonotonicTime> leads_until() const { return leads_until_; }
  // It led and has lost the Lease for good: the deadline has passed or another holds it.
  bool lost(MonotonicTime now) const { return lost_ || (leads_until_ && now >= *leads_until_); }
  // leaseTransitions of this leadership: higher than that of every earlier leader.
  std::int64_t term() const { return term_; }
  // The term is at least `term`: the next claim writes it.
  void raise_term(std::int64_t term) { term_ = std::max(term_, term); }
  // The Lease with no holder, free at once. Only for a leader whose workers have all stopped.
  Json released(WallTime wall) const;

 private:
  Json claim(WallTime wall) const;
  // How long until the next request: up to a fifth more at random, so that candidates do not collide.
  Duration jittered(Duration delay);

  const LeaderOptions options_;
  std::minstd_rand random_;
  std::optional<Json> lease_;   // the newest known; nullopt: there is none
  bool known_ = false;          // lease_ is what the server has: no request has failed since
  bool seen_ = false;           // lease_ was what the server had, at some time
  MonotonicTime changed_at_{};  // when this process first saw lease_ as it is
  MonotonicTime next_try_{};
  std::optional<MonotonicTime> leads_until_;
  bool lost_ = false;
  std::int64_t term_ = 0;
};

// Runs the election on a thread of its own.
class LeaderElector {
 public:
  struct Callbacks {
    std::function<void(std::int64_t term)> on_started;  // this process leads
    std::function<void()> on_lost;                      // this process has lost the Lease and never leads again
  };

  // The references outlive this. Callbacks come on the elector's thread and return at once.
  LeaderElector(Api& api, Clock& clock, MetricsRegistry& metrics, LeaderOptions options, Callbacks callbacks);
  // Joins; does not release.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void start();
  // To be called right before each write. Any thread; never blocks.
  bool is_leader_now() const;
  // The term of this leadership; 0 before it. Any thread.
  std::int64_t term() const { return term_; }
  // The leader has found out that terms up to `term` - 1 were used before it: the Lease says `term` from the next
  // renewal on. Any thread.
  void raise_term(std::int64_t term);
  // Ends the election and, if this process leads, releases the Lease, so that the next leader need not wait. To be
  // called after everything that writes as leader has stopped. Blocks for two lease calls at most.
  void release();

 private:
  void run(std::stop_token stop);
  void perform(const LeaderState::Step& step);
  void stop_thread();

  Api& api_;
  Clock& clock_;
  const LeaderOptions options_;
  const Callbacks callbacks_;
  Gauge& master_;
  LeaderState state_;                             // used by the thread; by release() after its end
  std::atomic<std::int64_t> leads_until_ns_ = 0;  // of the monotonic clock; 0: does not lead
  std::atomic<std::int64_t> term_ = 0;
  std::atomic<std::int64_t> least_term_ = 0;  // set by raise_term()
  std::jthread thread_;
};

}  // namespace lockstep::kube
