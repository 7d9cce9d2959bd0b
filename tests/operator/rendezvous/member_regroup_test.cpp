// The agent's side when its processes stay: they are asked what they hold instead of being ended.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MemberRegroupTest : public MemberStateTest {
 protected:
  static WorkerMessage holding(std::int64_t generation, std::int64_t step) {
    WorkerMessage message;
    message.holding = Holding{1, generation, {generation - 1, step, "abc"}};
    return message;
  }
  void say(const WorkerMessage& message) {
    member.on_worker_message(1, message, now);
    collect();
  }
  // Generation 1 runs, of a process that can stay.
  void run() {
    join();
    run_generation(1);
    say({.up = true, .regroups = true});
    forget();
  }
  // READY of generation 2 was said for a process that then died.
  void die_after_ready() {
    run();
    tell(proposal(2));
    say(holding(2, 7));
    end_process(137, 9);
  }
  // And once more, for a new process, which will listen elsewhere.
  void ready_again() {
    member.on_no_process_left(now);
    member.on_prepared({1, 2}, Prepared{{"10.0.0.1:6"}, "10.0.0.1", 0, api::Cause::kNone, ""}, now);
  }
  Go go_to(const std::string& address) {
    Go message = go(2);
    message.peers = Peers({{0, 1, {"10.0.0.0:5"}}, {1, 1, {address}}});
    return message;
  }
};

TEST_F(MemberRegroupTest, a_process_that_regroups_is_asked_and_ready_tells_what_it_holds) {
  run();
  tell(proposal(2));
  EXPECT_EQ(taken<AskHoldings>().at(0).id, (GenerationId{1, 2}));
  EXPECT_TRUE(taken<EndProcesses>().empty());
  EXPECT_TRUE(sent<Ready>().empty());
  say(holding(2, 7));
  const Ready ready = sent<Ready>().at(0);
  EXPECT_EQ(ready.addresses, std::vector<std::string>{"10.0.0.1:5"});
  EXPECT_EQ(ready.host, "10.0.0.1");
  ASSERT_EQ(ready.holdings.size(), 1U);
  EXPECT_EQ(ready.holdings[0], (StateVersion{1, 7, "abc"}));
  EXPECT_EQ(member.phase(), MemberPhase::kReady);
}

// A pod of three processes, of which one has died in generation 1.
class MemberOfThreeTest : public MemberRegroupTest {
 protected:
  static constexpr int kFirst = 3;
  Propose proposal_of_three(std::int64_t generation) {
    Propose propose = proposal(generation);
    propose.first_rank = kFirst;
    propose.ranks = 3;
    propose.world_size = 6;
    return propose;
  }
  Go go_of_three(std::int64_t generation, const std::vector<std::string>& addresses) {
    Go message = go(generation);
    message.first_rank = kFirst;
    message.ranks = 3;
    message.world_size = 6;
    message.peers = Peers({{0, 1, {"a", "b", "c"}}, {1, 1, addresses}});
    return message;
  }
  void hear(int rank, const WorkerMessage& message) {
    member.on_worker_message(rank, message, now);
    collect();
  }
  void bind(std::int64_t generation, const std::vector<std::string>& addresses) {
    member.on_prepared({1, generation}, Prepared{addresses, "10.0.0.1", 0, api::Cause::kNone, ""}, now);
    collect();
  }
  void end(int rank, bool left_behind = false) {
    ProcessEnd how{.rank = rank,
                   .code = 137,
                   .signal = 9,
                   .end_ms = 17,
                   .stderr_tail = "",
                   .problem = api::Cause::kNone,
                   .message = ""};
    how.left_behind = left_behind;
    member.on_exit(how, now);
    collect();
  }
  void lose_the_second(bool left_behind = false) {
    join();
    tell(proposal_of_three(1));
    bind(1, {"h:1", "h:2", "h:3"});
    tell(go_of_three(1, {"h:1", "h:2", "h:3"}));
    for (int rank : {3, 4, 5}) hear(rank, {.up = true, .regroups = true});
    end(4, left_behind);
    forget();
  }
};

