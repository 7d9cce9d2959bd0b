// Elections between candidates whose wall clocks disagree, on one virtual monotonic clock.
#include "operator/kube/leader_elector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include <future>
#include <mutex>
#include <thread>

#include "operator/base/timestamp.h"
#include "tests/operator/kube/fake_api.h"
#include "tests/sanitizer.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Action = LeaderState::Step::Action;

// The one Lease, with the server's compare-and-set.
class LeaseBox {
 public:
  std::optional<Json> lease;

  Result<Json> write(const Json& object, bool create) {
    if (create && lease) return fail(ErrorCode::kAlreadyExists, "there is one");
    if (!create && (!lease || (*lease)["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"])) {
      return fail(ErrorCode::kConflict, "it changed");
    }
    lease = object;
    (*lease)["metadata"]["resourceVersion"] = std::to_string(++version_);
    return *lease;
  }

 private:
  int version_ = 0;
};

LeaderOptions options(const std::string& identity) {
  return {.name_space = "x", .identity = identity};
}

// A candidate that is stepped by hand; its wall clock is `skew` off.
struct Candidate {
  Candidate(const std::string& name, Duration wall_skew, unsigned seed) : state(options(name), seed), skew(wall_skew) {}

  void step(LeaseBox& box, const ManualClock& clock) {
    const auto now = clock.now();
    if (state.lost(now)) return;
    const auto what = state.next(now, clock.wall_now() + std::chrono::duration_cast<WallTime::duration>(skew));
    if (what.action == Action::kWait) return;
    if (!reachable) {
      state.failed(fail(ErrorCode::kUnavailable, "the server is away"), now);
    } else if (what.action == Action::kRead) {
      state.read(box.lease, now);
    } else if (auto written = box.write(what.lease, what.action == Action::kCreate)) {
      state.wrote(*written, now);
    } else {
      state.failed(written.error(), now);
    }
  }
  bool leads(const ManualClock& clock) const {
    return state.leads_until() && !state.lost(clock.now()) && clock.now() < *state.leads_until();
  }

  LeaderState state;
  Duration skew;
  bool reachable = true;
};

TEST(LeaderOptions, a_leader_stops_acting_before_the_lease_ends_however_short_that_is) {
  for (const int lease : {3, 4, 15, 3600}) {
    const auto made = leader_options(std::chrono::seconds(lease));
    EXPECT_LT(made.renew_deadline, made.lease_duration) << lease;
    EXPECT_LE(3 * made.retry_period, made.renew_deadline) << lease;  // a lost answer or two do no harm
  }
  EXPECT_EQ(leader_options(std::chrono::seconds(15)).renew_deadline, LeaderOptions{}.renew_deadline);
  EXPECT_EQ(leader_options(std::chrono::seconds(15)).retry_period, LeaderOptions{}.retry_period);
}

TEST(LeaderState, the_first_to_come_leads_and_renews_every_two_seconds) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  ASSERT_TRUE(a.leads(clock));
  EXPECT_EQ(a.state.term(), 1);
  EXPECT_EQ((*box.lease)["spec"]["holderIdentity"], "a");
  EXPECT_EQ((*box.lease)["spec"]["leaseDurationSeconds"], 15);
  const std::string renewed = (*box.lease)["spec"]["renewTime"];
  EXPECT_EQ(renewed.size(), std::string("2026-11-20T12:34:56.123456Z").size());
  const std::string version = (*box.lease)["metadata"]["resourceVersion"];
  for (int i = 0; i < 19; ++i) {
    clock.advance(milliseconds(100));
    a.step(box, clock);
  }
  EXPECT_EQ((*box.lease)["metadata"]["resourceVersion"], version);
  clock.advance(milliseconds(100));
  a.step(box, clock);
  EXPECT_NE((*box.lease)["metadata"]["resourceVersion"], version);
  EXPECT_EQ((*box.lease)["spec"]["leaseTransitions"], 1);
  EXPECT_EQ((*box.lease)["spec"]["acquireTime"], renewed);
}

