// Which questions about a job never reach the placement desk, and whether they are to be asked again.
#include "operator/job/job_placement.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/base/metrics.h"
#include "tests/operator/job/situation.h"
#include "tests/operator/kube/fake_api.h"

namespace lockstep::job::job_placement_test {
namespace {

class EmptyCluster final : public ClusterAccess {
 public:
  void with_cluster(const std::function<void(placement::Cluster&)>& use) override { use(cluster_); }

 private:
  placement::Cluster cluster_{{.name = "test", .levels = {{"rack", "r"}}}};
};

class JobPlacementTest : public ::testing::Test {
 protected:
  JobPlacementTest() {
    api_.on_list = [this](const kube::ListOptions&) -> Result<kube::ListPage> {
      return kube::ListPage{classes_, "1", ""};
    };
  }
  Placing ask(const Situation& job) {
    const auto placing = placement_.ask(job.snapshot());
    EXPECT_TRUE(placing && *placing);
    return placing && *placing ? **placing : Placing{};
  }

  std::vector<kube::Json> classes_;
  kube::testing::FakeApi api_;
  ManualClock clock_;
  MetricsRegistry metrics_;
  EmptyCluster cluster_;
  PlacementDesk desk_{cluster_, clock_, metrics_, [] { return std::set<std::string>(); }, [](const auto&) {}};
  JobPlacement placement_{&desk_, api_, clock_, {.name = "test", .levels = {{"rack", "r"}}}, {}};
};

TEST_F(JobPlacementTest, an_unknown_priority_class_may_come) {
  Situation job;
  job.job.spec.scheduling.priority_class_name = "late";
  const Placing refused = ask(job);
  EXPECT_NE(refused.refusal.find("PriorityClass \"late\""), std::string::npos) << refused.refusal;
  EXPECT_TRUE(refused.may_end);
  classes_.push_back({{"metadata", {{"name", "late"}}}, {"value", 5}});
  clock_.advance(std::chrono::seconds(5));
  const Placing placed = ask(job);
  EXPECT_EQ(placed.refusal, "");
  EXPECT_FALSE(placed.may_end);
}

TEST_F(JobPlacementTest, an_unknown_level_needs_another_spec) {
  Situation job;
  job.job.spec.placement.required = "rak";
  job.job.spec.scheduling.priority_class_name = "late";
  const Placing refused = ask(job);
  EXPECT_NE(refused.refusal.find("unknown level \"rak\""), std::string::npos) << refused.refusal;
  EXPECT_FALSE(refused.may_end);
}

}  // namespace
}  // namespace lockstep::job::job_placement_test
