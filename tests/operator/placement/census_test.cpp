// What a domain has free, and which labels are wrong.
#include "operator/placement/census.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/placement/label_check.h"

namespace lockstep::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CensusTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const api::Labels& labels, std::int64_t gpus = 8) {
    NodeRecord node;
    node.name = name;
    node.labels = labels;
    node.allocatable = {{"cpu", 4000}, {"nvidia.com/gpu", gpus}, {"pods", 110}};
    node.ready = true;
    cluster.put_node(node);
  }
  void run(const std::string& name, const std::string& node, std::int64_t gpus, const std::string& job = "") {
    ScannedPod pod;
    pod.name_space = "x";
    pod.name = name;
    pod.uid = Uid::of(name);
    if (!job.empty()) pod.job = Uid::of(job);
    pod.node = node;
    pod.flags = kBound;
    pod.requests = {{"nvidia.com/gpu", gpus}, {"pods", 1}};
    cluster.put_pod(pod);
  }
  Tally in(const std::string& node, int level) {
    const Census census = take_census(cluster, "nvidia.com/gpu");
    const NodeId id = cluster.tree().find(node);
    return census.domains[static_cast<std::size_t>(cluster.tree().domain_of(id, level))];
  }

  Cluster cluster{{"test", {{"block", "b"}, {"rack", "r"}}}};
};

TEST_F(CensusTest, a_domain_has_the_sum_of_its_nodes) {
  put("n1", {{"b", "1"}, {"r", "1"}});
  put("n2", {{"b", "1"}, {"r", "1"}});
  put("n3", {{"b", "1"}, {"r", "2"}}, 4);
  run("a", "n1", 3, "job");
  run("b", "n2", 1, "job");
  run("c", "n2", 2);
  EXPECT_EQ(in("n1", 1).free, 10);
  EXPECT_EQ(in("n1", 1).others, 2);
  EXPECT_EQ(in("n1", 0).total, 20);
  EXPECT_EQ(in("n1", 0).pods_by_job.at(Uid::of("job")), 2);
  EXPECT_EQ(in("n3", 1).pods_by_job.size(), 0U);
}

TEST_F(CensusTest, more_used_than_there_is_leaves_nothing_free) {
  put("n1", {}, 2);
  put("n2", {}, 2);
  run("a", "n1", 5);
  EXPECT_EQ(in("n1", kClusterLevel).free, 2);
}

TEST_F(CensusTest, the_largest_hole_of_each_level_is_the_first_by_name) {
  put("n2", {{"b", "1"}, {"r", "2"}});
  put("n1", {{"b", "1"}, {"r", "1"}});
  const Census census = take_census(cluster, "nvidia.com/gpu");
  ASSERT_EQ(census.largest.size(), 4U);
  EXPECT_EQ(census.largest[0].pods, 16);
  EXPECT_THAT(census.largest[2].path, ElementsAre("1", "1"));
  EXPECT_THAT(census.largest[3].path, ElementsAre("1", "1", "n1"));
}

TEST_F(CensusTest, gpus_are_counted_where_a_node_has_some) {
  put("n1", {}, 0);
  EXPECT_EQ(usual_resource(cluster), "cpu");
  put("n2", {}, 1);
  EXPECT_EQ(usual_resource(cluster), "nvidia.com/gpu");
  EXPECT_THAT(resources_of(cluster), ElementsAre("cpu", "nvidia.com/gpu"));
}

TEST_F(CensusTest, amounts_are_in_the_words_of_their_resource) {
  EXPECT_EQ(in_words("cpu", 1500), "1.5");
  EXPECT_EQ(in_words("cpu", 16000), "16");
  EXPECT_EQ(in_words("cpu", 0), "0");
  EXPECT_EQ(in_words("memory", 17LL << 30), "17Gi");
  EXPECT_EQ(in_words("nvidia.com/gpu", 8), "8");
  EXPECT_EQ(in_words("cpu", kMostUnits), "unlimited");
}

TEST_F(CensusTest, good_labels_are_no_problem) {
  put("n1", {{"b", "1"}, {"r", "1"}});
  put("n2", {{"b", "2"}, {"r", "2"}});
  EXPECT_THAT(check_labels(cluster.tree()), IsEmpty());
}

TEST_F(CensusTest, each_kind_of_wrong_label_is_found) {
  put("n1", {{"b", "1"}, {"r", "same"}});
  put("n2", {{"b", "2"}, {"r", "same"}});
  put("n3", {{"b", "n1"}});
  put("n4", {{"r", "same"}});
  using Kind = LabelProblem::Kind;
  EXPECT_THAT(check_labels(cluster.tree()),
              ElementsAre(LabelProblem{Kind::kMissing, 0, "", {"n4"}}, LabelProblem{Kind::kNodeName, 0, "n1", {}},
                          LabelProblem{Kind::kMissing, 1, "", {"n3"}},
                          LabelProblem{Kind::kRepeated, 1, "same", {"block 1", "block 2"}}));
}

TEST_F(CensusTest, a_sentence_names_few_of_many_nodes) {
  for (int i = 1; i <= 7; ++i) put("n" + std::to_string(i), {{"b", "1"}});
  const auto problems = check_labels(cluster.tree());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(sentence_of(cluster.tree(), problems[0], 2),
            "7 of 7 nodes have no label r (n1, n2 and 5 more): a job that requires rack cannot use them");
}

}  // namespace
}  // namespace lockstep::placement