TEST_F(MemberOfThreeTest, up_says_what_the_slowest_rank_took) {
  join();
  tell(proposal_of_three(1));
  bind(1, {"h:1", "h:2", "h:3"});
  tell(go_of_three(1, {"h:1", "h:2", "h:3"}));
  hear(3, {.up = true, .regroups = true, .entry = {.init_ms = 9, .transfer_ms = 0}});
  hear(4, {.up = true, .regroups = true, .entry = {.init_ms = 2, .transfer_ms = 7}});
  hear(5, {.up = true, .regroups = true});
  EXPECT_EQ(sent<Up>().at(0).entry, (EntryTimes{.init_ms = 9, .transfer_ms = 7}));
}

TEST_F(MemberOfThreeTest, survivors_are_asked_and_ready_names_new_sockets_for_the_dead_one) {
  lose_the_second();
  tell(proposal_of_three(2));
  EXPECT_EQ(taken<AskHoldings>().size(), 1U);
  EXPECT_TRUE(taken<EndProcesses>().empty());
  EXPECT_EQ(taken<PrepareSockets>().at(0).propose.ranks, 1);
  hear(3, holding(2, 7));
  hear(5, holding(2, 8));
  EXPECT_TRUE(sent<Ready>().empty()) << "the dead one's place has no socket yet";
  bind(2, {"h:9"});
  const Ready ready = sent<Ready>().at(0);
  EXPECT_EQ(ready.addresses, (std::vector<std::string>{"h:1", "h:9", "h:3"}));
  EXPECT_EQ(ready.holdings, (std::vector<StateVersion>{{1, 7, "abc"}, {}, {1, 8, "abc"}}));
}

TEST_F(MemberOfThreeTest, go_lets_those_that_live_go_on_and_starts_the_other_and_up_needs_all) {
  lose_the_second();
  tell(proposal_of_three(2));
  bind(2, {"h:9"});
  hear(3, holding(2, 7));
  hear(5, holding(2, 7));
  tell(go_of_three(2, {"h:1", "h:9", "h:3"}));
  EXPECT_EQ(taken<ContinueProcesses>().size(), 1U);
  EXPECT_EQ(taken<StartProcesses>().at(0).only, std::vector<int>{1});
  EXPECT_EQ(member.phase(), MemberPhase::kRunning);
  forget();
  hear(3, {.up = true, .regroups = true});
  hear(5, {.up = true, .regroups = true});
  EXPECT_TRUE(sent<Up>().empty());
  hear(4, {.up = true, .regroups = true});
  EXPECT_EQ(sent<Up>().at(0).generation, 2);
}

TEST_F(MemberOfThreeTest, one_that_left_something_behind_takes_all_with_it) {
  lose_the_second(true);
  tell(proposal_of_three(2));
  EXPECT_TRUE(taken<AskHoldings>().empty());
  EXPECT_TRUE(taken<PrepareSockets>().empty());
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
}

TEST_F(MemberOfThreeTest, no_socket_for_the_dead_one_is_a_ready_with_the_problem) {
  lose_the_second();
  tell(proposal_of_three(2));
  hear(3, holding(2, 7));
  hear(5, holding(2, 7));
  member.on_prepared({1, 2}, Prepared{{}, "10.0.0.1", 0, api::Cause::kPortInUse, "no port"}, now);
  collect();
  EXPECT_EQ(sent<Ready>().at(0).problem, api::Cause::kPortInUse);
}

