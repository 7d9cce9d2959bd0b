// What the writes of a plan look at right before they are made.
#include "operator/job/child_writes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/base/metrics.h"
#include "operator/local/memory_api.h"
#include "tests/operator/job/hooked_api.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::child_writes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Server final : public testing::HookedApi {
 public:
  using HookedApi::HookedApi;
  bool away = false, loses_answers = false;
  ErrorCode says_when_away = ErrorCode::kUnavailable;

  Result<Json> patch(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                     kube::PatchType type, const Json& patch, const std::string& subresource,
                     const kube::WriteOptions& options) override {
    auto written = HookedApi::patch(resource, name_space, name, type, patch, subresource, options);
    if (loses_answers) return fail(ErrorCode::kUnavailable, "the connection broke");
    return written;
  }

 protected:
  std::optional<Error> before(const Write&) override {
    return away ? std::optional(Error{says_when_away, "away"}) : std::nullopt;
  }
};

class ChildWritesTest : public ::testing::Test {
 protected:
  // Makes the writes of the plan. Placement gives the nodes of `given_` and opens pods on those of `open_`.
  ChildWrites::Outcome carry_out(const Plan& plan) {
    const auto job = std::make_shared<const api::TrainingJob>(situation_.job);
    const ChildWrites::Placement placement{
        .gives = [&](const PodToCreate& pod) { return given_.contains(pod.node); },
        .open =
            [&](const placement::Opening& opening) {
              asked_.push_back(opening);
              return open_.contains(opening.node);
            },
        .opened =
            [&](const placement::Opening& opening, const std::string& uid, const std::optional<std::string>& version) {
              ended_.emplace_back(opening.pod, uid, version.value_or("lost"));
            }};
    ChildWrites writes(
        {server_, own_writes_, clock_, created_, deleted_}, [] { return AgentSettings{.image = "agent"}; }, placement,
        false, job, plan);
    for (std::size_t i = 0; i < writes.count() && writes.write(i); ++i) continue;
    return writes.outcome();
  }
  // Names of the pods that are there after all creates of the plan.
  std::set<std::string> pods_after(std::vector<PodToCreate> creates) {
    Plan plan;
    plan.creates = std::move(creates);
    EXPECT_FALSE(carry_out(plan).error);
    std::set<std::string> names;
    const auto page = api_.list(kube::kPods, {});
    EXPECT_TRUE(page);
    for (const kube::Json& pod : page->items) names.insert(pod["metadata"]["name"].get<std::string>());
    return names;
  }
  // A gated pod of slot 0 on node n0, and the plan that opens it.
  Plan opening_of_a_gated_pod() {
    given_ = {"n0"};
    pods_after({{.slot = 0, .incarnation = 1, .node = "n0", .gated = true}});
    Plan plan;
    plan.opens.push_back({.name = name(0), .uid = pod()["metadata"]["uid"], .slot = 0, .node = "n0"});
    return plan;
  }
  kube::Json pod() { return *api_.get(kube::kPods, situation_.job.meta.name_space, name(0)); }
  bool is_gated() { return !pod()["spec"].value("schedulingGates", kube::Json::array()).empty(); }
  std::string placed() const { return situation_.job.meta.name_space + "/" + name(0); }
  std::string name(int slot) const { return pod_name(situation_.job, slot, 1); }

  Situation situation_;
  ManualClock clock_;
  local::MemoryApi api_{clock_};
  Server server_{api_};
  std::set<std::string> given_, open_;
  std::vector<placement::Opening> asked_;
  std::vector<std::tuple<std::string, std::string, std::string>> ended_;  // pod, uid, version; "lost": the answer was
  control::OwnWrites own_writes_{clock_};
  MetricsRegistry metrics_;
  Counter& created_ = metrics_.counter("created", "");
  Counter& deleted_ = metrics_.counter("deleted", "");
};

TEST_F(ChildWritesTest, no_pod_is_created_for_a_node_that_placement_took_back) {
  given_ = {"n1"};
  EXPECT_THAT(pods_after({{.slot = 0, .incarnation = 1, .node = "n0", .gated = true},
                          {.slot = 1, .incarnation = 1, .node = "n1", .gated = true}}),
              ElementsAre(name(1)));
  EXPECT_THAT(asked_, IsEmpty()) << "a gate opens nothing";
}

