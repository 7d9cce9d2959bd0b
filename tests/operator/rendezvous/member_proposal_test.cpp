// What a pod has promised, and the one proposal that is under way.
#include "operator/rendezvous/member_proposal.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

using Verdict = MemberProposal::Verdict;

Propose propose(std::int64_t generation, std::int64_t term = 1) {
  Propose message;
  message.id = {term, generation};
  return message;
}

Ready ready(std::int64_t generation) {
  Ready message;
  message.id = {1, generation};
  return message;
}

const MonotonicTime kLater{std::chrono::hours(2)};

TEST(MemberProposal, what_is_promised_never_falls) {
  MemberProposal proposal;
  EXPECT_EQ(proposal.judge({1, 3}), Verdict::kNew);
  proposal.accept(propose(3));
  EXPECT_EQ(proposal.judge({1, 3}), Verdict::kKnown);
  EXPECT_EQ(proposal.judge({1, 2}), Verdict::kStale);
  EXPECT_EQ(proposal.judge({2, 2}), Verdict::kNew) << "of a later term";
  EXPECT_TRUE(proposal.drop());
  EXPECT_FALSE(proposal.drop());
  EXPECT_EQ(proposal.promised(), (GenerationId{1, 3}));
  EXPECT_EQ(proposal.judge({1, 3}), Verdict::kStale) << "called off";
}

TEST(MemberProposal, a_number_that_had_its_go_is_stale_in_every_term) {
  MemberProposal proposal;
  proposal.use(4);
  proposal.use(2);
  EXPECT_EQ(proposal.judge({9, 4}), Verdict::kStale);
  EXPECT_EQ(proposal.judge({9, 5}), Verdict::kNew);
}

TEST(MemberProposal, the_next_one_knows_nothing_of_the_one_before) {
  MemberProposal proposal;
  proposal.accept(propose(1));
  proposal.keep(kLater);
  ASSERT_TRUE(proposal.hold(0, {1, 1, {}}));
  proposal.prepare({});
  proposal.say(ready(1), true);
  proposal.accept(propose(2));
  EXPECT_TRUE(proposal.awaits_ready());
  EXPECT_FALSE(proposal.keeping());
  EXPECT_FALSE(proposal.outlived());
  EXPECT_EQ(proposal.holding_of(0), nullptr);
  EXPECT_EQ(proposal.prepared(), nullptr);
}

TEST(MemberProposal, only_answers_to_its_own_question_count) {
  MemberProposal proposal;
  EXPECT_FALSE(proposal.hold(0, {1, 1, {}})) << "nothing is under way";
  proposal.accept(propose(1));
  EXPECT_FALSE(proposal.hold(0, {1, 1, {}})) << "the processes are to end";
  proposal.keep(kLater);
  EXPECT_FALSE(proposal.hold(0, {1, 2, {}}));
  EXPECT_TRUE(proposal.hold(0, {1, 1, {0, 5, "d"}}));
  EXPECT_EQ(proposal.holding_of(0)->step, 5);
  proposal.say(ready(1), true);
  EXPECT_FALSE(proposal.hold(0, {1, 1, {0, 6, "d"}})) << "READY has been said";
  EXPECT_EQ(proposal.holding_of(0)->step, 5);
}

TEST(MemberProposal, processes_are_waited_for_until_ready) {
  MemberProposal proposal;
  EXPECT_EQ(proposal.hold_until(), MonotonicTime::max());
  proposal.accept(propose(1));
  proposal.keep(kLater);
  EXPECT_EQ(proposal.hold_until(), kLater);
  proposal.say(ready(1), true);
  EXPECT_EQ(proposal.hold_until(), MonotonicTime::max());
}

TEST(MemberProposal, a_process_that_ends_takes_back_ready_but_not_that_it_was_said) {
  MemberProposal proposal;
  proposal.accept(propose(1));
  proposal.keep(kLater);
  proposal.say(ready(1), true);
  EXPECT_FALSE(proposal.outlived());
  proposal.stop_keeping();
  EXPECT_TRUE(proposal.awaits_ready());
  EXPECT_TRUE(proposal.outlived());
  proposal.say(ready(1), false);
  EXPECT_TRUE(proposal.outlived()) << "the GO may be for the READY before";
}

}  // namespace
}  // namespace lockstep::rendezvous