TEST_F(MemberOfThreeTest, when_another_dies_before_go_every_process_restarts) {
  lose_the_second();
  tell(proposal_of_three(2));
  hear(3, holding(2, 7));
  end(5);
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  bind(2, {"h:9"});
  EXPECT_TRUE(sent<Ready>().empty());
  end(3);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<PrepareSockets>().back().propose.ranks, 3);
  bind(2, {"h:9"});
  EXPECT_TRUE(sent<Ready>().empty()) << "it came late, and was for one";
  bind(2, {"h:4", "h:5", "h:6"});
  EXPECT_EQ(sent<Ready>().at(0).addresses.size(), 3U);
  tell(go_of_three(2, {"h:4", "h:5", "h:6"}));
  EXPECT_TRUE(taken<StartProcesses>().at(0).only.empty());
}

TEST_F(MemberRegroupTest, go_lets_it_go_on_and_up_is_said_again) {
  run();
  tell(proposal(2));
  say(holding(2, 7));
  tell(go(2));
  EXPECT_EQ(taken<ContinueProcesses>().at(0).go.id.generation, 2);
  EXPECT_TRUE(taken<StartProcesses>().empty());
  EXPECT_TRUE(sent<Up>().empty());
  say({.progress = Progress{.step = 8,
                            .total_steps = 10,
                            .epoch = 0,
                            .loss = 1,
                            .samples_per_second = 1,
                            .eta_seconds = 1}});  // what it had still to say about the generation before
  EXPECT_TRUE(sent<Up>().empty());
  say({.up = true, .regroups = true});
  EXPECT_EQ(sent<Up>().at(0).generation, 2);
}

TEST_F(MemberRegroupTest, a_process_that_regroups_yields_after_a_step_and_says_so) {
  run();
  tell(Yield{{1, 1}});
  EXPECT_EQ(taken<AskYield>().at(0).generation, 1);
  EXPECT_TRUE(sent<Broken>().empty());
  WorkerMessage yielded;
  yielded.broken = BrokenReport{1, -1, "others join", true};
  say(yielded);
  EXPECT_TRUE(sent<Broken>().at(0).report.yielded);
}

TEST_F(MemberRegroupTest, a_process_that_cannot_be_asked_is_offered_for_interruption) {
  join();
  run_generation(1);
  forget();
  tell(Yield{{1, 1}});
  EXPECT_TRUE(taken<AskYield>().empty());
  EXPECT_TRUE(sent<Broken>().at(0).report.yielded);
}

TEST_F(MemberRegroupTest, a_wish_to_end_another_generation_or_of_an_older_term_is_ignored) {
  join(2);
  tell(proposal(1, 2));
  prepared(1, 2);
  tell(go(1, 2));
  say({.up = true, .regroups = true});
  forget();
  tell(Yield{{2, 2}});
  tell(Yield{{1, 1}});
  EXPECT_TRUE(taken<AskYield>().empty());
  EXPECT_EQ(member.ignored(), 2);
}

TEST_F(MemberRegroupTest, a_member_without_a_generation_warms_processes_and_keeps_them) {
  join();
  Warm warm;
  warm.go = go(0);
  tell(warm);
  EXPECT_EQ(taken<PrepareSockets>().at(0).propose.id, (GenerationId{1, 0}));
  prepared(0);
  EXPECT_EQ(taken<StartProcesses>().at(0).go.id.generation, 0);
  EXPECT_EQ(member.phase(), MemberPhase::kRunning);
  forget();
  say({.up = true, .regroups = true});
  EXPECT_EQ(member.phase(), MemberPhase::kWarm);
  EXPECT_EQ(sent<Heartbeat>().at(0).phase, MemberPhase::kWarm) << "at once";
  EXPECT_TRUE(sent<Up>().empty());
  tell(proposal(2));
  EXPECT_EQ(taken<AskHoldings>().size(), 1U);
  WorkerMessage nothing;
  nothing.holding = Holding{1, 2, {}};
  say(nothing);
  EXPECT_EQ(sent<Ready>().at(0).addresses, std::vector<std::string>{"10.0.0.1:5"});
  tell(go(2));
  EXPECT_EQ(taken<ContinueProcesses>().size(), 1U);
  EXPECT_EQ(member.phase(), MemberPhase::kRunning);
}

