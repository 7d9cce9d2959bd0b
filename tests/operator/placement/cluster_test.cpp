#include "operator/placement/cluster.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::placement {
namespace {

const Profile kRacks{"racks", {{"rack", "rack"}}};
constexpr const char* kGpu = "nvidia.com/gpu";

NodeRecord gpu_node(const std::string& name, std::int64_t gpus = 8) {
  NodeRecord node;
  node.name = name;
  node.labels = {{"rack", "r1"}};
  node.allocatable = {{"cpu", 96'000}, {kGpu, gpus}, {"pods", 110}};
  node.ready = true;
  return node;
}

Shape gpu_shape(std::int64_t gpus) {
  Shape shape;
  shape.requests = {{kGpu, gpus}, {"pods", 1}};
  return shape;
}

ScannedPod gpu_pod(const std::string& name, const std::string& node, std::int64_t gpus) {
  ScannedPod pod;
  pod.name_space = "x";
  pod.name = name;
  pod.uid = Uid::of(name);
  pod.node = node;
  pod.flags = node.empty() ? 0 : kBound;
  pod.requests = {{kGpu, gpus}, {"pods", 1}};
  return pod;
}

// A cluster whose lists are complete.
class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster.begin_nodes();
    for (const char* name : {"a", "b"}) cluster.put_node(gpu_node(name));
    cluster.end_nodes();
    cluster.begin_pods();
    cluster.end_pods();
  }
  int fit(const std::string& node, ShapeId shape) {
    const auto all = cluster.fit(shape);
    EXPECT_TRUE(all) << all.error().message;
    return all ? (*all)[static_cast<std::size_t>(cluster.tree().find(node))] : -1;
  }
  std::int64_t used(const std::string& node, const std::string& resource = kGpu) {
    for (const NodeAmount& amount : cluster.amounts(cluster.tree().find(node))) {
      if (amount.name == resource) return amount.used;
    }
    return -1;
  }

  Cluster cluster{kRacks};
  const ShapeId two = cluster.acquire(gpu_shape(2));
  const ShapeId eight = cluster.acquire(gpu_shape(8));
};

TEST_F(ClusterTest, fits_whole_nodes_and_fractions) {
  EXPECT_EQ(fit("a", two), 4);
  EXPECT_EQ(fit("a", eight), 1);
  cluster.put_pod(gpu_pod("p", "a", 3));
  EXPECT_EQ(fit("a", two), 2);
  EXPECT_EQ(fit("a", eight), 0);
  EXPECT_EQ(fit("b", eight), 1);
  cluster.remove_pod(gpu_pod("p", "a", 3));
  EXPECT_EQ(fit("a", two), 4);
  EXPECT_EQ(fit("a", eight), 1);
}

TEST_F(ClusterTest, counts_terminating_pods_and_no_terminal_ones) {
  ScannedPod pod = gpu_pod("p", "a", 8);
  pod.flags |= kTerminating;
  cluster.put_pod(pod);
  EXPECT_EQ(fit("a", eight), 0);
  pod.terminal = true;
  cluster.put_pod(pod);
  EXPECT_EQ(fit("a", eight), 1);
  EXPECT_EQ(cluster.pods(), 0U);
}

TEST_F(ClusterTest, counts_a_pod_once_wherever_it_goes) {
  cluster.put_pod(gpu_pod("p", "", 8));
  EXPECT_EQ(used("a") + used("b"), 0) << "a pod without a node takes nothing";
  cluster.put_pod(gpu_pod("p", "a", 8));
  cluster.put_pod(gpu_pod("p", "a", 8));
  EXPECT_EQ(used("a"), 8);
  cluster.put_pod(gpu_pod("p", "b", 4));
  EXPECT_EQ(used("a"), 0);
  EXPECT_EQ(used("b"), 4);
}

TEST_F(ClusterTest, respects_the_limit_of_pods_per_node) {
  NodeRecord node = gpu_node("a");
  node.allocatable = {{kGpu, 8}, {"pods", 3}};
  cluster.put_node(node);
  EXPECT_EQ(fit("a", two), 3);
  cluster.put_pod(gpu_pod("p", "a", 0));
  EXPECT_EQ(fit("a", two), 2);
}

TEST_F(ClusterTest, a_node_that_may_not_be_used_fits_nothing) {
  const auto with = [&](auto change) {
    NodeRecord node = gpu_node("a");
    change(node);
    cluster.put_node(node);
    return fit("a", two);
  };
  EXPECT_EQ(with([](NodeRecord& node) { node.ready = false; }), 0);
  EXPECT_EQ(with([](NodeRecord& node) { node.unschedulable = true; }), 0);
  EXPECT_EQ(with([](NodeRecord& node) { node.out_of_service = true; }), 0);
  EXPECT_EQ(with([](NodeRecord& node) { node.taints = {{"t", "", "NoSchedule"}}; }), 0);
  EXPECT_EQ(with([](NodeRecord& node) { node.taints = {{"t", "", "NoExecute"}}; }), 0);
  EXPECT_EQ(with([](NodeRecord& node) { node.allocatable = {{"pods", 9}}; }), 0);
  EXPECT_EQ(with([](NodeRecord&) {}), 4);
  Shape tolerant = gpu_shape(2);
  tolerant.tolerations = {{"t", true, "", ""}};
  const ShapeId id = cluster.acquire(tolerant);
  EXPECT_EQ(with([](NodeRecord& node) { node.taints = {{"t", "", "NoSchedule"}}; }), 0);
  EXPECT_EQ(fit("a", id), 4);
}

TEST_F(ClusterTest, pods_may_be_known_before_their_node) {
  cluster.put_pod(gpu_pod("p", "c", 6));
  cluster.put_node(gpu_node("c"));
  EXPECT_EQ(fit("c", two), 1);
  cluster.remove_node("c");
  cluster.remove_node("c");
  EXPECT_EQ(cluster.pods(), 1U);
  cluster.put_node(gpu_node("c"));
  EXPECT_EQ(fit("c", two), 1) << "the pod is still there";
  cluster.remove_node("c");
  cluster.put_node(gpu_node("d"));
  EXPECT_EQ(fit("d", two), 4) << "the id of c is used again, its pods are not";
}

TEST_F(ClusterTest, a_resource_that_a_node_gets_later_was_taken_before) {
  NodeRecord bare = gpu_node("a");
  bare.allocatable = {{"cpu", 96'000}, {"pods", 110}};
  cluster.put_node(bare);
  cluster.put_pod(gpu_pod("p", "a", 6));
  EXPECT_EQ(fit("a", two), 0);
  cluster.put_node(gpu_node("a"));
  EXPECT_EQ(fit("a", two), 1);
}

TEST_F(ClusterTest, a_list_takes_away_what_it_does_not_hold) {
  cluster.put_pod(gpu_pod("p", "a", 8));
  cluster.put_pod(gpu_pod("q", "b", 8));
  cluster.begin_pods();
  cluster.put_pod(gpu_pod("q", "b", 8));
  EXPECT_EQ(used("a"), 8) << "until the list is complete";
  cluster.begin_pods();  // the first one broke off
  cluster.put_pod(gpu_pod("q", "b", 8));
  cluster.end_pods();
  EXPECT_EQ(used("a"), 0);
  EXPECT_EQ(used("b"), 8);
  cluster.begin_pods();
  cluster.end_pods(false);
  EXPECT_EQ(used("b"), 8) << "a list with an item that cannot be read takes nothing away";

  cluster.begin_nodes();
  cluster.put_node(gpu_node("b"));
  cluster.end_nodes();
  EXPECT_EQ(cluster.tree().find("a"), kNone);
  EXPECT_EQ(used("b"), 8);
}

TEST_F(ClusterTest, answers_nothing_before_both_lists_are_there) {
  Cluster fresh(kRacks);
  const ShapeId shape = fresh.acquire(gpu_shape(1));
  EXPECT_EQ(fresh.fit(shape).error().message, "the nodes are not listed yet");
  fresh.begin_nodes();
  fresh.end_nodes();
  EXPECT_EQ(fresh.fit(shape).error().message, "the pods are not listed yet");
  fresh.begin_pods();
  fresh.end_pods();
  EXPECT_TRUE(fresh.fit(shape));
}

TEST_F(ClusterTest, a_new_selector_waits_for_nodes_with_its_label) {
  Shape shape = gpu_shape(2);
  shape.node_selector = {{"pool", "gold"}};
  const ShapeId id = cluster.acquire(shape);
  EXPECT_EQ(cluster.fit(id).error().message, "the nodes are not listed yet with their label pool");
  EXPECT_EQ(fit("a", two), 4) << "other shapes are answered meanwhile";
  EXPECT_TRUE(cluster.wants_node_list());
  EXPECT_TRUE(cluster.label_keys().contains("pool"));
  cluster.begin_nodes();
  NodeRecord gold = gpu_node("a");
  gold.labels["pool"] = "gold";
  cluster.put_node(gold);
  cluster.put_node(gpu_node("b"));
  cluster.end_nodes();
  EXPECT_FALSE(cluster.wants_node_list());
  EXPECT_EQ(fit("a", id), 4);
  EXPECT_EQ(fit("b", id), 0);
  cluster.release(id);
  EXPECT_FALSE(cluster.label_keys().contains("pool"));
  EXPECT_TRUE(cluster.label_keys().contains("rack"));
  EXPECT_TRUE(cluster.label_keys().contains("topology.kubernetes.io/zone"));
}

TEST_F(ClusterTest, a_shape_may_name_its_nodes) {
  Shape shape = gpu_shape(2);
  shape.terms = {{{{}, {{"metadata.name", Relation::kIn, {"b"}}}}}};
  const ShapeId id = cluster.acquire(shape);
  EXPECT_EQ(fit("a", id), 0);
  EXPECT_EQ(fit("b", id), 4);
}

TEST_F(ClusterTest, equal_shapes_share_an_id_until_the_last_release) {
  const ShapeId again = cluster.acquire(gpu_shape(2));
  EXPECT_EQ(again, two);
  cluster.release(again);
  EXPECT_EQ(fit("a", two), 4);
}

TEST_F(ClusterTest, host_ports_of_jobs_share_no_node) {
  Shape shape = gpu_shape(2);
  shape.host_ports = true;
  const ShapeId id = cluster.acquire(shape);
  EXPECT_EQ(fit("a", id), 1);
  ScannedPod pod = gpu_pod("p", "a", 2);
  pod.flags |= kHostPorts;
  cluster.put_pod(pod);
  EXPECT_EQ(fit("a", id), 1) << "ports of others are kube-scheduler's to compare";
  pod.job = Uid::of("job");
  cluster.put_pod(pod);
  EXPECT_EQ(fit("a", id), 0);
  EXPECT_EQ(fit("a", two), 3);
  EXPECT_TRUE(cluster.holds(cluster.tree().find("a"), id));
  cluster.reserve("x/q", cluster.tree().find("b"), id);
  EXPECT_EQ(fit("b", id), 0);
}

TEST_F(ClusterTest, a_reservation_ends_when_its_pod_is_seen) {
  const auto pod = [](const std::string& node, std::uint16_t flags) {
    ScannedPod made = gpu_pod("p", node, 8);
    made.job = Uid::of("job");
    made.flags = flags;
    return made;
  };
  cluster.reserve("x/p", cluster.tree().find("a"), eight);
  EXPECT_EQ(fit("a", eight), 0);
  cluster.put_pod(pod("", kGated));
  EXPECT_EQ(cluster.reservations(), 1U) << "the pod does not show its node yet";
  cluster.put_pod(pod("a", kGated));
  EXPECT_EQ(cluster.reservations(), 0U);
  EXPECT_EQ(used("a"), 8) << "counted once";

  cluster.reserve("x/p", cluster.tree().find("b"), eight);
  cluster.put_pod(pod("a", kGated));
  EXPECT_EQ(cluster.reservations(), 1U) << "an event from before the second decision";
  cluster.put_pod(pod("a", kBound));
  EXPECT_EQ(cluster.reservations(), 0U) << "bound elsewhere";
  EXPECT_EQ(used("b"), 0);

  cluster.reserve("x/p", cluster.tree().find("b"), eight);
  cluster.remove_pod(pod("a", kBound));
  EXPECT_EQ(cluster.reservations(), 0U);
  EXPECT_EQ(used("a") + used("b"), 0);
}

TEST_F(ClusterTest, a_reservation_ends_when_its_write_is_passed) {
  cluster.observe("99");
  const NodeId a = cluster.tree().find("a");
  for (const char* pod : {"x/p", "x/q", "x/r"}) cluster.reserve(pod, a, two);
  cluster.written("x/p", "102");
  cluster.written("x/q", "1000");
  cluster.observe("101");
  EXPECT_EQ(used("a"), 6);
  cluster.observe("102");
  EXPECT_EQ(used("a"), 4);
  cluster.observe("999");
  EXPECT_EQ(used("a"), 4) << "999 is before 1000";
  cluster.observe("1000");
  EXPECT_EQ(used("a"), 2) << "x/r has not been written";
  cluster.written("x/r", "500");
  EXPECT_EQ(used("a"), 0) << "the watch was faster than the answer";
  cluster.reserve("x/p", a, two);
  cluster.written("x/p", "2000");
  cluster.reserve("x/p", cluster.tree().find("b"), two);
  cluster.observe("2000");
  EXPECT_EQ(used("a"), 0);
  EXPECT_EQ(used("b"), 2) << "the second reservation waits for its own write";
  cluster.unreserve("x/p");
  cluster.unreserve("x/p");
  EXPECT_EQ(used("b"), 0);
}

TEST_F(ClusterTest, reservations_survive_lists_and_the_loss_of_their_node) {
  cluster.reserve("x/p", cluster.tree().find("a"), eight);
  cluster.begin_pods();
  cluster.end_pods();
  EXPECT_EQ(used("a"), 8);
  cluster.remove_node("a");
  cluster.put_node(gpu_node("c"));
  EXPECT_EQ(used("c"), 0);
  cluster.put_node(gpu_node("a"));
  EXPECT_EQ(used("a"), 8);
  cluster.unreserve("x/p");
  EXPECT_EQ(used("a"), 0);
}

TEST_F(ClusterTest, holds_as_long_as_nobody_else_took_the_node) {
  const NodeId a = cluster.tree().find("a");
  cluster.put_pod(gpu_pod("mine", "a", 8));
  EXPECT_TRUE(cluster.holds(a, eight));
  cluster.put_pod(gpu_pod("thief", "a", 1));
  EXPECT_FALSE(cluster.holds(a, eight));
  cluster.remove_pod(gpu_pod("thief", "a", 1));
  NodeRecord cordoned = gpu_node("a");
  cordoned.unschedulable = true;
  cluster.put_node(cordoned);
  EXPECT_FALSE(cluster.holds(a, eight));
}

TEST_F(ClusterTest, a_sick_node_takes_no_pod_until_the_sign_is_gone) {
  const NodeId a = cluster.tree().find("a");
  cluster.put_pod(gpu_pod("mine", "a", 2));
  const auto room = fit("a", two);
  ASSERT_GT(room, 0);
  NodeRecord sick = gpu_node("a");
  sick.sickness = "label:state=bad";
  cluster.put_node(sick);
  EXPECT_EQ(fit("a", two), 0);
  EXPECT_EQ(cluster.state(a), NodeState::kSick);
  EXPECT_EQ(cluster.sickness(a), "label:state=bad");
  EXPECT_EQ(used("a"), 2) << "its pods stay";
  cluster.put_node(gpu_node("a"));
  EXPECT_EQ(fit("a", two), room);
  EXPECT_EQ(cluster.sickness(a), "");
  cluster.put_node(sick);
  cluster.remove_node("a");
  cluster.put_node(gpu_node("a"));
  EXPECT_EQ(cluster.sickness(cluster.tree().find("a")), "") << "of the node that had the name before";
}

TEST_F(ClusterTest, huge_amounts_neither_wrap_nor_crash) {
  NodeRecord node = gpu_node("a", kMostUnits);
  cluster.put_node(node);
  EXPECT_EQ(fit("a", two), 110) << "the pod limit";
  for (int i = 0; i < 40; ++i) cluster.put_pod(gpu_pod("p" + std::to_string(i), "a", kMostUnits));
  EXPECT_EQ(fit("a", two), 0);
  EXPECT_EQ(used("a"), kMostUnits);
  for (int i = 0; i < 40; ++i) cluster.remove_pod(gpu_pod("p" + std::to_string(i), "a", kMostUnits));
  EXPECT_EQ(used("a"), 0) << "sums beyond an int64 come back exactly";
  EXPECT_EQ(fit("a", two), 110);
  node.allocatable = {{kGpu, kMostUnits}, {"pods", kMostUnits}};
  cluster.put_node(node);
  EXPECT_EQ(fit("a", two), kMostFit);
}

TEST_F(ClusterTest, empty_nodes_are_judged_without_their_pods) {
  cluster.put_pod(gpu_pod("p", "a", 8));
  const auto empty = cluster.fit_empty(two);
  ASSERT_TRUE(empty);
  EXPECT_EQ((*empty)[static_cast<std::size_t>(cluster.tree().find("a"))], 4);
}

TEST_F(ClusterTest, more_shapes_than_tables_are_all_answered) {
  std::vector<ShapeId> shapes;
  for (std::size_t i = 1; i <= FitTables::kMost + 8; ++i) {
    shapes.push_back(cluster.acquire(gpu_shape(static_cast<std::int64_t>(i))));
  }
  for (int round = 0; round < 3; ++round) {
    cluster.put_pod(gpu_pod("p", "a", round));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(fit("a", shapes[i]), (8 - round) / static_cast<int>(i + 1)) << "shape " << i;
    }
  }
}

TEST_F(ClusterTest, a_journal_that_overflows_is_made_up_by_a_whole_table) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back("n" + std::to_string(i));
  for (const auto& name : names) cluster.put_node(gpu_node(name));
  EXPECT_EQ(fit("a", two), 4);
  for (int round = 0; round < 40; ++round) {
    for (const auto& name : names) cluster.put_pod(gpu_pod("p" + name, name, round % 9));
    EXPECT_EQ(fit("n0", eight), round % 9 == 0 ? 1 : 0);  // reads on, so that each round notes every node
  }
  for (const auto& name : names) EXPECT_EQ(fit(name, two), (8 - 39 % 9) / 2);
}

TEST_F(ClusterTest, a_pod_is_young_until_forty_minutes_after_it_began) {
  constexpr std::int64_t kBegan = 1'700'000'000;
  const auto young = [&](const std::string& node, ShapeId shape) {
    return cluster.rooms(shape).value().young[static_cast<std::size_t>(cluster.tree().find(node))];
  };
  ScannedPod pod = gpu_pod("p", "a", 5);
  pod.started = kBegan;
  cluster.put_pod(pod);
  EXPECT_EQ(young("a", two), 0) << "no time is known";
  cluster.pass_time(kBegan + 60);
  EXPECT_EQ(young("a", two), 3) << "1 fits, 4 would";
  EXPECT_EQ(young("a", eight), 1);
  EXPECT_EQ(young("b", two), 0);
  const auto before = cluster.changes();
  cluster.pass_time(kBegan + 2399);
  EXPECT_EQ(cluster.changes(), before);
  cluster.pass_time(kBegan + 2400);
  EXPECT_NE(cluster.changes(), before);
  EXPECT_EQ(young("a", two), 0);
  cluster.put_pod(gpu_pod("q", "a", 2));
  EXPECT_EQ(young("a", two), 1) << "one that has not begun is young as well";
  cluster.pass_time(kBegan + 100);
  EXPECT_EQ(young("a", two), 4) << "the clock was set back";
}

TEST_F(ClusterTest, a_pod_that_begins_changes_no_decision) {
  constexpr std::int64_t kNow = 1'700'000'000;
  cluster.pass_time(kNow);
  ScannedPod pod = gpu_pod("p", "a", 8);
  cluster.put_pod(pod);
  const auto before = cluster.changes();
  pod.started = kNow;
  cluster.put_pod(pod);
  EXPECT_EQ(cluster.changes(), before);
  cluster.pass_time(kNow + 2400);
  EXPECT_EQ(cluster.rooms(eight).value().young[static_cast<std::size_t>(cluster.tree().find("a"))], 0);
}

TEST_F(ClusterTest, a_reservation_is_young) {
  cluster.pass_time(1'700'000'000);
  cluster.reserve("x/p", cluster.tree().find("a"), eight);
  EXPECT_EQ(cluster.rooms(eight).value().young[static_cast<std::size_t>(cluster.tree().find("a"))], 1);
}

}  // namespace
}  // namespace lockstep::placement
