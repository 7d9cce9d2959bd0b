// How the age of pods reaches a decision: through the cluster's rooms, for every kind of search.
#include "operator/placement/cluster_view.h"

#include <gtest/gtest.h>

namespace lockstep::placement {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;
constexpr std::uint32_t kYoung = kNow - 60, kOld = kNow - 24 * 3600;

// Two racks, r0 and r1, of three nodes with 8 GPUs: r0n0, ..., r1n2.
class ClusterViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster.begin_nodes();
    for (const char* rack : {"r0", "r1"}) {
      for (const char* number : {"n0", "n1", "n2"}) {
        NodeRecord node;
        node.name = std::string(rack) + number;
        node.labels = {{"rack", rack}};
        node.allocatable = {{"gpu", 8}, {"pods", 110}};
        node.ready = true;
        cluster.put_node(node);
      }
    }
    cluster.end_nodes();
    cluster.begin_pods();
    cluster.end_pods();
    cluster.pass_time(kNow);
  }
  void take(const std::string& node, std::uint32_t started, std::int64_t gpus = 8) {
    ScannedPod pod;
    pod.uid = Uid::of("on " + node);
    pod.node = node;
    pod.started = started;
    pod.flags = kBound;
    pod.requests = {{"gpu", gpus}, {"pods", 1}};
    cluster.put_pod(pod);
  }
  NodeId id(const std::string& node) const { return cluster.tree().find(node); }
  // A pod takes a whole node.
  ShapeId whole() {
    Shape shape;
    shape.requests = {{"gpu", 8}, {"pods", 1}};
    return cluster.acquire(shape);
  }
  std::string chosen(Search search) {
    search.shape = whole();
    search.pods = 1;
    const auto placed = view.place(search);
    return placed ? cluster.tree().node_name(placed->nodes.front().first) : "none";
  }

  Cluster cluster{{"racks", {{"rack", "rack"}}}};
  ClusterView view{cluster};
};

TEST_F(ClusterViewTest, a_gang_goes_beside_pods_that_have_run_for_long) {
  take("r0n0", kYoung);
  take("r1n0", kOld);
  EXPECT_EQ(chosen({}), "r1n1");
  cluster.pass_time(kYoung + kYoungSeconds);
  EXPECT_EQ(chosen({}), "r0n1") << "both are old: the first by name";
}

TEST_F(ClusterViewTest, so_does_an_exclusive_one) {
  take("r0n0", kYoung);
  take("r1n0", kOld);
  EXPECT_EQ(chosen({.exclusive = true}), "r1n1");
}

TEST_F(ClusterViewTest, youth_of_the_gang_itself_keeps_its_replacement_from_no_rack) {
  for (const char* node : {"r0n0", "r0n1", "r1n0"}) take(node, kYoung);
  take("r1n1", kOld);
  EXPECT_EQ(chosen({}), "r1n2") << "a stranger avoids the younger rack";
  EXPECT_EQ(chosen({.survivors = {{id("r0n0"), 1}, {id("r0n1"), 1}, {id("r1n0"), 1}}}), "r0n2");
}

TEST_F(ClusterViewTest, the_score_of_a_gang_does_not_depend_on_the_time) {
  for (const char* node : {"r0n0", "r0n1"}) take(node, kYoung);
  const auto score = view.cost(whole(), {{id("r0n0"), 1}});
  ASSERT_TRUE(score);
  cluster.pass_time(kNow + kYoungSeconds);
  EXPECT_EQ(view.cost(whole(), {{id("r0n0"), 1}}), score);
}

TEST_F(ClusterViewTest, a_node_that_has_less_than_its_pods_take_is_priced_all_the_same) {
  take("r0n0", kOld, 16);
  EXPECT_TRUE(view.cost(whole(), {{id("r0n0"), 2}}));
}

}  // namespace
}  // namespace lockstep::placement