TEST(LeaderState, wall_clocks_that_disagree_by_hours_never_make_two_leaders) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(sanitizer::cases(20)); ++seed) {
    ManualClock clock;
    LeaseBox box;
    std::vector<Candidate> candidates;
    candidates.reserve(3);
    candidates.emplace_back("a", std::chrono::hours(-5), seed);
    candidates.emplace_back("b", std::chrono::hours(7), seed + 100);
    candidates.emplace_back("c", Duration::zero(), seed + 200);
    std::minstd_rand random(seed);
    std::int64_t last_term = 0;
    int changes = 0;
    for (int tick = 0; tick < 20'000; ++tick) {  // 2,000 virtual seconds
      clock.advance(milliseconds(100));
      for (Candidate& candidate : candidates) {
        if (random() % 400 == 0) candidate.reachable = !candidate.reachable;
        if (candidate.state.lost(clock.now())) {  // its process restarts
          const auto name = fmt::format("{}{}", "abc"[&candidate - candidates.data()], tick);
          const auto skew = candidate.skew;
          std::destroy_at(&candidate);
          std::construct_at(&candidate, name, skew, seed + static_cast<unsigned>(tick));
        }
        candidate.step(box, clock);
      }
      int leaders = 0;
      for (const Candidate& candidate : candidates) {
        if (!candidate.leads(clock)) continue;
        ++leaders;
        if (candidate.state.term() != last_term) {
          EXPECT_GT(candidate.state.term(), last_term);
          last_term = candidate.state.term();
          ++changes;
        }
      }
      ASSERT_LE(leaders, 1) << "seed " << seed << " tick " << tick;
    }
    EXPECT_GT(changes, 3) << "seed " << seed;
  }
}

TEST(LeaderState, a_leader_that_cannot_renew_stops_before_another_starts) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1), b("b", {}, 2);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  b.step(box, clock);
  a.reachable = false;
  std::optional<int> stopped, started;
  for (int tick = 0; tick < 400 && !started; ++tick) {
    clock.advance(milliseconds(100));
    a.step(box, clock);
    b.step(box, clock);
    if (!stopped && !a.leads(clock)) stopped = tick;
    if (b.leads(clock)) started = tick;
  }
  ASSERT_TRUE(stopped && started);
  EXPECT_LE(*stopped, 101);
  EXPECT_GE(*started - *stopped, 45);  // lease duration less renew deadline, in ticks of 100 ms
  EXPECT_EQ(b.state.term(), 2);
}

TEST(LeaderState, a_released_lease_is_taken_at_the_next_look) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1), b("b", {}, 2);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  b.step(box, clock);
  ASSERT_TRUE(box.write(a.state.released(clock.wall_now()), false));
  clock.advance(seconds(3));
  b.step(box, clock);
  b.step(box, clock);
  EXPECT_TRUE(b.leads(clock));
}

TEST(LeaderState, a_lease_that_another_has_is_lost_at_once) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  Json stolen = *box.lease;
  stolen["spec"]["holderIdentity"] = "thief";
  ASSERT_TRUE(box.write(stolen, false));
  clock.advance(seconds(2));
  a.step(box, clock);  // conflict
  a.step(box, clock);  // reads
  EXPECT_TRUE(a.state.lost(clock.now()));
}

TEST(LeaderState, lossy_reads_do_not_restart_the_observation_of_an_expired_lease) {
  ManualClock clock;
  LeaseBox box;
  Candidate dead("dead", {}, 1), standby("standby", {}, 2);
  for (int i = 0; i < 3; ++i) dead.step(box, clock);
  standby.step(box, clock);
  int ticks = 0;
  for (; ticks < 600 && !standby.leads(clock); ++ticks) {
    clock.advance(milliseconds(100));
    standby.reachable = ticks / 30 % 2 == 1;  // three seconds away, three seconds back: at least one read each
    standby.step(box, clock);
  }
  EXPECT_LE(ticks, 150 + 30 + 24) << "lease, the longest outage, and the delay of one retry";
  EXPECT_TRUE(standby.leads(clock));
}

TEST(LeaderState, a_claim_whose_answer_was_lost_is_taken_up_at_the_next_look) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1);
  a.step(box, clock);  // reads: there is none
  ASSERT_TRUE(box.write(a.state.next(clock.now(), clock.wall_now()).lease, true));
  a.state.failed(fail(ErrorCode::kDeadlineExceeded, "no answer"), clock.now());
  for (int i = 0; i < 3; ++i) {
    clock.advance(seconds(3));
    a.step(box, clock);
  }
  ASSERT_TRUE(a.leads(clock));
  EXPECT_EQ(a.state.term(), 2);
}

TEST(LeaderState, a_lease_deleted_under_its_leader_is_made_again_with_a_higher_term) {
  ManualClock clock;
  LeaseBox box;
  Candidate a("a", {}, 1);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  (*box.lease)["spec"]["leaseTransitions"] = 7;
  const Json grown = *box.lease;
  a.state.wrote(grown, clock.now());
  box.lease.reset();
  clock.advance(seconds(2));
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  ASSERT_TRUE(a.leads(clock));
  EXPECT_EQ((*box.lease)["spec"]["leaseTransitions"], 8);
}

