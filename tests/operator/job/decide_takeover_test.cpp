// The first decisions of a leader that took over: what was lost or ended while no operator led.
#include "operator/job/decide.h"

#include <gtest/gtest.h>

#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_takeover_test {
namespace {

TEST(Decide, a_status_that_was_lost_does_not_make_old_names_new_again) {
  Situation s;
  s.pod(0, 7);
  s.accept();
  EXPECT_EQ(s.job.status.incarnation, 7);
  EXPECT_EQ(s.plan().creates, (std::vector<PodToCreate>{{1, 7}}));
}

// A name that is used twice would let two pods be one and the same incarnation to the coordinator.
TEST(Decide, a_pod_lost_without_leader_is_recreated_once_its_loss_is_stored) {
  Situation s(2);
  s.running();
  s.pods.erase(s.pods.begin());
  s.view.reset();  // the new leader's coordinator has not read the record yet
  s.settling = true;
  EXPECT_TRUE(s.plan().creates.empty());
  s.see(rendezvous::Phase::kWaiting, 1);
  s.connect();
  const Plan plan = s.plan();
  EXPECT_EQ(plan.status->attempts.back().cause, api::Cause::kPodDeleted);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 2}}));
}

TEST(Decide, a_pod_that_failed_without_leader_stays_until_its_attempt_is_stored) {
  Situation s(2);
  s.running();
  s.pods[1].phase = "Failed";
  s.view.reset();
  s.settling = true;
  EXPECT_TRUE(s.plan().deletes.empty());
  s.see(rendezvous::Phase::kWaiting, 1);
  s.connect();
  const Plan plan = s.plan();
  EXPECT_EQ(plan.status->attempts.back().cause, api::Cause::kPodFailed);
  EXPECT_EQ(plan.deletes.size(), 1u);
}

}  // namespace
}  // namespace lockstep::job::decide_takeover_test
