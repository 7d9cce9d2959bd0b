// Ranks of one generation that are not of one kind.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_elastic_fixture.h"

namespace lockstep::rendezvous {
namespace {

class CoordinatorIdentityTest : public CoordinatorStateTest {
 protected:
  static constexpr const char* kAvx2 = "gradients=fp32 numerics=avx2";
  static constexpr const char* kAvx512 = "gradients=fp32 numerics=avx512";

  void propose() {
    set_plan();
    loaded();
    join(0);
    join(1);
    written();
  }
  void ready_as(int slot, const std::string& line) {
    Ready message;
    message.id = {1, 1};
    message.addresses = {fmt::format("10.0.0.{}:1", slot)};
    if (!line.empty()) message.identities = {{1, line}};
    say(slot, message);
  }
  void beat_as(int slot, std::int64_t generation, const std::string& line) {
    Heartbeat heartbeat = runs(generation);
    heartbeat.identities = {{1, line}};
    say(slot, heartbeat);
  }
};

TEST_F(CoordinatorIdentityTest, ranks_of_two_kinds_get_no_go_and_both_pods_are_named) {
  propose();
  ready_as(0, kAvx512);
  ready_as(1, kAvx2);
  EXPECT_TRUE(sent<Go>().empty());
  ASSERT_EQ(phase(), Phase::kBroken);
  const Failure failure = *job->view()->failure;
  EXPECT_EQ(failure.cause, api::Cause::kIdentityMismatch);
  EXPECT_EQ(failure.generation, 1);
  EXPECT_EQ(failure.slot, 1);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.message,
            "the ranks of a generation must have the same numerics: pod a-1 (node n1) has avx2, pod a-0 (node n0) has "
            "avx512. Give the job nodes of one CPU type, or leave out --deterministic");
}

TEST_F(CoordinatorIdentityTest, ranks_of_one_kind_get_go) {
  propose();
  ready_as(0, kAvx2);
  ready_as(1, kAvx2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorIdentityTest, a_member_that_says_nothing_is_not_compared) {
  propose();
  ready_as(0, kAvx2);
  ready_as(1, "");
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorIdentityTest, a_process_that_says_its_kind_after_go_ends_the_generation) {
  start();
  beat_as(0, 1, kAvx2);
  EXPECT_EQ(phase(), Phase::kUp);
  beat_as(1, 1, kAvx512);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kIdentityMismatch);
}

TEST_F(CoordinatorIdentityTest, what_an_agent_said_before_it_came_again_does_not_count) {
  start();
  beat_as(0, 1, kAvx2);
  come_back(0, MemberPhase::kRunning);
  beat_as(1, 1, kAvx512);
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorIdentityTest, two_processes_of_one_pod_are_named_as_such) {
  plan.procs_per_node = 2;
  propose();
  Ready message;
  message.id = {1, 1};
  message.addresses = {"10.0.0.0:1", "10.0.0.0:2"};
  message.identities = {{1, kAvx512}, {1, kAvx2}};
  say(0, message);
  message.identities.clear();
  say(1, message);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_NE(job->view()->failure->message.find("processes of pod a-0 (node n0) have avx512 and avx2"),
            std::string::npos)
      << job->view()->failure->message;
}

TEST_F(CoordinatorIdentityTest, a_long_value_is_cut_in_the_sentence) {
  propose();
  ready_as(0, "a=" + std::string(4000, 'x'));
  ready_as(1, "a=" + std::string(4000, 'y'));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_LT(job->view()->failure->message.size(), 800U);
}

class CoordinatorIdentityOfNewcomersTest : public CoordinatorElasticTest {
 protected:
  void says(int slot, Heartbeat heartbeat, const char* line) {
    heartbeat.identities = {{1, line}};
    say(slot, heartbeat);
  }
};

TEST_F(CoordinatorIdentityOfNewcomersTest, one_of_another_kind_is_not_taken_in_and_the_gang_goes_on) {
  go_on_without_two();
  for (const int slot : {0, 1}) say(slot, stays(2));
  time += std::chrono::milliseconds(100);  // a step
  for (const int slot : {0, 1}) says(slot, stays(2, 9), "numerics=avx2");
  const Heartbeat warm{.phase = MemberPhase::kWarm, .regroups = true};
  says(2, warm, "numerics=avx512");
  EXPECT_TRUE(sent<Yield>().empty());
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_NE(job->view()->message.find("slot 2 is not taken in: the ranks of a generation must have the same numerics"),
            std::string::npos)
      << job->view()->message;
  says(2, warm, "numerics=avx2");
  EXPECT_EQ(sent<Yield>().size(), 2U);
}

TEST_F(CoordinatorIdentityOfNewcomersTest, one_of_another_kind_is_left_out_when_the_gang_forms_again) {
  go_on_without_two();
  for (const int slot : {0, 1}) says(slot, stays(2, 9), "numerics=avx2");
  says(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true}, "numerics=avx512");
  forget();
  say(1, exit(1, 2, 137, 9));
  handled(2);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

}  // namespace
}  // namespace lockstep::rendezvous
