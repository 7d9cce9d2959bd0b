// Terms of a job above the leader's: the Lease was deleted, and terms of leaders began again at 1.
#include "operator/rendezvous/limits.h"
#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorTermTest : public CoordinatorStateTest {
 protected:
  // A coordinator of its own process: its keys are its own.
  void another(std::int64_t term) {
    forget();
    job = std::make_unique<CoordinatorState>(
        term, CoordinatorTiming{}, [digit = static_cast<char>('a' + made_)] { return std::string(64, digit); }, now());
    ++made_;
    set_plan();
    loaded();
  }
  // The gang of generation 1 under the third leader, whose Lease is then deleted: the next one begins at term 1.
  void lease_is_deleted_after_three_leaders() {
    another(3);
    join(0);
    join(1);
    written();
    ready(0, 1, 3);
    ready(1, 1, 3);
    another(1);
  }
  void members_come_back(std::int64_t term) {
    for (const int slot : {0, 1}) {
      Hello message = hello(slot);
      message.phase = MemberPhase::kRunning;
      message.generation = 1;
      message.up = true;
      message.promised = {term, 1};
      job->on_hello(kFirst + static_cast<SessionId>(slot), message, now());
    }
  }

 private:
  int made_ = 0;
};

TEST_F(CoordinatorTermTest, a_deleted_lease_does_not_end_the_care_for_a_job) {
  lease_is_deleted_after_three_leaders();
  written();
  EXPECT_EQ(stored.record.term, 4) << "above the record's";
  members_come_back(3);
  EXPECT_EQ(sent<Welcome>().back().term, 4);
  say(1, exit(1, 1, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken) << "a killed rank is noticed";
  plan.handled_generation = 1;
  set_plan();
  EXPECT_EQ(sent<Propose>().back().id, (GenerationId{4, 2}));
}

TEST_F(CoordinatorTermTest, no_order_leaves_before_the_new_term_is_in_the_record) {
  lease_is_deleted_after_three_leaders();
  members_come_back(3);
  say(1, exit(1, 1, 137, 9));
  time += seconds(10);
  job->on_tick(now());
  for (const auto& action : taken<SendToMember>()) {
    const bool order = std::holds_alternative<Propose>(action.message) || std::holds_alternative<Go>(action.message) ||
                       std::holds_alternative<Halt>(action.message) || std::holds_alternative<Warm>(action.message);
    EXPECT_FALSE(order);
  }
  ASSERT_EQ(taken<WriteRecord>().size(), 1U);
  EXPECT_EQ(taken<WriteRecord>()[0].next.term, 4);
}

TEST_F(CoordinatorTermTest, a_member_that_promised_a_later_term_moves_the_job_above_it) {
  another(1);
  Hello message = hello(0);
  message.promised = {7, 2};
  job->on_hello(kFirst, message, now());
  EXPECT_EQ(sent<Welcome>().back().term, 8);
  join(1);
  ASSERT_FALSE(sent<Propose>().empty()) << "there is no record yet that could be another's";
  EXPECT_EQ(sent<Propose>().back().id, (GenerationId{8, 3}));
  EXPECT_EQ(taken<WriteRecord>().back().next.term, 8);
}

TEST_F(CoordinatorTermTest, a_member_that_a_later_term_welcomed_moves_the_job_above_it) {
  another(1);
  Hello message = hello(0);
  message.welcomed = 5;  // it would leave a coordinator of a lower one, again and again
  job->on_hello(kFirst, message, now());
  EXPECT_EQ(sent<Welcome>().back().term, 6);
}

TEST_F(CoordinatorTermTest, a_proposal_under_an_outgrown_term_is_discarded) {
  another(1);
  join(0);
  join(1);
  ASSERT_EQ(sent<Propose>().back().id, (GenerationId{1, 1}));
  Hello message = hello(1);
  message.promised = {5, 4};
  job->on_hello(kFirst + 51, message, now());
  written();  // the first write was under way
  EXPECT_EQ(taken<WriteRecord>().back().next.term, 6) << "the record is claimed before the next proposal";
  written();
  EXPECT_EQ(sent<Propose>().back().id, (GenerationId{6, 5}));
}

TEST_F(CoordinatorTermTest, a_coordinator_without_the_lease_is_deposed_by_a_later_term) {
  another(1);
  leads = false;
  Hello message = hello(0);
  message.promised = {7, 2};
  job->on_hello(kFirst, message, now());
  ASSERT_EQ(sent<Refused>().size(), 1U);
  EXPECT_FALSE(sent<Refused>()[0].final);
  EXPECT_TRUE(sent<Welcome>().empty());
  join(1);
  EXPECT_TRUE(sent<Propose>().empty());
}

TEST_F(CoordinatorTermTest, a_coordinator_that_holds_the_lease_again_takes_the_job_up) {
  leads = false;
  lease_is_deleted_after_three_leaders();
  job->on_tick(now());
  EXPECT_TRUE(taken<WriteRecord>().empty());
  leads = true;
  job->on_tick(now());
  ASSERT_EQ(taken<WriteRecord>().size(), 1U);
  EXPECT_EQ(taken<WriteRecord>()[0].next.term, 4);
}

TEST_F(CoordinatorTermTest, a_record_of_its_own_term_that_another_wrote_is_not_its_own) {
  another(1);
  join(0);
  join(1);
  stored.record = taken<WriteRecord>().back().next;
  stored.record.writer = "another";
  stored.version = "9";
  not_written(ErrorCode::kConflict);
  loaded();
  EXPECT_EQ(taken<WriteRecord>().back().next.term, 2) << "two coordinators never act under one term of a job";
}

TEST_F(CoordinatorTermTest, a_write_whose_answer_was_lost_is_known_as_its_own) {
  another(1);
  join(0);
  join(1);
  stored.record = taken<WriteRecord>().back().next;
  stored.version = "9";
  not_written(ErrorCode::kUnavailable);
  time += seconds(1);
  job->on_tick(now());
  loaded();
  EXPECT_EQ(sent<Propose>().back().id, (GenerationId{1, 2})) << "its number is not used again, its term is";
}

TEST_F(CoordinatorTermTest, a_member_cannot_push_the_term_out_of_range) {
  another(1);
  Hello message = hello(0);
  message.promised = {kMostPromised + 1, 1};
  job->on_hello(kFirst, message, now());
  message.promised = {1, kMostPromised + 1};
  job->on_hello(kFirst + 2, message, now());
  EXPECT_EQ(sent<Refused>().size(), 2U);
  EXPECT_TRUE(sent<Welcome>().empty());
  message.promised = {kMostPromised, kMostPromised};
  job->on_hello(kFirst + 4, message, now());
  EXPECT_EQ(sent<Welcome>().back().term, kMostPromised + 1);
  EXPECT_LT(kMostPromised + 1, kMostCount) << "what its members promise then is let in";
}

// A write of the gang that is up fails: another coordinator has recorded generation 2.
class CoordinatorForeignRecordTest : public CoordinatorTermTest {
 protected:
  void write_a_checkpoint() {
    start();
    Heartbeat heartbeat = runs(1);
    heartbeat.newest_checkpoint = CheckpointReport{"step-5.g1", 5, 1, "d"};
    say(0, heartbeat);
    ASSERT_EQ(taken<WriteRecord>().size(), 1U);
  }
  void it_fails() {
    stored.record.writer = "another";
    stored.record.term = stored.record.generation = 2;
    not_written(ErrorCode::kConflict);
    loaded();
  }
};

TEST_F(CoordinatorForeignRecordTest, a_failure_is_not_shown_of_the_generation_that_another_started) {
  write_a_checkpoint();
  say(1, exit(1, 1, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  for (const int slot : {0, 1}) job->on_disconnected(kFirst + static_cast<SessionId>(slot), now());
  it_fails();
  written();
  for (const int slot : {0, 1}) come_back(slot, MemberPhase::kRunning, 2, kFirst + 50);
  ASSERT_EQ(phase(), Phase::kUp);
  EXPECT_FALSE(job->view()->failure);
}

TEST_F(CoordinatorForeignRecordTest, a_job_that_stopped_stays_stopped_for_a_deposed_coordinator) {
  write_a_checkpoint();
  plan.stop = true;
  set_plan();
  for (const int slot : {0, 1}) {
    say(slot, exit(slot, 1, 0));
    job->on_disconnected(kFirst + static_cast<SessionId>(slot), now());
  }
  ASSERT_EQ(phase(), Phase::kStopped);
  leads = false;
  it_fails();
  EXPECT_EQ(phase(), Phase::kStopped);
}

}  // namespace
}  // namespace lockstep::rendezvous
