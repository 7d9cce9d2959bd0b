// A generation without progress, as the coordinator's machine sees it: two slots of one rank each.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Doing = Activity::Doing;

class CoordinatorHangTest : public CoordinatorStateTest {
 protected:
  // What the two ranks say with each heartbeat.
  std::vector<RankActivity> says{{'R', 10, Activity{1, Doing::kForward, 0}},
                                 {'R', 10, Activity{1, Doing::kForward, 0}}};

  CoordinatorHangTest() { plan.deadlines.progress_seconds = 10; }

  void heartbeats() {
    for (int slot = 0; slot < 2; ++slot) {
      Heartbeat heartbeat = runs(1);
      heartbeat.ranks = {says[static_cast<std::size_t>(slot)]};
      say(slot, heartbeat);
    }
  }
  void pass(Duration span) {
    for (const MonotonicTime until = time + span; time < until;) {
      time += milliseconds(250);
      heartbeats();
    }
  }
  // Both compute and commit, a step every so often.
  void train(int steps, Duration each) {
    for (int i = 0; i < steps; ++i) {
      pass(each);
      for (RankActivity& rank : says) ++rank.said->step;
      heartbeats();
    }
  }
  // Rank 1 stands still at its next step, and rank 0 waits for it in a collective.
  void hang(char state = 'S') {
    says[0].said = Activity{.generation = 1,
                            .doing = Doing::kWaiting,
                            .step = says[0].said->step,
                            .beats = 50,
                            .sequence = 8,
                            .stage = Activity::Stage::kExchange,
                            .sent = 9,
                            .received = 9,
                            .waits_for_bytes_of = 1,
                            .waits_for_room_at = -1};
    says[1].said =
        Activity{.generation = 1, .doing = Doing::kLoading, .step = says[1].said->step, .beats = 49, .sequence = 7};
    says[1].state = state;
    heartbeats();
  }
  void begin() {
    start();
    train(4, milliseconds(250));
  }
};

TEST_F(CoordinatorHangTest, the_rank_that_blocks_the_others_is_ended_and_named_at_the_deadline) {
  begin();
  hang();
  pass(milliseconds(9750));
  EXPECT_TRUE(sent<Abort>().empty());
  pass(milliseconds(250));
  ASSERT_EQ(sent<Abort>().size(), 1U);
  const Abort abort = sent<Abort>().at(0);
  EXPECT_EQ(abort.generation, 1);
  EXPECT_EQ(abort.rank, 1);
  EXPECT_EQ(abort.message,
            "rank 1 (slot 1, node n1) has not moved for 10.0 s: it sleeps (state S) loading data for step 5, with no "
            "collective under way since number 7; rank 0 waits for it");
  pass(seconds(1));
  EXPECT_EQ(sent<Abort>().size(), 1U) << "once";
  EXPECT_EQ(phase(), Phase::kUp) << "its end is awaited";
  Exit ended = exit(1, 1, 134, 6);
  ended.problem = api::Cause::kHang;
  ended.message = abort.message;
  ended.stderr_tail = "  #0 the stack";
  say(1, ended);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kHang);
  EXPECT_EQ(job->view()->failure->rank, 1);
  EXPECT_EQ(job->view()->failure->exit_code, 134);
  EXPECT_EQ(job->view()->failure->message, abort.message + "\n  #0 the stack");
}

TEST_F(CoordinatorHangTest, a_rank_is_not_judged_by_its_activity_before_its_agent_returned) {
  plan.deadlines.progress_seconds = 2;
  begin();
  says[0].said = Activity{.generation = 1,
                          .doing = Doing::kWaiting,
                          .step = says[0].said->step,
                          .beats = 50,
                          .sequence = 8,
                          .stage = Activity::Stage::kExchange,
                          .sent = 9,
                          .received = 9,
                          .waits_for_bytes_of = 1,
                          .waits_for_room_at = -1};
  heartbeats();
  const RankActivity waits = says[0];
  for (int i = 0; i < 9; ++i) {  // slot 1 is cut off, and slot 0 waits for it
    time += milliseconds(250);
    Heartbeat heartbeat = runs(1);
    heartbeat.ranks = {waits};
    say(0, heartbeat);
  }
  come_back(1, MemberPhase::kRunning);
  job->on_tick(now());
  EXPECT_TRUE(sent<Abort>().empty());
  ++says[1].said->step;
  heartbeats();
  EXPECT_TRUE(sent<Abort>().empty());
  pass(seconds(15));  // five times as long as that step took
  EXPECT_FALSE(sent<Abort>().empty());
}