TEST_F(MemberRegroupTest, a_process_that_ends_while_it_waits_takes_its_pod_along) {
  join();
  Warm warm;
  warm.go = go(0);
  tell(warm);
  prepared(0);
  forget();
  end_process(65);
  tell(Ack{0, 1});
  member.on_no_process_left(now);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 65);
}

TEST_F(MemberRegroupTest, an_agent_that_runs_a_generation_is_not_warmed) {
  run();
  Warm warm;
  warm.go = go(0);
  tell(warm);
  EXPECT_TRUE(taken<PrepareSockets>().empty());
  EXPECT_EQ(member.ignored(), 1);
}

TEST_F(MemberRegroupTest, a_process_that_waits_after_a_regroup_that_came_to_nothing_is_warm) {
  run();
  tell(proposal(2));
  say(holding(2, 7));
  Warm warm;
  warm.go = go(0);
  tell(warm);
  EXPECT_EQ(member.phase(), MemberPhase::kWarm);
  EXPECT_TRUE(taken<StartProcesses>().empty());
}

TEST_F(MemberRegroupTest, the_number_of_a_generation_that_ran_is_not_used_again_after_warming) {
  join();
  run_generation(5);
  end_process(137, 9);
  member.on_no_process_left(now);
  Warm warm;
  warm.go = go(0);
  tell(warm);
  prepared(0);
  forget();
  Propose again = proposal(5, 2);
  tell(Welcome{2});
  tell(again);
  EXPECT_TRUE(taken<AskHoldings>().empty());
  EXPECT_GE(member.ignored(), 1);
}

TEST_F(MemberRegroupTest, a_process_that_cannot_stay_is_ended) {
  join();
  run_generation(1);
  forget();
  tell(proposal(2));
  EXPECT_TRUE(taken<AskHoldings>().empty());
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
}

TEST_F(MemberRegroupTest, a_process_that_does_not_answer_is_ended_and_replaced) {
  run();
  tell(proposal(2));
  now += kHoldWithin - milliseconds(1);
  member.on_tick(now);
  EXPECT_TRUE(taken<EndProcesses>().empty());
  now += milliseconds(1);
  EXPECT_LE(member.deadline(), now);
  member.on_tick(now);
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  end_process(143, 15);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<PrepareSockets>().size(), 1U);
  prepared(2);
  EXPECT_TRUE(sent<Ready>().at(0).holdings.empty());
  tell(go(2));
  EXPECT_EQ(taken<StartProcesses>().size(), 1U);
}

TEST_F(MemberRegroupTest, a_holding_for_another_proposal_is_not_an_answer) {
  run();
  tell(proposal(2));
  tell(proposal(3));
  EXPECT_EQ(taken<AskHoldings>().size(), 2U);
  say(holding(2, 7));
  EXPECT_TRUE(sent<Ready>().empty());
  say(holding(3, 7));
  EXPECT_EQ(sent<Ready>().at(0).id.generation, 3);
}

TEST_F(MemberRegroupTest, a_process_that_dies_after_ready_takes_ready_back) {
  die_after_ready();
  ready_again();
  const auto ready = sent<Ready>();
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_TRUE(ready[1].holdings.empty());
  tell(go_to("10.0.0.1:6"));
  EXPECT_EQ(taken<StartProcesses>().size(), 1U);
}

TEST_F(MemberRegroupTest, a_go_for_a_process_that_has_died_meanwhile_is_answered_with_its_end) {
  die_after_ready();
  forget();
  tell(go_to("10.0.0.1:5"));
  const auto exits = sent<Exit>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].generation, 2);
  EXPECT_EQ(exits[0].signal, 9);
  EXPECT_TRUE(taken<StartProcesses>().empty());
  EXPECT_TRUE(taken<ContinueProcesses>().empty());
}