TEST_F(ChildWritesTest, a_pod_without_a_gate_is_created_where_placement_opens_its_node) {
  open_ = {"n1"};
  EXPECT_THAT(pods_after({{.slot = 1, .incarnation = 1, .node = "n0"}, {.slot = 0, .incarnation = 1, .node = "n1"}}),
              ElementsAre(name(0)));
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[1], (placement::Opening{.slot = 0, .pod = placed(), .uid = "", .node = "n1"}));
  const kube::Json meta = pod()["metadata"];
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), meta["uid"], meta["resourceVersion"])));
}

TEST_F(ChildWritesTest, a_gate_stays_where_placement_opens_no_node) {
  const Plan plan = opening_of_a_gated_pod();
  EXPECT_FALSE(carry_out(plan).error);
  EXPECT_TRUE(is_gated());
  EXPECT_THAT(asked_,
              ElementsAre(placement::Opening{.slot = 0, .pod = placed(), .uid = plan.opens[0].uid, .node = "n0"}));
  EXPECT_THAT(ended_, IsEmpty()) << "nothing was opened";
}

TEST_F(ChildWritesTest, a_gate_is_removed_and_placement_told_of_the_version) {
  const Plan plan = opening_of_a_gated_pod();
  open_ = {"n0"};
  EXPECT_FALSE(carry_out(plan).error);
  EXPECT_FALSE(is_gated());
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), plan.opens[0].uid, pod()["metadata"]["resourceVersion"])));
}

TEST_F(ChildWritesTest, placement_is_told_when_a_gate_could_not_be_removed) {
  const Plan plan = opening_of_a_gated_pod();
  open_ = {"n0"};
  Plan outdated = plan;
  outdated.opens[0].node = "n1";
  open_.insert("n1");
  EXPECT_FALSE(carry_out(outdated).error) << "a new decision rewrote the annotation";
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), "", "")));
  server_.away = true;
  EXPECT_TRUE(carry_out(plan).error);
  EXPECT_TRUE(is_gated());
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), "", ""), std::tuple(placed(), "", "lost")));
}

TEST_F(ChildWritesTest, a_write_whose_answer_was_lost_is_found_by_the_next_try) {
  const Plan plan = opening_of_a_gated_pod();
  open_ = {"n0"};
  server_.loses_answers = true;
  EXPECT_TRUE(carry_out(plan).error);
  ASSERT_FALSE(is_gated());
  server_.loses_answers = false;
  EXPECT_FALSE(carry_out(plan).error);
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), "", "lost"),
                                  std::tuple(placed(), plan.opens[0].uid, pod()["metadata"]["resourceVersion"])));
}

// An earlier try may have removed the gate: this answer does not say.
TEST_F(ChildWritesTest, a_try_that_is_turned_away_leaves_open_whether_the_gate_is_there) {
  const Plan plan = opening_of_a_gated_pod();
  open_ = {"n0"};
  server_.away = true;
  for (const ErrorCode code : {ErrorCode::kTooManyRequests, ErrorCode::kForbidden, ErrorCode::kUnauthorized}) {
    server_.says_when_away = code;
    carry_out(plan);
  }
  const std::tuple lost(placed(), "", "lost");
  EXPECT_THAT(ended_, ElementsAre(lost, lost, lost));
}

TEST_F(ChildWritesTest, a_create_that_is_turned_away_has_made_no_pod) {
  open_ = {"n0"};
  server_.away = true;
  server_.says_when_away = ErrorCode::kForbidden;  // a quota
  Plan plan;
  plan.creates = {{.slot = 0, .incarnation = 1, .node = "n0"}};
  carry_out(plan);
  EXPECT_THAT(ended_, ElementsAre(std::tuple(placed(), "", "")));
}

TEST_F(ChildWritesTest, a_pod_without_a_node_is_created_without_an_answer) {
  EXPECT_THAT(pods_after({{.slot = 0, .incarnation = 1}}), ElementsAre(name(0)));
}

}  // namespace
}  // namespace lockstep::job::child_writes_test
