#include "operator/rendezvous/coordinator_steps.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

Proposal proposal_of(std::int64_t generation) {
  Proposal proposal;
  proposal.generation = generation;
  return proposal;
}

TEST(CoordinatorSteps, a_transition_that_no_rule_allows_is_counted_and_taken) {
  Steps steps;
  EXPECT_TRUE(steps.enter(step::Waiting{}));
  EXPECT_FALSE(steps.illegal());
  EXPECT_TRUE(steps.enter(step::Up{})) << "nobody proposed anything";
  EXPECT_EQ(steps.now(), Step::kUp);
  ASSERT_TRUE(steps.illegal());
  EXPECT_EQ(steps.illegal()->from, Step::kWaiting);
  EXPECT_EQ(steps.illegal()->to, Step::kUp);
  steps.enter(step::Stopping{});
  steps.enter(step::Proposing{});
  EXPECT_EQ(steps.illegal()->count, 2);
}

TEST(CoordinatorSteps, a_step_is_no_transition_to_itself) {
  Steps steps;
  steps.enter(step::Stopping{});
  EXPECT_FALSE(steps.enter(step::Stopping{}));
  EXPECT_FALSE(steps.illegal());
}

TEST(CoordinatorSteps, a_proposal_ends_with_the_step_that_owns_it) {
  Steps steps;
  steps.enter(step::Waiting{proposal_of(1)});
  ASSERT_NE(steps.proposal(), nullptr);
  steps.enter(step::Proposing{*steps.take_proposal()});
  EXPECT_EQ(steps.proposal()->generation, 1);
  steps.enter(step::Starting{});
  EXPECT_EQ(steps.proposal(), nullptr);
}

TEST(CoordinatorSteps, a_proposal_made_after_a_failure_outlives_it) {
  Steps steps;
  steps.enter(step::Waiting{});
  steps.enter(step::Proposing{proposal_of(1)});
  steps.enter(step::Broken{});
  EXPECT_NE(steps.failure(), nullptr);
  steps.set_proposal(proposal_of(2));
  steps.enter(step::Waiting{steps.take_proposal()});
  EXPECT_EQ(steps.failure(), nullptr);
  EXPECT_EQ(steps.proposal()->generation, 2);
}

TEST(CoordinatorSteps, a_stop_remembers_the_failure_or_the_end_before_it) {
  Steps steps;
  Failure failure;
  failure.generation = 3;
  steps.enter(step::Stopping{{.failure = failure, .finished = true}});
  steps.enter(step::Stopped{*steps.stop()});
  ASSERT_NE(steps.failure(), nullptr);
  EXPECT_EQ(steps.failure()->generation, 3);
  EXPECT_TRUE(steps.finished());
  steps.enter(step::Waiting{});
  EXPECT_FALSE(steps.finished());
}

TEST(CoordinatorSteps, every_step_can_be_reached_and_left) {
  for (std::size_t to = 1; to < kSteps; ++to) {
    bool reached = false;
    for (std::size_t from = 0; from < kSteps; ++from) {
      reached = reached || (from != to && may_follow(static_cast<Step>(from), static_cast<Step>(to)));
    }
    EXPECT_TRUE(reached) << name_of(static_cast<Step>(to));
    EXPECT_NE(kMayFollow[to], 0) << name_of(static_cast<Step>(to));
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
