#include "operator/cli/chaos_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep::cli::chaos_schedule_test {
namespace {

using namespace std::chrono_literals;

TEST(ChaosSchedule, is_the_same_for_the_same_seed_and_another_for_another) {
  EXPECT_EQ(chaos_schedule(7, 60, 4), chaos_schedule(7, 60, 4));
  EXPECT_NE(chaos_schedule(7, 60, 4), chaos_schedule(8, 60, 4));
}

// A noted seed gives the same faults in every build.
TEST(ChaosSchedule, does_not_depend_on_the_standard_library) {
  const auto schedule = chaos_schedule(7, 3, 4);
  std::string text;
  for (const Fault& fault : schedule) {
    text += std::string(name_of(fault.kind)) + " " + std::to_string(fault.slot) + " after " +
            std::to_string(static_cast<int>(1000 * fault.after)) + "; ";
  }
  EXPECT_EQ(text, "kill a pod 1 after 138; kill a worker 2 after 724; kill a pod 1 after 903; ");
}

TEST(ChaosSchedule, has_every_kind_on_every_slot_within_the_steps_of_the_job) {
  std::map<FaultKind, std::set<int>> slots;
  double before = 0;
  int at_once = 0;
  const auto schedule = chaos_schedule(1, 1000, 6);
  ASSERT_EQ(schedule.size(), 1000U);
  for (const Fault& fault : schedule) {
    slots[fault.kind].insert(fault.slot);
    EXPECT_GE(fault.after, before);
    EXPECT_GT(fault.after, 0.02);
    EXPECT_LT(fault.after, 0.96);
    EXPECT_TRUE(!fault.at_once || fault.after == before);
    at_once += fault.at_once ? 1 : 0;
    EXPECT_LE(fault.delay, fault.at_once ? 400ms : 25ms);
    EXPECT_EQ(fault.frozen > Duration::zero(), fault.kind == FaultKind::kFreezeWorker);
    EXPECT_LT(fault.frozen, 1s) << "a freeze is no death";
    before = fault.after;
  }
  EXPECT_FALSE(schedule[0].at_once) << "there is none before it";
  EXPECT_GT(at_once, 100);
  EXPECT_LT(at_once, 250);
  EXPECT_EQ(slots.size(), static_cast<size_t>(kFaultKinds));
  for (const auto& [kind, of] : slots) {
    EXPECT_EQ(of, kind == FaultKind::kRestartCoordinator ? std::set<int>({-1}) : std::set<int>({0, 1, 2, 3, 4, 5}))
        << name_of(kind);
  }
}

TEST(ChaosSchedule, cuts_no_data_connection_of_a_job_of_one) {
  for (const Fault& fault : chaos_schedule(1, 500, 1)) {
    EXPECT_NE(fault.kind, FaultKind::kCutData);
    EXPECT_LE(fault.slot, 0);
  }
}

TEST(ChaosWish, is_a_seed_and_perhaps_a_number_of_faults) {
  EXPECT_EQ(*parse_chaos("7"), (ChaosWish{7, 20}));
  EXPECT_EQ(*parse_chaos("18446744073709551615:5000"), (ChaosWish{18446744073709551615ULL, 5000}));
  for (const char* bad : {"", "x", "7:", ":3", "7:0", "7:-1", "7:5001", "7:3x", "-7", "7:3:4"}) {
    EXPECT_EQ(parse_chaos(bad).error().message,
              std::string("--chaos \"") + bad +
                  "\": give a seed, and a number of faults up to 5000 where it is not 20, as in --chaos 7 or --chaos "
                  "7:60");
  }
}

}  // namespace
}  // namespace lockstep::cli::chaos_schedule_test
