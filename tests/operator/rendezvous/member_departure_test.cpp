// Whether and when an agent leaves.
#include "operator/rendezvous/member_departure.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::rendezvous {
namespace {

using std::chrono::seconds;

const MonotonicTime kNow{std::chrono::hours(1)};
constexpr MemberDeparture::Telling kHeard{.welcomed = true, .acknowledged = true};
constexpr MemberDeparture::Telling kUnacknowledged{.welcomed = true};
constexpr MemberDeparture::Telling kAlone{.checkpoint_unsaid = true};

TEST(MemberDeparture, nobody_leaves_who_was_not_told_to) {
  MemberDeparture departure;
  departure.begin(kNow, seconds(1), seconds(2));
  EXPECT_EQ(departure.leave(kHeard, kNow + seconds(9)), std::nullopt);
  EXPECT_EQ(departure.latest(true), MonotonicTime::max());
}

TEST(MemberDeparture, a_failure_takes_the_place_of_success_and_stays) {
  MemberDeparture departure;
  departure.decide(0);
  departure.decide(3);
  departure.decide(4);
  departure.decide(0);
  EXPECT_EQ(departure.leave(kHeard, kNow), 3);
}

TEST(MemberDeparture, an_agent_leaves_once) {
  MemberDeparture departure;
  departure.decide(0);
  EXPECT_EQ(departure.leave(kHeard, kNow), 0);
  EXPECT_EQ(departure.leave(kHeard, kNow), std::nullopt);
  EXPECT_EQ(departure.latest(true), MonotonicTime::max());
}

TEST(MemberDeparture, it_waits_longer_for_a_coordinator_to_be_found) {
  MemberDeparture departure;
  departure.decide(0);
  departure.begin(kNow, seconds(1), seconds(20));
  EXPECT_EQ(departure.latest(true), kNow + seconds(1));
  EXPECT_EQ(departure.latest(false), kNow + seconds(20));
  EXPECT_EQ(departure.leave(kAlone, kNow + seconds(19)), std::nullopt);
  departure.listen(kNow + seconds(19), seconds(1));
  EXPECT_EQ(departure.leave(kUnacknowledged, kNow + seconds(19)), std::nullopt);
  EXPECT_EQ(departure.leave(kUnacknowledged, kNow + seconds(20)), 0);
}

TEST(MemberDeparture, a_pod_that_is_not_expected_waits_three_seconds) {
  MemberDeparture departure;
  departure.decide(0);
  departure.begin(kNow, seconds(1), seconds(20));
  departure.be_unexpected(kNow);
  EXPECT_EQ(departure.latest(false), kNow + seconds(3));
  departure.be_unexpected(kNow + seconds(2));
  EXPECT_EQ(departure.latest(false), kNow + seconds(3)) << "said again, it waits no longer";
}

TEST(MemberDeparture, a_pod_that_was_refused_for_good_looks_for_nobody) {
  MemberDeparture departure;
  departure.decide(1);
  departure.begin(kNow, seconds(1), seconds(20));
  departure.be_unwanted();
  EXPECT_EQ(departure.leave(kAlone, kNow), 1);
}

}  // namespace
}  // namespace lockstep::rendezvous
