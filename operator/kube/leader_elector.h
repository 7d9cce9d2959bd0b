// Which of several operators acts: the holder of a Lease.
//
// Guarantees: judged by one's own monotonic clock alone (wall clocks may be anywhere), nobody else takes the Lease
// before leaseDuration has passed since this process last renewed it, and is_leader_now() turns false at renewDeadline,
// earlier than that. Caveats: a process that is frozen between is_leader_now() and its write can still write late; for
// that every write is conditional on a resourceVersion or uid, and terms order what two leaders say.
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
  // Between two looks at a Lease that another holds. A leader that ends in order is replaced within this.
  Duration look_period = std::chrono::milliseconds(500);
};

// Options for a Lease of `lease_duration`, at least 3 s: the other times in the ecosystem's proportions.
LeaderOptions leader_options(Duration lease_duration);

// "<host name>_<16 hexadecimal digits>"
std::string make_leader_identity();

// The election as a state machine without I/O: what the server said and the time in, the next request out.
class LeaderState {
 public:
  struct Step {
    enum class Action { kWait, kRead, kCreate, kReplace };
    Action action = Action::kWait;
    Json lease;             // to write, with kCreate and kReplace
    MonotonicTime until{};  // with kWait: when to ask again
  };

  LeaderState(LeaderOptions options, unsigned seed);

  // What to do now. `wall` only dates what is written.
  Step next(MonotonicTime now, WallTime wall);
  // Answers to the Step: a read (nullopt: there is no Lease), a write that was sent at `sent`, or a failure.
  void read(const std::optional<Json>& lease, MonotonicTime now);
  void wrote(const Json& lease, MonotonicTime sent);
  void failed(const Error& error, MonotonicTime now);

  // Until when we lead; nullopt when we do not, or have lost it.
  std::optional<MonotonicTime> leads_until() const { return leads_until_; }
  // Leadership was had and is gone, for good: the deadline has passed or another holds the Lease.
  bool lost(MonotonicTime now) const { return lost_ || (leads_until_ && now >= *leads_until_); }
  // leaseTransitions of our leadership: every leader's is higher than those before.
  std::int64_t term() const { return term_; }
  // Our term is at least `term`: the next claim writes it.
  void raise_term(std::int64_t term) { term_ = std::max(term_, term); }
  // The Lease with no holder, free at once. Only for a leader whose workers have all stopped.
  Json released(WallTime wall) const;

 private:
  Json claim(WallTime wall) const;
  // How long until the next request: a fifth more at most, so that candidates do not meet in step.
  Duration jittered(Duration delay);

  const LeaderOptions options_;
  std::minstd_rand random_;
  std::optional<Json> lease_;   // the newest known; nullopt: there is none
  bool known_ = false;          // lease_ says what the server has: no request has failed since
  bool seen_ = false;           // lease_ was what the server had, once
  MonotonicTime changed_at_{};  // when we first saw lease_ as it is
  MonotonicTime next_try_{};
  std::optional<MonotonicTime> leads_until_;
  bool lost_ = false;
  std::int64_t term_ = 0;
};

// Runs the election on a thread of its own.
class LeaderElector {
 public:
  struct Callbacks {
    std::function<void(std::int64_t term)> on_started;  // we lead
    std::function<void()> on_lost;                      // we do not lead any more and never will again
  };

  // The references outlive this. Callbacks come on the elector's thread and return at once.
  LeaderElector(Api& api, Clock& clock, MetricsRegistry& metrics, LeaderOptions options, Callbacks callbacks);
  // Joins; does not release.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void start();
  // Asked right before each write. Any thread; never blocks.
  bool is_leader_now() const;
  // Of our leadership; 0 before it. Any thread.
  std::int64_t term() const { return term_; }
  // The leader has found out that terms up to `term` - 1 were used before it: the Lease says `term` from the next
  // renewal on. Any thread.
  void raise_term(std::int64_t term);
  // Ends the election and, when we lead, gives the Lease back, so that the next leader need not wait. Only after
  // everything that writes as leader has stopped. Blocks for two lease calls at most.
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
  LeaderState state_;                             // of the thread; of release() once that has ended
  std::atomic<std::int64_t> leads_until_ns_ = 0;  // of the monotonic clock; 0: does not lead
  std::atomic<std::int64_t> term_ = 0;
  std::atomic<std::int64_t> least_term_ = 0;  // as raise_term() said
  std::jthread thread_;
};

}  // namespace lockstep::kube
