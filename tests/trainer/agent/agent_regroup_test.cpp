// Workers that keep their memory: real agents as processes, a real coordinator, workers that speak their link in a
// shell.
#include "tests/trainer/agent/agents.h"

namespace lockstep::trainer::agent {
namespace {

using rv::Phase;

class AgentRegroupTest : public AgentJobTest {
 protected:
  void SetUp() override {
    AgentJobTest::SetUp();
    plan.kind = rv::Kind::kLockstep;
  }
  // A worker of rank `mute` does not answer a regroup.
  static std::vector<std::string> staying_worker(int mute = -1) { return {STAYING_WORKER, std::to_string(mute)}; }
  void lose(const Started& victim) {
    ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
    ASSERT_TRUE(reaches(Phase::kBroken, 1));
    handled(1);
    ASSERT_TRUE(reaches(Phase::kUp, 2));
  }
  bool says(std::size_t slot, const std::string& text) { return output(slot).find(text) != std::string::npos; }
  Started of_rank(int rank, std::int64_t generation) {
    for (const Started& one : started(generation)) {
      if (one.rank == rank) return one;
    }
    return {};
  }
};

TEST_F(AgentRegroupTest, the_survivors_stay_and_the_killed_one_is_replaced_with_their_state) {
  start_job(3, 1, staying_worker());
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  lose(of_rank(1, 1));
  ASSERT_EQ(started(2).size(), 1U);
  EXPECT_EQ(started(2)[0].rank, 1);
  EXPECT_TRUE(is_alive(of_rank(0, 1).pid));
  EXPECT_TRUE(is_alive(of_rank(2, 1).pid));
  ASSERT_TRUE(eventually([&](const auto&) { return says(2, "goes on in 2 as rank 2 from rank 0 send true"); }));
  ASSERT_TRUE(eventually([&](const auto&) { return says(1, "starts in 2 with the state of '0 1 7 ab'"); }));
}

TEST_F(AgentRegroupTest, a_worker_that_does_not_answer_is_replaced_as_well) {
  start_job(3, 1, staying_worker(2));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  lose(of_rank(1, 1));
  EXPECT_EQ(started(2).size(), 2U);
  EXPECT_TRUE(is_alive(of_rank(0, 1).pid));
  EXPECT_FALSE(is_alive(of_rank(2, 1).pid));
}

TEST_F(AgentRegroupTest, of_a_pods_processes_the_dead_one_alone_restarts) {
  start_job(2, 3, staying_worker());
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  lose(of_rank(4, 1));
  ASSERT_EQ(started(2).size(), 1U);
  EXPECT_EQ(started(2)[0].rank, 4);
  for (const int rank : {0, 1, 2, 3, 5}) EXPECT_TRUE(is_alive(of_rank(rank, 1).pid)) << rank;
  ASSERT_TRUE(eventually([&](const auto&) { return says(1, "[5] goes on in 2 as rank 5 from rank 3 send true"); }));
  ASSERT_TRUE(eventually([&](const auto&) { return says(1, "[4] starts in 2 with the state of '3 1 7 ab'"); }));
}

TEST_F(AgentRegroupTest, when_a_process_leaves_something_behind_all_of_its_pod_restart) {
  start_job(2, 2, {"/bin/bash", "-c", "[ $RANK = 3 ] && sleep 60 & exec " STAYING_WORKER});
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  lose(of_rank(3, 1));
  EXPECT_EQ(started(2).size(), 2U);
  EXPECT_TRUE(is_alive(of_rank(1, 1).pid));
  EXPECT_FALSE(is_alive(of_rank(2, 1).pid));
}

TEST_F(AgentRegroupTest, a_new_coordinator_forms_a_generation_of_the_processes_that_it_finds) {
  start_job(2, 1, staying_worker());
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  coordinator.reset();  // and another comes, to which they are all unknown
  start_coordinator(2);
  coordinator->set_job(plan);
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  handled(1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
  EXPECT_TRUE(started(2).empty());
  ASSERT_TRUE(eventually([&](const auto&) { return says(0, "goes on in 2 as rank 0 from rank 0 send false"); }));
}

}  // namespace
}  // namespace lockstep::trainer::agent
