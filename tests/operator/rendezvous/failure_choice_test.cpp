#include "operator/rendezvous/failure_choice.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

Exit ended(int rank, int code, int signal, std::int64_t ms) {
  Exit exit;
  exit.generation = 4;
  exit.rank = rank;
  exit.code = code;
  exit.signal = signal;
  exit.end_ms = ms;
  return exit;
}

TEST(FailureChoice, the_earliest_own_fault_is_named) {
  const std::vector<Exit> exits = {ended(0, 1, 0, 200), ended(1, 137, 9, 100), ended(2, 2, 0, 150)};
  EXPECT_EQ(first_failing(exits, Kind::kLockstep)->rank, 1);
}

TEST(FailureChoice, an_own_fault_comes_before_an_earlier_communication_failure) {
  std::vector<Exit> exits = {ended(0, kExitCommunication, 0, 100), ended(1, 139, 11, 180)};
  EXPECT_EQ(first_failing(exits, Kind::kLockstep)->rank, 1);
  exits[0].code = 1;
  exits[0].report = FailureReport{FailureReport::Class::kCommunication, 1, ""};
  EXPECT_EQ(first_failing(exits, Kind::kLockstep)->rank, 1);
}

TEST(FailureChoice, a_plain_code_of_a_foreign_program_may_be_an_echo_of_a_signal_elsewhere) {
  const std::vector<Exit> exits = {ended(0, 1, 0, 90), ended(1, 137, 9, 100)};
  EXPECT_EQ(first_failing(exits, Kind::kTorch)->rank, 1);
  EXPECT_EQ(first_failing(exits, Kind::kLockstep)->rank, 0);
}

TEST(FailureChoice, a_rank_told_to_end_is_never_to_blame) {
  std::vector<Exit> exits = {ended(0, 143, 15, 1), ended(1, 0, 0, 2)};
  exits[0].reason = Exit::Reason::kOrdered;
  EXPECT_EQ(first_failing(exits, Kind::kLockstep), nullptr);
}

TEST(FailureChoice, equal_times_go_by_rank) {
  EXPECT_EQ(first_failing({ended(3, 1, 0, 5), ended(2, 1, 0, 5)}, Kind::kLockstep)->rank, 2);
}

TEST(FailureChoice, a_failure_reads_as_a_sentence_with_the_tail_of_stderr) {
  Exit exit = ended(2, 137, 9, 1'700'000'000'000);
  exit.stderr_tail = "last words\n";
  const Failure failure = failure_of(exit, 1);
  EXPECT_EQ(failure.cause, api::Cause::kProcessSignal);
  EXPECT_EQ(failure.message, "rank 2 was ended by SIGKILL\nlast words\n");
  EXPECT_EQ(failure.exit_code, 137);
  EXPECT_EQ(failure.slot, 1);
  EXPECT_EQ(failure.generation, 4);
}

TEST(FailureChoice, causes_are_told_apart) {
  Exit exit = ended(0, 3, 0, 1);
  EXPECT_EQ(failure_of(exit, 0).cause, api::Cause::kProcessExit);
  exit.code = kExitStopped;
  EXPECT_EQ(failure_of(exit, 0).cause, api::Cause::kStopped);
  exit.code = 143;
  exit.signal = 15;
  exit.reason = Exit::Reason::kTerminated;
  EXPECT_EQ(failure_of(exit, 0).cause, api::Cause::kStopped);
  exit.problem = api::Cause::kCommandNotFound;
  exit.message = "no such command";
  EXPECT_EQ(failure_of(exit, 0).cause, api::Cause::kCommandNotFound);
  EXPECT_EQ(failure_of(exit, 0).message, "no such command");
}

}  // namespace
}  // namespace lockstep::rendezvous
