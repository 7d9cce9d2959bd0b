// Processes that start before there is a generation: what they say they are, and what becomes of those that end.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {
namespace {

class MemberWarmTest : public MemberStateTest {
 protected:
  void warm(int ranks = 1) {
    join();
    Warm warm;
    warm.go = go(0);
    warm.go.ranks = ranks;
    warm.first = true;
    tell(warm);
    Prepared sockets{{}, "10.0.0.1", 7, api::Cause::kNone, ""};
    for (int i = 0; i < ranks; ++i) sockets.addresses.push_back("10.0.0.1:" + std::to_string(5 + i));
    member.on_prepared({1, 0}, sockets, now);
    forget();
  }
  void say(const WorkerMessage& message, int rank = 1) {
    member.on_worker_message(rank, message, now);
    collect();
  }
  void ends(int rank, int code, int signal = 0) {
    member.on_exit(ProcessEnd{.rank = rank,
                              .code = code,
                              .signal = signal,
                              .end_ms = 17,
                              .stderr_tail = "tail",
                              .problem = api::Cause::kNone,
                              .message = ""},
                   now);
    collect();
  }
  Propose proposal_of(int ranks, std::int64_t generation = 1) {
    Propose propose = proposal(generation);
    propose.ranks = ranks;
    return propose;
  }
  Go go_to(const Ready& ready, std::int64_t generation = 1) {
    Go message = go(generation);
    message.ranks = static_cast<int>(ready.addresses.size());
    message.peers = Peers({{0, 1, {"10.0.0.0:1"}}, {1, 1, ready.addresses}});
    return message;
  }
};

TEST_F(MemberWarmTest, what_a_process_is_goes_out_at_once_and_with_ready) {
  warm();
  say({.identity = "a=1"});
  ASSERT_EQ(sent<Heartbeat>().size(), 1U);
  EXPECT_EQ(sent<Heartbeat>().at(0).identities, (std::vector<IdentityRun>{{1, "a=1"}}));
  say({.up = true, .regroups = true});
  EXPECT_TRUE(sent<Heartbeat>().back().identities.empty()) << "it has been said";
  tell(proposal(1));
  say({.holding = Holding{1, 1, {}}});
  EXPECT_EQ(sent<Ready>().at(0).identities, (std::vector<IdentityRun>{{1, "a=1"}}));
}

TEST_F(MemberWarmTest, an_identity_is_sent_again_when_it_changes_and_on_reconnect) {
  warm();
  say({.identity = "a=1"});
  say({.identity = "a=1"});
  EXPECT_EQ(sent<Heartbeat>().size(), 1U) << "no news";
  say({.identity = "a=2"});
  EXPECT_EQ(sent<Heartbeat>().back().identities, (std::vector<IdentityRun>{{1, "a=2"}}));
  member.on_disconnected(now);
  forget();
  join(2);
  EXPECT_EQ(sent<Heartbeat>().at(0).identities, (std::vector<IdentityRun>{{1, "a=2"}}));
}

TEST_F(MemberWarmTest, equal_lines_of_processes_are_one_run) {
  warm(3);
  say({.identity = "a=1"}, 1);
  say({.identity = "a=1"}, 2);
  EXPECT_EQ(sent<Heartbeat>().back().identities, (std::vector<IdentityRun>{{2, "a=1"}, {1, ""}}));
}

TEST_F(MemberWarmTest, a_warm_process_stays_for_the_first_generation) {
  warm();
  say({.up = true, .regroups = true});
  tell(proposal(1));
  EXPECT_EQ(taken<AskHoldings>().size(), 1U);
  say({.holding = Holding{1, 1, {}}});
  tell(go_to(sent<Ready>().at(0)));
  EXPECT_EQ(taken<ContinueProcesses>().size(), 1U);
  EXPECT_TRUE(taken<StartProcesses>().empty());
}

TEST_F(MemberWarmTest, a_process_that_is_not_warm_when_the_generation_comes_restarts_in_it) {
  warm();
  tell(proposal(1));
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  ends(1, 143, 15);
  member.on_no_process_left(now);
  prepared(1);
  EXPECT_TRUE(sent<Ready>().at(0).holdings.empty());
  tell(go(1));
  EXPECT_EQ(taken<StartProcesses>().at(0).go.id.generation, 1);
}

TEST_F(MemberWarmTest, one_that_fails_before_the_first_generation_is_told_of_in_it) {
  warm();
  ends(1, 65);
  EXPECT_TRUE(taken<ExitAgent>().empty());
  EXPECT_EQ(member.phase(), MemberPhase::kExited);
  EXPECT_EQ(sent<Heartbeat>().at(0).phase, MemberPhase::kExited) << "at once";
  member.on_no_process_left(now);
  tell(proposal(1));
  ASSERT_EQ(sent<Ready>().size(), 1U);
  EXPECT_EQ(sent<Ready>().at(0).addresses, std::vector<std::string>{"10.0.0.1:5"});
  EXPECT_TRUE(taken<PrepareSockets>().empty());
  tell(go_to(sent<Ready>().at(0)));
  EXPECT_TRUE(taken<StartProcesses>().empty());
  const Exit exit = sent<Exit>().back();
  EXPECT_EQ(exit.generation, 1);
  EXPECT_EQ(exit.code, 65);
  EXPECT_EQ(exit.stderr_tail, "tail");
  EXPECT_EQ(exit.reason, Exit::Reason::kOwn);
}

TEST_F(MemberWarmTest, the_next_generation_restarts_it) {
  warm();
  ends(1, 65);
  member.on_no_process_left(now);
  tell(proposal(1));
  tell(go_to(sent<Ready>().at(0)));
  forget();
  tell(proposal(2));
  prepared(2);
  tell(go(2));
  EXPECT_EQ(taken<StartProcesses>().at(0).go.id.generation, 2);
}

TEST_F(MemberWarmTest, one_that_fails_takes_the_others_of_its_pod_along) {
  warm(2);
  ends(1, 1);
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  ends(2, 143, 15);
  member.on_no_process_left(now);
  tell(proposal_of(2));
  tell(go_to(sent<Ready>().at(0)));
  const auto exits = sent<Exit>();
  ASSERT_EQ(exits.size(), 4U) << "each when it ends, and in the generation";
  EXPECT_EQ(exits[2].reason, Exit::Reason::kOwn);
  EXPECT_EQ(exits[3].reason, Exit::Reason::kOrdered);
  EXPECT_EQ(exits[3].generation, 1);
}

// A program of another kind that has done its work.
TEST_F(MemberWarmTest, processes_that_succeed_while_warm_succeed_in_the_first_generation) {
  warm(2);
  ends(1, 0);
  EXPECT_TRUE(taken<EndProcesses>().empty());
  EXPECT_EQ(member.phase(), MemberPhase::kRunning);
  ends(2, 0);
  EXPECT_EQ(member.phase(), MemberPhase::kExited);
  member.on_no_process_left(now);
  tell(proposal_of(2));
  forget();
  tell(go_to(Ready{{1, 1}, {"10.0.0.1:5", "10.0.0.1:6"}}));
  ASSERT_EQ(sent<Exit>().size(), 2U);
  EXPECT_EQ(sent<Exit>().at(1).generation, 1);
  EXPECT_EQ(sent<Exit>().at(1).code, 0);
}

TEST_F(MemberWarmTest, one_that_dies_between_ready_and_go_is_told_of_in_the_generation) {
  warm();
  say({.up = true, .regroups = true});
  tell(proposal(1));
  say({.holding = Holding{1, 1, {}}});
  const Go go = go_to(sent<Ready>().at(0));
  ends(1, 137, 9);
  tell(go);
  EXPECT_EQ(sent<Exit>().back().generation, 1);
  EXPECT_EQ(sent<Exit>().back().signal, 9);
}

TEST_F(MemberWarmTest, a_failure_while_the_first_generation_forms_takes_its_pod_along) {
  warm();
  ends(1, 65);
  member.on_no_process_left(now);
  Warm newcomer;
  newcomer.go = go(0);
  tell(newcomer);
  tell(Ack{0, 1});
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 65);
}

TEST_F(MemberWarmTest, the_port_that_was_asked_for_is_looked_at_before_the_first_generation) {
  join();
  Warm warm;
  warm.go = go(0);
  warm.go.master_port = 29'500;
  warm.first = true;
  tell(warm);
  EXPECT_EQ(taken<PrepareSockets>().at(0).propose.port, 29'500);
}

}  // namespace
}  // namespace lockstep::rendezvous
