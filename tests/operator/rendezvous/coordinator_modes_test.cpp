#include "operator/rendezvous/coordinator_modes.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

Proposal proposal_of(std::int64_t generation) {
  Proposal proposal;
  proposal.generation = generation;
  return proposal;
}

TEST(CoordinatorModes, a_transition_that_no_rule_allows_is_counted_and_taken) {
  Modes modes;
  EXPECT_TRUE(modes.enter(mode::Waiting{}));
  EXPECT_FALSE(modes.illegal());
  EXPECT_TRUE(modes.enter(mode::Up{})) << "nobody proposed anything";
  EXPECT_EQ(modes.now(), Mode::kUp);
  ASSERT_TRUE(modes.illegal());
  EXPECT_EQ(modes.illegal()->from, Mode::kWaiting);
  EXPECT_EQ(modes.illegal()->to, Mode::kUp);
  modes.enter(mode::Stopping{});
  modes.enter(mode::Proposing{});
  EXPECT_EQ(modes.illegal()->count, 2);
}

TEST(CoordinatorModes, a_mode_is_no_transition_to_itself) {
  Modes modes;
  modes.enter(mode::Stopping{});
  EXPECT_FALSE(modes.enter(mode::Stopping{}));
  EXPECT_FALSE(modes.illegal());
}

TEST(CoordinatorModes, a_proposal_ends_with_the_mode_that_owns_it) {
  Modes modes;
  modes.enter(mode::Waiting{proposal_of(1)});
  ASSERT_NE(modes.proposal(), nullptr);
  modes.enter(mode::Proposing{*modes.take_proposal()});
  EXPECT_EQ(modes.proposal()->generation, 1);
  modes.enter(mode::Starting{});
  EXPECT_EQ(modes.proposal(), nullptr);
}

TEST(CoordinatorModes, a_proposal_made_after_a_failure_outlives_it) {
  Modes modes;
  modes.enter(mode::Waiting{});
  modes.enter(mode::Proposing{proposal_of(1)});
  modes.enter(mode::Broken{});
  EXPECT_NE(modes.failure(), nullptr);
  modes.set_proposal(proposal_of(2));
  modes.enter(mode::Waiting{modes.take_proposal()});
  EXPECT_EQ(modes.failure(), nullptr);
  EXPECT_EQ(modes.proposal()->generation, 2);
}

TEST(CoordinatorModes, a_stop_remembers_the_failure_or_the_end_before_it) {
  Modes modes;
  Failure failure;
  failure.generation = 3;
  modes.enter(mode::Stopping{{.failure = failure, .finished = true}});
  modes.enter(mode::Stopped{*modes.stop()});
  ASSERT_NE(modes.failure(), nullptr);
  EXPECT_EQ(modes.failure()->generation, 3);
  EXPECT_TRUE(modes.finished());
  modes.enter(mode::Waiting{});
  EXPECT_FALSE(modes.finished());
}

TEST(CoordinatorModes, every_mode_can_be_reached_and_left) {
  for (std::size_t to = 1; to < kModes; ++to) {
    bool reached = false;
    for (std::size_t from = 0; from < kModes; ++from) {
      reached = reached || (from != to && may_follow(static_cast<Mode>(from), static_cast<Mode>(to)));
    }
    EXPECT_TRUE(reached) << name_of(static_cast<Mode>(to));
    EXPECT_NE(kMayFollow[to], 0) << name_of(static_cast<Mode>(to));
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