TEST_F(MemberRegroupTest, so_is_a_go_that_comes_after_the_new_ready) {
  die_after_ready();
  ready_again();
  forget();
  tell(go_to("10.0.0.1:5"));
  EXPECT_EQ(sent<Exit>().at(0).generation, 2);
  EXPECT_TRUE(taken<StartProcesses>().empty());
  tell(proposal(3));
  EXPECT_EQ(taken<PrepareSockets>().size(), 1U);
}

TEST_F(MemberRegroupTest, broken_is_sent_after_each_welcome_until_the_next_generation) {
  run();
  WorkerMessage broken;
  broken.broken = BrokenReport{1, 0, "rank 0 went away"};
  say(broken);
  EXPECT_EQ(sent<Broken>().at(0).report.suspect_rank, 0);
  member.on_disconnected(now);
  forget();
  join(2);
  EXPECT_EQ(sent<Broken>().at(0).rank, 1);
  tell(proposal(2, 2));
  WorkerMessage answer = holding(2, 7);
  answer.holding->term = 2;
  say(answer);
  tell(go(2, 2));
  forget();
  member.on_disconnected(now);
  join(2);
  EXPECT_TRUE(sent<Broken>().empty());
}

TEST_F(MemberRegroupTest, a_cancelled_proposal_leaves_processes_waiting_for_the_next) {
  run();
  tell(proposal(2));
  say(holding(2, 7));
  now += seconds(1);
  tell(proposal(3));
  say(holding(3, 7));
  tell(go(2));  // late
  EXPECT_TRUE(taken<ContinueProcesses>().empty());
  tell(go(3));
  EXPECT_EQ(taken<ContinueProcesses>().size(), 1U);
}

TEST_F(MemberRegroupTest, the_coordinator_may_stop_processes_that_wait) {
  run();
  tell(proposal(2));
  say(holding(2, 7));
  tell(Stop{5, 0});
  EXPECT_TRUE(taken<EndProcesses>().at(0).ask);
  end_process(83);
  member.on_no_process_left(now);
  tell(Ack{1, 1});
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 0);
}

// Ranks follow the slots that are there, so a kept process may have another rank than it was started with.
TEST_F(MemberRegroupTest, a_process_that_stays_may_have_another_rank_in_the_next_generation) {
  run();
  Propose propose = proposal(2);
  propose.first_rank = 0;
  propose.world_size = 1;
  tell(propose);
  EXPECT_EQ(taken<AskHoldings>().size(), 1U);
  say(holding(2, 7));
  Go message = go(2);
  message.first_rank = 0;
  message.world_size = 1;
  message.peers = Peers({{0, 1, {"10.0.0.1:5"}}});
  tell(message);
  EXPECT_EQ(taken<ContinueProcesses>().at(0).go.first_rank, 0);
  forget();
  member.on_worker_message(0, {.up = true, .regroups = true}, now);
  EXPECT_EQ(sent<Up>().at(0).generation, 2);
  member.on_exit(ProcessEnd{.rank = 0,
                            .code = 137,
                            .signal = 9,
                            .end_ms = 17,
                            .stderr_tail = "tail",
                            .problem = api::Cause::kNone,
                            .message = ""},
                 now);
  EXPECT_EQ(sent<Exit>().at(0).rank, 0);
  EXPECT_EQ(sent<Exit>().at(0).generation, 2);
}

TEST_F(MemberRegroupTest, a_process_that_died_before_its_go_is_reported_under_its_new_rank) {
  run();
  Propose propose = proposal(2);
  propose.first_rank = 0;
  tell(propose);
  say(holding(2, 7));
  end_process(137, 9);
  forget();
  Go message = go(2);
  message.first_rank = 0;
  message.peers = Peers({{0, 1, {"10.0.0.1:5"}}, {1, 1, {"10.0.0.2:5"}}});
  tell(message);
  EXPECT_EQ(taken<RenumberProcesses>().at(0).first_rank, 0);
  const Exit exit = sent<Exit>().at(0);
  EXPECT_EQ(exit.rank, 0);
  EXPECT_EQ(exit.generation, 2);
}

}  // namespace
}  // namespace lockstep::rendezvous
