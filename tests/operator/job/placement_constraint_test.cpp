#include "operator/job/placement_constraint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::job::placement_constraint_test {
namespace {

using namespace std::chrono_literals;
using placement::Constraint;

const placement::Profile kTwo{"two", {{"block", "example.com/block"}, {"rack", "example.com/rack"}}};
const placement::Profile kFlat{"flat", {}};

struct Good {
  api::PlacementSpec wish;
  placement::Profile profile;
  Constraint constraint;
};

TEST(PlacementConstraint, names_become_levels_of_the_topology) {
  const Good table[] = {
      {{}, kTwo, {.preferred = 1}},
      {{}, kFlat, {}},
      {{.required = "block"}, kTwo, {.required = 0, .preferred = 1}},
      {{.required = "rack"}, kTwo, {.required = 1, .preferred = 1}},
      {{.required = "node"}, kTwo, {.required = 2, .preferred = 2}},
      {{.required = "node"}, kFlat, {.required = 0, .preferred = 0}},
      {{.preferred = "block"}, kTwo, {.preferred = 0, .preferred_left = 60s}},
      {{.preferred = "rack", .preferred_wait_seconds = 7}, kTwo, {.preferred = 1, .preferred_left = 7s}},
      {{.preferred = "rack", .preferred_wait_seconds = 0}, kTwo, {.preferred = 1}},
      {{.required = "block", .preferred = "node"}, kTwo, {.required = 0, .preferred = 2, .preferred_left = 60s}},
      {{.required = "block", .preferred = "block"}, kTwo, {.required = 0, .preferred = 0, .preferred_left = 60s}},
      {{.preferred = "node"}, kFlat, {.preferred = 0, .preferred_left = 60s}},
      {{.exclusive = true}, kTwo, {.preferred = 1, .exclusive = true}},
  };
  for (const Good& good : table) {
    api::TrainingJobSpec spec;
    spec.gpus_per_node = 1;
    spec.placement = good.wish;
    const auto constraint = constraint_of(spec, good.profile);
    const std::string row = good.wish.required + "/" + good.wish.preferred + " of " + good.profile.name;
    ASSERT_TRUE(constraint) << row << ": " << constraint.error().message;
    EXPECT_EQ(*constraint, good.constraint) << row;
  }
}

struct Pods {
  const char* spec;
  bool spread;
};

TEST(PlacementConstraint, pods_that_ask_for_neither_cpu_nor_gpu_are_spread) {
  const Pods table[] = {
      {R"({})", true},
      {R"({"gpusPerNode": 1})", false},
      {R"({"resources": {"requests": {"cpu": "100m"}}})", false},
      {R"({"resources": {"limits": {"cpu": 1}}})", false},
      {R"({"resources": {"requests": {"cpu": "0"}}})", true},
      {R"({"resources": {"requests": {"memory": "1Gi"}}})", true},
      {R"({"resources": {"limits": {"example.com/gpu": "2"}}})", false},
      {R"({"podTemplate": {"spec": {"resources": {"requests": {"cpu": "1"}}}}})", false},
      {R"({"podTemplate": {"spec": {"containers": [{"name": "trainer", "resources": {"limits": {"cpu": "1"}}}]}}})",
       false},
      {R"({"podTemplate": {"spec": {"initContainers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}}})",
       false},
      {R"({"podTemplate": {"spec": {"containers": "x", "nodeSelector": {"a": "b"}}}})", true},
      {R"({"placement": {"required": "block"}})", true},
      {R"({"placement": {"preferred": "rack"}})", false},
  };
  for (const Pods& pods : table) {
    const auto job = api::parse_training_job({{"spec", api::Json::parse(pods.spec)}});
    ASSERT_TRUE(job) << pods.spec;
    const auto constraint = constraint_of(job->spec, kTwo);
    ASSERT_TRUE(constraint) << pods.spec;
    EXPECT_EQ(constraint->spread, pods.spread) << pods.spec;
  }
}

struct Bad {
  api::PlacementSpec wish;
  placement::Profile profile;
  const char* sentence;
};

TEST(PlacementConstraint, that_the_topology_cannot_express_is_refused_with_a_sentence) {
  const Bad table[] = {
      {{.required = "rak"},
       kTwo,
       "spec.placement.required: unknown level \"rak\"; did you mean rack? The levels are block, rack and node"},
      {{.preferred = "topology.example.com/zone"},
       kTwo,
       "spec.placement.preferred: unknown level \"topology.example.com/zone\"; the levels are block, rack and node"},
      {{.required = "rack"},
       kFlat,
       "spec.placement.required: unknown level \"rack\"; the operator has no topology, so the only level is node"},
      {{.required = "rack", .preferred = "block"},
       kTwo,
       "spec.placement.required: level rack is inside of the preferred level block; require an outer level, or prefer "
       "an inner one"},
      {{.required = "node", .preferred = "rack"},
       kTwo,
       "spec.placement.required: level node is inside of the preferred level rack; require an outer level, or prefer "
       "an inner one"},
  };
  for (const Bad& bad : table) {
    api::TrainingJobSpec spec;
    spec.placement = bad.wish;
    const auto constraint = constraint_of(spec, bad.profile);
    ASSERT_FALSE(constraint) << bad.sentence;
    EXPECT_EQ(constraint.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(constraint.error().message, bad.sentence);
  }
}

}  // namespace
}  // namespace lockstep::job::placement_constraint_test
