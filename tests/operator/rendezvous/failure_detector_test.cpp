// The accrual failure detector: what it takes for silence, by table and by property.
#include "operator/rendezvous/failure_detector.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kEveryQuarter = milliseconds(250);
constexpr Duration kLongest = seconds(3);

ArrivalTimes of_gaps(const std::vector<int>& gaps, int repeated) {
  ArrivalTimes arrivals;
  MonotonicTime now{seconds(1)};
  arrivals.note(now, kLongest);
  for (int i = 0; i < repeated; ++i) {
    for (const int gap : gaps) arrivals.note(now += milliseconds(gap), kLongest);
  }
  return arrivals;
}

struct SilenceRow {
  const char* what;
  std::vector<int> gaps;  // milliseconds
  int repeated;
  Duration every;
  Duration least, most;  // of what it answers
};

class Silence : public testing::TestWithParam<SilenceRow> {};

INSTANTIATE_TEST_SUITE_P(
    Of, Silence,
    testing::Values(
        SilenceRow{"nothing_known", {}, 0, kEveryQuarter, seconds(3), seconds(3)},
        SilenceRow{"too_few_gaps", {250}, 119, kEveryQuarter, seconds(3), seconds(3)},
        SilenceRow{"a_quiet_cluster", {250, 251, 249, 255}, 40, kEveryQuarter, milliseconds(900), milliseconds(900)},
        SilenceRow{"some_jitter", {200, 300, 400, 100}, 40, kEveryQuarter, milliseconds(800), milliseconds(1000)},
        SilenceRow{"a_stall_now_and_then",
                   {250, 250, 250, 250, 250, 250, 250, 250, 250, 1200},
                   20,
                   kEveryQuarter,
                   milliseconds(2400),
                   milliseconds(2400)},
        SilenceRow{"a_busy_machine", {100, 1800, 50, 900, 20}, 40, kEveryQuarter, seconds(3), seconds(3)},
        SilenceRow{"a_large_job", {1000, 1010, 990}, 50, seconds(1), seconds(3), seconds(3)},
        SilenceRow{"a_larger_one", {1500}, 200, milliseconds(1500), milliseconds(4500), milliseconds(4500)}),
    [](const auto& which) { return std::string(which.param.what); });

TEST_P(Silence, is_what_the_gaps_say_within_bounds) {
  const SilenceRow& row = GetParam();
  const Duration silence = of_gaps(row.gaps, row.repeated).silence(row.every, {});
  EXPECT_GE(silence, row.least) << std::chrono::duration<double>(silence).count();
  EXPECT_LE(silence, row.most) << std::chrono::duration<double>(silence).count();
}

TEST(ArrivalTimes, phi_grows_with_the_silence_and_is_8_at_the_limit) {
  const ArrivalTimes arrivals = of_gaps({200, 300}, 100);
  double before = 0;
  for (int ms = 0; ms < 5000; ms += 50) {
    const double phi = arrivals.phi(milliseconds(ms), kEveryQuarter);
    EXPECT_GE(phi, before);
    before = phi;
  }
  // 250 ms and 5.612 times 50 ms.
  EXPECT_NEAR(arrivals.phi(std::chrono::microseconds(530'600), kEveryQuarter), 8, 0.05);
}

TEST(ArrivalTimes, a_stall_is_forgotten_after_twenty_minutes) {
  ArrivalTimes arrivals = of_gaps({250}, 200);
  MonotonicTime now{seconds(100)};
  arrivals.note(now, kLongest);
  arrivals.note(now += milliseconds(1400), kLongest);
  EXPECT_GE(arrivals.silence(kEveryQuarter, {}), milliseconds(2800));
  for (int i = 0; i < 2 * ArrivalTimes::kLongestOf; ++i) arrivals.note(now += kEveryQuarter, kLongest);
  EXPECT_EQ(arrivals.silence(kEveryQuarter, {}), milliseconds(900));
}

TEST(ArrivalTimes, an_outage_is_no_gap) {
  ArrivalTimes arrivals = of_gaps({250}, 200);
  const std::int64_t before = arrivals.gaps();
  arrivals.note(MonotonicTime{seconds(60)}, kLongest);
  EXPECT_EQ(arrivals.gaps(), before);
  EXPECT_EQ(arrivals.silence(kEveryQuarter, {}), milliseconds(900));
}

TEST(ArrivalTimes, whatever_the_gaps_the_answer_is_bounded_and_above_most_of_them) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned first =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::cout << "LOCKSTEP_SEED=" << first << "\n";
  for (unsigned seed = first; seed < first + 200; ++seed) {
    std::mt19937 random(seed);
    std::gamma_distribution<double> gap(0.5 + random() % 8, 20 + random() % 200);
    ArrivalTimes arrivals;
    MonotonicTime now{seconds(1)};
    int wrong = 0;
    constexpr int kGaps = 2000;
    for (int i = 0; i < kGaps; ++i) {
      const Duration next = std::chrono::microseconds(static_cast<std::int64_t>(gap(random) * 1000));
      const Duration silence = arrivals.silence(kEveryQuarter, {});
      ASSERT_GE(silence, milliseconds(900)) << "LOCKSTEP_SEED=" << seed;
      ASSERT_LE(silence, seconds(3)) << "LOCKSTEP_SEED=" << seed;
      wrong += next > silence && next <= seconds(3) ? 1 : 0;
      arrivals.note(now += next, kLongest);
    }
    ASSERT_LE(wrong, kGaps / 200) << "LOCKSTEP_SEED=" << seed << ": too many are taken for dead that are late";
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