TEST(LeaderState, labels_and_unknown_fields_of_the_lease_stay) {
  ManualClock clock;
  LeaseBox box;
  box.lease = Json{{"metadata", {{"resourceVersion", "x"}, {"labels", {{"a", "b"}}}}},
                   {"spec", {{"holderIdentity", ""}, {"strategy", "OldestEmulationVersion"}, {"leaseTransitions", 4}}}};
  Candidate a("a", {}, 1);
  for (int i = 0; i < 3; ++i) a.step(box, clock);
  ASSERT_TRUE(a.leads(clock));
  EXPECT_EQ(a.state.term(), 5);
  EXPECT_EQ((*box.lease)["metadata"]["labels"]["a"], "b");
  EXPECT_EQ((*box.lease)["spec"]["strategy"], "OldestEmulationVersion");
}

// Two electors with threads of their own over one Lease.
TEST(LeaderElector, hands_over_when_one_releases) {
  std::mutex mutex;
  LeaseBox box;
  testing::FakeApi api;
  api.on_get = [&](const Resource&, const std::string&) -> Result<Json> {
    const std::lock_guard guard(mutex);
    if (!box.lease) return fail(ErrorCode::kNotFound, "no lease");
    return *box.lease;
  };
  api.on_create = [&](const Resource&, const Json& object) {
    const std::lock_guard guard(mutex);
    return box.write(object, true);
  };
  api.on_replace = [&](const Resource&, const std::string&, const Json& object) {
    const std::lock_guard guard(mutex);
    return box.write(object, false);
  };
  const auto make = [&](const std::string& name, std::atomic<std::int64_t>& term, MetricsRegistry& metrics) {
    auto quick = options(name);
    quick.retry_period = quick.look_period = milliseconds(20);
    return std::make_unique<LeaderElector>(api, SystemClock::instance(), metrics, quick,
                                           LeaderElector::Callbacks{[&](std::int64_t now) { term = now; }, nullptr});
  };
  const auto wait_for = [](const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(5));
    return condition();
  };
  MetricsRegistry metrics_a, metrics_b;
  std::atomic<std::int64_t> term_a = 0, term_b = 0;
  auto a = make("a", term_a, metrics_a), b = make("b", term_b, metrics_b);
  a->start();
  ASSERT_TRUE(wait_for([&] { return term_a == 1; }));
  EXPECT_TRUE(a->is_leader_now());
  b->start();
  std::this_thread::sleep_for(milliseconds(100));  // five of its reads of the Lease, after which nothing has happened
  EXPECT_FALSE(b->is_leader_now());
  a->release();
  EXPECT_FALSE(a->is_leader_now());
  ASSERT_TRUE(wait_for([&] { return term_b == 2; }));
  EXPECT_NE(metrics_b.text().find("leader_election_master_status{name=\"lockstep-operator\"} 1"), std::string::npos);
}

TEST(LeaderElector, leadership_ends_by_the_clock_alone_while_a_call_hangs) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool hang = false;
  LeaseBox box;
  testing::FakeApi api;
  api.on_get = [&](const Resource&, const std::string&) -> Result<Json> { return fail(ErrorCode::kNotFound, "none"); };
  api.on_create = [&](const Resource&, const Json& object) { return box.write(object, true); };
  api.on_replace = [&](const Resource&, const std::string&, const Json&) -> Result<Json> {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, seconds(10), [&] { return hang; });
    return fail(ErrorCode::kDeadlineExceeded, "late");
  };
  MetricsRegistry metrics;
  std::promise<void> leads, lost;
  LeaderElector elector(api, clock, metrics, options("a"),
                        {[&](std::int64_t) { leads.set_value(); }, [&] { lost.set_value(); }});
  elector.start();
  ASSERT_EQ(leads.get_future().wait_for(seconds(10)), std::future_status::ready);
  ASSERT_TRUE(elector.is_leader_now());
  clock.advance(seconds(11));  // the renewal hangs in the API call
  EXPECT_FALSE(elector.is_leader_now());
  {
    const std::lock_guard guard(mutex);
    hang = true;
    changed.notify_all();
  }
  EXPECT_EQ(lost.get_future().wait_for(seconds(10)), std::future_status::ready);
}

TEST(LeaderIdentity, differs_between_starts) {
  EXPECT_NE(make_leader_identity(), make_leader_identity());
}

}  // namespace
}  // namespace lockstep::kube