TEST_F(CoordinatorHangTest, a_peers_broken_connection_is_not_named_instead) {
  begin();
  hang('T');
  pass(seconds(10));
  say(0, Broken{0, {1, 1, "rank 1 went away"}});
  EXPECT_EQ(phase(), Phase::kUp);
  Exit ended = exit(1, 1, 134, 6);
  ended.problem = api::Cause::kHang;
  say(1, ended);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kHang);
}

TEST_F(CoordinatorHangTest, an_agent_that_cannot_end_it_does_not_keep_the_job_waiting) {
  begin();
  hang('D');
  pass(seconds(10));
  ASSERT_EQ(sent<Abort>().size(), 1U);
  pass(seconds(5));
  EXPECT_EQ(phase(), Phase::kUp);
  pass(milliseconds(250));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kHang);
  EXPECT_EQ(job->view()->failure->slot, 1);
  EXPECT_NE(job->view()->failure->message.find("state D"), std::string::npos);
  EXPECT_NE(job->view()->failure->message.find("its agent has not ended it within 5 s"), std::string::npos);
}

TEST_F(CoordinatorHangTest, a_rank_that_made_progress_or_was_done_after_all_breaks_nothing) {
  for (const bool done : {false, true}) {
    job = make(1);
    stored = {};
    says = {{'R', 10, Activity{1, Doing::kForward, 0}}, {'R', 10, Activity{1, Doing::kForward, 0}}};
    begin();
    hang();
    pass(seconds(10));
    ASSERT_EQ(sent<Abort>().size(), 1U);
    if (done) {
      say(1, exit(1, 1, 0));
      ++says[0].said->beats;
    } else {
      ++says[1].said->beats;
    }
    pass(milliseconds(9750));
    EXPECT_EQ(phase(), Phase::kUp);
    EXPECT_EQ(sent<Abort>().size(), 1U);
  }
}

