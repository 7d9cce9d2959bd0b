// What the writes of a plan look at right before they are made.
#include "operator/job/child_writes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <nlohmann/json.hpp>

#include "operator/base/metrics.h"
#include "operator/local/memory_api.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job {
namespace {

using ::testing::ElementsAre;

class ChildWritesTest : public ::testing::Test {
 protected:
  // Names of the pods that are there after all creates of the plan.
  std::set<std::string> pods_after(std::vector<PodToCreate> creates, const std::set<std::string>& given) {
    Plan plan;
    plan.creates = std::move(creates);
    const auto job = std::make_shared<const api::TrainingJob>(situation_.job);
    ChildWrites writes(
        {api_, own_writes_, clock_, created_, deleted_}, [] { return AgentSettings{.image = "agent"}; },
        [&](const PodToCreate& pod) { return given.contains(pod.node); }, false, job, plan);
    for (std::size_t i = 0; i < writes.count(); ++i) EXPECT_TRUE(writes.write(i));
    EXPECT_FALSE(writes.outcome().error);
    std::set<std::string> names;
    const auto page = api_.list(kube::kPods, {});
    EXPECT_TRUE(page);
    for (const kube::Json& pod : page->items) names.insert(pod["metadata"]["name"].get<std::string>());
    return names;
  }
  std::string name(int slot) const { return pod_name(situation_.job, slot, 1); }

  Situation situation_;
  ManualClock clock_;
  local::MemoryApi api_{clock_};
  control::OwnWrites own_writes_{clock_};
  MetricsRegistry metrics_;
  Counter& created_ = metrics_.counter("created", "");
  Counter& deleted_ = metrics_.counter("deleted", "");
};

TEST_F(ChildWritesTest, no_pod_is_created_for_a_node_that_placement_took_back) {
  EXPECT_THAT(pods_after({{.slot = 0, .incarnation = 1, .node = "n0", .gated = true},
                          {.slot = 1, .incarnation = 1, .node = "n1", .gated = true}},
                         {"n1"}),
              ElementsAre(name(1)));
}

TEST_F(ChildWritesTest, a_pod_without_a_node_is_created_without_an_answer) {
  EXPECT_THAT(pods_after({{.slot = 0, .incarnation = 1}}, {}), ElementsAre(name(0)));
}

}  // namespace
}  // namespace lockstep::job
