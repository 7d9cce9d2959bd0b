#include "operator/cli/chaos.h"

#include <gtest/gtest.h>

namespace lockstep::cli::chaos_test {
namespace {

using namespace std::chrono_literals;

class ChaosTest : public testing::Test {
 protected:
  // Faults are made as `answers_` says, one after the other; without an answer they succeed.
  Chaos make(std::vector<Fault> schedule) {
    return Chaos(
        std::move(schedule),
        [this](const Fault& fault) -> Result<std::string> {
          asked_.push_back(fault.slot);
          if (answers_.empty()) return std::string("done");
          auto answer = std::move(answers_.front());
          answers_.erase(answers_.begin());
          return answer;
        },
        clock_);
  }
  static Fault after(double share, int slot, Duration delay = {}) {
    return {.slot = slot, .after = share, .delay = delay};
  }
  static Fault at_once(double share, int slot, Duration delay) {
    return {.slot = slot, .after = share, .at_once = true, .delay = delay};
  }

  static ChaosProgress at(std::int64_t step, std::int64_t total) { return {step, step, total}; }

  ManualClock clock_;
  std::vector<Result<std::string>> answers_;
  std::vector<int> asked_;
};

TEST_F(ChaosTest, a_fault_waits_for_its_step_and_for_the_jobs_number_of_steps) {
  Chaos chaos = make({after(0.1, 1), after(0.5, 2)});
  EXPECT_TRUE(chaos.look(at(50, 0)).empty());
  EXPECT_TRUE(chaos.look(at(9, 100)).empty());
  const auto first = chaos.look(at(10, 100));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].number, 1);
  EXPECT_EQ(first[0].step, 10);
  EXPECT_EQ(first[0].what, "done");
  EXPECT_TRUE(first[0].made);
  EXPECT_TRUE(chaos.look(at(49, 100)).empty());
  EXPECT_EQ(chaos.left(), 1U);
  EXPECT_EQ(chaos.look(at(50, 100)).size(), 1U);
  EXPECT_EQ(asked_, (std::vector<int>{1, 2}));
  EXPECT_EQ(chaos.left(), 0U);
  EXPECT_TRUE(chaos.look(at(100, 100)).empty());
}

TEST_F(ChaosTest, a_delay_is_from_the_step_on_or_from_the_fault_before) {
  Chaos chaos = make({after(0.1, 1, 20ms), at_once(0.1, 2, 100ms)});
  EXPECT_TRUE(chaos.look(at(10, 100)).empty());
  clock_.advance(20ms);
  EXPECT_EQ(chaos.look(at(10, 100)).size(), 1U);
  clock_.advance(99ms);
  EXPECT_TRUE(chaos.look(at(10, 100)).empty()) << "though no step was made since";
  clock_.advance(1ms);
  EXPECT_EQ(chaos.look(at(10, 100)).size(), 1U);
}

TEST_F(ChaosTest, a_fault_waits_for_a_few_steps_after_the_previous_one) {
  Chaos chaos = make({after(0.1, 1), after(0.1, 2), at_once(0.1, 3, 0ms)});
  EXPECT_EQ(chaos.look({60, 60, 100}).size(), 1U);
  EXPECT_TRUE(chaos.look({60, 64, 100}).empty());
  EXPECT_EQ(chaos.look({60, 65, 100}).size(), 2U) << "steps that are done again are steps";
}

TEST_F(ChaosTest, a_fault_whose_victim_is_missing_is_dropped_after_ten_seconds) {
  for (int i = 0; i < 3; ++i) answers_.emplace_back(fail(ErrorCode::kNotFound, "slot 1 has no pod now"));
  Chaos chaos = make({after(0.1, 1), after(0.2, 2)});
  EXPECT_TRUE(chaos.look(at(50, 100)).empty());
  clock_.advance(5s);
  EXPECT_TRUE(chaos.look(at(50, 100)).empty()) << "and the order stays";
  clock_.advance(5s);
  const auto events = chaos.look(at(50, 100));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_FALSE(events[0].made);
  EXPECT_EQ(events[0].what, "slot 1 has no pod now");
  EXPECT_EQ(chaos.look(at(55, 100)).size(), 1U);
  EXPECT_EQ(asked_, (std::vector<int>{1, 1, 1, 2}));
}

TEST_F(ChaosTest, a_fault_that_cannot_be_made_is_reported_and_not_retried) {
  answers_.emplace_back(fail(ErrorCode::kForbidden, "not permitted"));
  Chaos chaos = make({after(0.1, 1)});
  const auto events = chaos.look(at(50, 100));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_FALSE(events[0].made);
  EXPECT_TRUE(chaos.look(at(60, 100)).empty());
}

}  // namespace
}  // namespace lockstep::cli::chaos_test