TEST_F(CoordinatorHangTest, no_eviction_of_a_member_whose_generation_advances) {
  begin();
  says[1] = {'T', 0, says[1].said};  // stopped, and says nothing new
  for (int i = 0; i < 240; ++i) {
    says[1].age_ms += 250;
    ++says[0].said->beats;  // a long evaluation of rank 0 alone
    time += milliseconds(250);
    heartbeats();
  }
  EXPECT_TRUE(sent<Abort>().empty());
  EXPECT_EQ(phase(), Phase::kUp);
  // Nor one whose agent is silent, as long as steps are committed.
  for (int i = 0; i < 40; ++i) {
    time += milliseconds(250);
    beat(0, 1, 10 + i);
  }
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorHangTest, steps_that_take_long_have_five_times_as_long) {
  start();
  train(3, seconds(4));
  hang();
  pass(milliseconds(19'750));
  EXPECT_TRUE(sent<Abort>().empty());
  pass(milliseconds(250));
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, until_the_first_step_the_start_deadline_counts) {
  plan.deadlines.start_timeout_seconds = 30;
  start();
  hang();
  pass(milliseconds(29'750));
  EXPECT_TRUE(sent<Abort>().empty());
  pass(milliseconds(250));
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, a_coordinator_that_was_late_restarts_its_timers) {
  begin();
  hang();
  pass(seconds(9));
  time += seconds(30);  // it did not run
  heartbeats();
  pass(milliseconds(9750));
  EXPECT_TRUE(sent<Abort>().empty());
  pass(milliseconds(250));
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, zero_turns_the_watch_off) {
  plan.deadlines.progress_seconds = 0;
  begin();
  hang('T');
  pass(seconds(120));
  EXPECT_TRUE(sent<Abort>().empty());
}

TEST_F(CoordinatorHangTest, a_rank_that_waits_for_its_storage_has_as_long_as_it_says_and_no_longer) {
  begin();
  hang();
  says[1].said->doing = Doing::kSaving;
  const auto rests = [&](seconds span) {
    for (int i = 0; i < 4 * span.count() && sent<Abort>().empty(); ++i) {
      says[1].said->may_rest_ms -= 250;
      pass(milliseconds(250));
    }
  };
  says[1].said->may_rest_ms = 900'000;  // of a large state
  rests(seconds(899));
  EXPECT_TRUE(sent<Abort>().empty());
  rests(seconds(1));
  says[1].said->may_rest_ms = 0;  // it has not ended by itself
  pass(milliseconds(500));
  ASSERT_EQ(sent<Abort>().size(), 1U);
  EXPECT_EQ(sent<Abort>().at(0).rank, 1);
}

TEST_F(CoordinatorHangTest, a_small_checkpoint_has_less_than_a_process_that_does_not_say) {
  begin();
  hang();
  says[1].said->doing = Doing::kSaving;
  says[1].said->may_rest_ms = 0;
  pass(seconds(10));
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, what_a_process_said_long_ago_runs_out) {
  begin();
  hang();
  says[1].said->may_rest_ms = 20'000;
  for (int i = 0; i < 84; ++i) {
    says[1].age_ms += 250;
    pass(milliseconds(250));
    EXPECT_TRUE(sent<Abort>().empty() || says[1].age_ms > 19'500) << says[1].age_ms;
  }
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, a_checkpoint_in_progress_has_the_writers_own_deadline) {
  begin();
  hang();
  says[1].said->doing = Doing::kSaving;
  pass(seconds(140));
  EXPECT_TRUE(sent<Abort>().empty());
  says[1].state = 'T';
  pass(milliseconds(500));  // the tick after it was told
  EXPECT_EQ(sent<Abort>().size(), 1U);
}

TEST_F(CoordinatorHangTest, a_process_that_waits_for_its_agents_word_does_not_hang) {
  begin();
  hang();
  says[1].said->doing = Doing::kRegrouping;
  pass(seconds(60));
  EXPECT_TRUE(sent<Abort>().empty());
}

TEST_F(CoordinatorHangTest, bytes_that_do_not_arrive_have_the_same_set_form_again) {
  begin();
  const std::int64_t step = says[0].said->step;
  says[0].said = Activity{.generation = 1,
                          .doing = Doing::kWaiting,
                          .step = step,
                          .beats = 50,
                          .sequence = 8,
                          .stage = Activity::Stage::kExchange,
                          .sent = 900,
                          .received = 500,
                          .waits_for_bytes_of = 1,
                          .waits_for_room_at = -1};
  says[1].said = Activity{.generation = 1,
                          .doing = Doing::kWaiting,
                          .step = step,
                          .beats = 50,
                          .sequence = 8,
                          .stage = Activity::Stage::kExchange,
                          .sent = 500,
                          .received = 800,
                          .waits_for_bytes_of = 0,
                          .waits_for_room_at = -1};
  heartbeats();
  pass(seconds(10));
  EXPECT_TRUE(sent<Abort>().empty());
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kConnectionBroken);
  EXPECT_EQ(job->view()->failure->rank, 1);
}

TEST_F(CoordinatorHangTest, a_process_stopped_before_its_first_word_is_found) {
  start();
  says[1] = {'T', 0, Activity{0, Doing::kRegrouping, 0}};
  pass(milliseconds(250));
  for (int i = 0; i < 4; ++i) {
    ++says[0].said->step;
    pass(milliseconds(250));
  }
  says[0].said = Activity{.generation = 1,
                          .doing = Doing::kWaiting,
                          .step = 4,
                          .beats = 50,
                          .sequence = 8,
                          .stage = Activity::Stage::kExchange,
                          .sent = 9,
                          .received = 9,
                          .waits_for_bytes_of = 1,
                          .waits_for_room_at = -1};
  for (int i = 0; i < 44; ++i) {
    says[1].age_ms += 250;
    pass(milliseconds(250));
  }
  ASSERT_EQ(sent<Abort>().size(), 1U);
  EXPECT_EQ(sent<Abort>().at(0).rank, 1);
}

TEST_F(CoordinatorHangTest, programs_that_tell_nothing_are_left_alone_unless_the_job_asks) {
  for (const bool asked : {false, true}) {
    plan.deadlines.watch_reports = asked;
    job = make(1);
    stored = {};
    says = {{'S', 0, std::nullopt}, {'S', 0, std::nullopt}};
    start();
    pass(seconds(1));
    beat(0, 1, 1);
    beat(0, 1, 2);
    beat(0, 1, 3);
    says[1].state = 'T';
    pass(seconds(60));
    EXPECT_EQ(sent<Abort>().size(), asked ? 1U : 0U);
  }
}

TEST_F(CoordinatorHangTest, programs_that_tell_nothing_at_all_are_never_watched) {
  plan.deadlines.watch_reports = true;
  says = {{'S', 0, std::nullopt}, {'S', 0, std::nullopt}};
  start();
  pass(seconds(1200));
  EXPECT_TRUE(sent<Abort>().empty());
}

TEST_F(CoordinatorHangTest, a_rank_that_has_ended_is_not_waited_for) {
  begin();
  say(1, exit(1, 1, 0));
  says[0].said =
      Activity{.generation = 1, .doing = Doing::kOther, .step = says[0].said->step, .beats = 50, .sequence = 8};
  says[0].state = 'D';
  pass(seconds(11));
  ASSERT_EQ(sent<Abort>().size(), 1U);
  EXPECT_EQ(sent<Abort>().at(0).rank, 0);
}

}  // namespace
}  // namespace lockstep::rendezvous
