// Pods that are about to be bound, between the write and the watch that shows it.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "operator/placement/cluster.h"

namespace lockstep::placement {
namespace {

// One node of 8 GPUs, on which pods of 8 GPUs are opened. What is gated there may take more.
class ClusterOpeningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster.begin_nodes();
    put_node(false);
    cluster.end_nodes();
    cluster.begin_pods();
    cluster.end_pods();
    cluster.observe("10");
  }
  void put_node(bool cordoned) {
    NodeRecord node;
    node.name = "a";
    node.allocatable = {{"gpu", 8}, {"pods", 110}};
    node.ready = true;
    node.unschedulable = cordoned;
    cluster.put_node(node);
  }
  static ScannedPod pod(const std::string& name, std::uint16_t flags, const std::string& uid = "") {
    ScannedPod pod;
    pod.name_space = "x";
    pod.name = name;
    pod.uid = uid_of(name, uid);
    pod.job = Uid::of("job");
    pod.node = "a";
    pod.flags = flags;
    pod.requests = {{"gpu", 8}, {"pods", 1}};
    return pod;
  }
  static Uid uid_of(const std::string& name, const std::string& uid = "") { return Uid::of(uid.empty() ? name : uid); }
  bool open(const std::string& name) { return cluster.open("x/" + name, uid_of(name), node(), shape); }
  bool create(const std::string& name) { return cluster.open("x/" + name, Uid(), node(), shape); }
  void wrote(const std::string& name, const std::string& version) {
    cluster.opened("x/" + name, uid_of(name), version);
  }
  NodeId node() const { return cluster.tree().find("a"); }
  std::int64_t used() const { return cluster.amounts(node()).front().used; }

  Cluster cluster{{"flat", {}}};
  const ShapeId shape = cluster.acquire({.requests = {{"gpu", 8}, {"pods", 1}}});
};

TEST_F(ClusterOpeningTest, of_gated_pods_on_one_node_those_are_opened_that_it_has_room_for) {
  for (const char* name : {"p", "q"}) cluster.put_pod(pod(name, kGated));
  EXPECT_TRUE(open("p"));
  EXPECT_FALSE(open("q")) << "the watch shows p as gated, and it is open";
  EXPECT_TRUE(open("p")) << "asked again, it is not in its own way";
  EXPECT_EQ(cluster.openings(), 1U);
  EXPECT_EQ(used(), 16) << "to be opened takes nothing more";
}

TEST_F(ClusterOpeningTest, a_created_pod_that_the_watch_shows_before_the_answer_counts_once) {
  ASSERT_TRUE(create("p"));
  cluster.put_pod(pod("p", 0));
  cluster.observe("20");
  EXPECT_EQ(used(), 8);
  wrote("p", "20");
  EXPECT_EQ(used(), 8);
  EXPECT_EQ(cluster.openings(), 0U);
}

TEST_F(ClusterOpeningTest, a_pod_whose_write_failed_is_not_open) {
  for (const char* name : {"p", "q"}) cluster.put_pod(pod(name, kGated));
  ASSERT_TRUE(open("p"));
  wrote("p", "");
  EXPECT_EQ(cluster.openings(), 0U);
  EXPECT_TRUE(open("q"));
}

TEST_F(ClusterOpeningTest, a_pod_stays_open_until_the_watch_has_passed_its_write) {
  for (const char* name : {"p", "q"}) cluster.put_pod(pod(name, kGated));
  ASSERT_TRUE(open("p"));
  wrote("p", "20");
  cluster.put_pod(pod("p", kGated | kHostPorts));  // an older version of it
  cluster.observe("19");
  EXPECT_FALSE(open("q"));
  cluster.put_pod(pod("p", 0));
  cluster.observe("20");
  EXPECT_EQ(cluster.openings(), 0U);
  EXPECT_FALSE(open("q")) << "shown without a gate";
  cluster.remove_pod(pod("p", 0));
  EXPECT_TRUE(open("q"));
  wrote("q", "20");
  EXPECT_EQ(cluster.openings(), 0U) << "passed already";
}

TEST_F(ClusterOpeningTest, no_pod_is_opened_where_others_took_the_room_or_the_node_takes_none) {
  cluster.put_pod(pod("p", kGated));
  ScannedPod other = pod("other", kBound);
  other.job = Uid();
  cluster.put_pod(other);
  EXPECT_FALSE(open("p"));
  cluster.remove_pod(other);
  put_node(true);
  EXPECT_FALSE(open("p")) << "cordoned";
  put_node(false);
  EXPECT_TRUE(open("p"));
}

TEST_F(ClusterOpeningTest, a_pod_created_open_keeps_its_place_when_its_predecessor_goes_late) {
  cluster.put_pod(pod("p", kBound, "predecessor"));
  ScannedPod gone = pod("p", kBound, "predecessor");
  gone.terminal = true;
  cluster.reserve("x/p", node(), shape);
  EXPECT_FALSE(create("p")) << "the predecessor is still there";
  cluster.remove_pod(gone);
  EXPECT_EQ(cluster.reservations(), 0U);
  ASSERT_TRUE(create("p"));
  EXPECT_EQ(used(), 8);
  cluster.remove_pod(gone);
  EXPECT_EQ(used(), 8);
  EXPECT_FALSE(create("q"));
  wrote("p", "20");
  cluster.put_pod(pod("p", 0));
  cluster.observe("20");
  EXPECT_EQ(used(), 8);
  EXPECT_EQ(cluster.reservations() + cluster.openings(), 0U);
}

TEST_F(ClusterOpeningTest, an_open_place_cannot_be_given_up_before_its_write_has_ended) {
  cluster.reserve("x/p", node(), shape);
  ASSERT_TRUE(create("p"));
  cluster.unreserve("x/p");
  EXPECT_EQ(used(), 8);
  EXPECT_FALSE(create("q"));
  wrote("p", "");
  EXPECT_EQ(used(), 0);
  EXPECT_TRUE(create("q"));
  cluster.unreserve("x/q");
  wrote("q", "20");
  EXPECT_EQ(used(), 8);
  cluster.observe("20");
  EXPECT_EQ(used(), 0);
}

TEST_F(ClusterOpeningTest, a_pod_that_another_watch_shows_open_counts_until_this_one_does) {
  for (const char* name : {"p", "q"}) cluster.put_pod(pod(name, kGated));
  cluster.shown_open("x/p", uid_of("p"), node(), shape, "10");
  EXPECT_EQ(cluster.openings(), 0U) << "the watch has passed it";
  cluster.shown_open("x/p", uid_of("p"), node(), shape, "20");
  EXPECT_FALSE(open("q"));
  EXPECT_EQ(used(), 16);
  wrote("p", "");
  EXPECT_FALSE(open("q")) << "the answer to its write was lost, and it succeeded";
  cluster.put_pod(pod("p", 0));
  cluster.observe("20");
  EXPECT_EQ(cluster.openings(), 0U);
  EXPECT_FALSE(open("q")) << "shown without a gate";
}

TEST_F(ClusterOpeningTest, a_pod_shown_open_keeps_its_place_when_its_predecessor_goes_late) {
  cluster.put_pod(pod("p", kBound, "predecessor"));
  cluster.shown_open("x/p", uid_of("p"), node(), shape, "20");
  cluster.remove_pod(pod("p", kBound, "predecessor"));
  EXPECT_EQ(used(), 8);
  EXPECT_FALSE(create("q"));
  cluster.put_pod(pod("p", 0));
  cluster.observe("20");
  EXPECT_EQ(used(), 8);
  EXPECT_EQ(cluster.reservations() + cluster.openings(), 0U);
}

// What ends the doubt about a pod whose write was made or not.
TEST_F(ClusterOpeningTest, a_pod_whose_answer_was_lost_counts_as_open_until_it_shows) {
  struct Row {
    const char* what;
    std::function<void()> settle;
    bool leaves_room;
  };
  const std::vector<Row> rows = {
      {"nothing", [] {}, false},
      {"an older version", [&] { cluster.put_pod(pod("p", kGated)); }, false},
      {"it is open", [&] { cluster.put_pod(pod("p", 0)); }, false},
      {"it is gone", [&] { cluster.remove_pod(pod("p", kGated)); }, true},
      {"a list does not have it",
       [&] {
         cluster.begin_pods();
         cluster.put_pod(pod("q", kGated));
         cluster.end_pods();
       },
       true},
      {"its place is given up", [&] { cluster.unreserve("x/p"); }, true},
      {"a second try failed",
       [&] {
         EXPECT_TRUE(open("p"));
         wrote("p", "");
       },
       true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    for (const char* name : {"p", "q"}) cluster.put_pod(pod(name, kGated));
    ASSERT_TRUE(open("p"));
    cluster.opened("x/p", Uid(), std::nullopt);
    cluster.observe("20");
    row.settle();
    EXPECT_EQ(open("q"), row.leaves_room);
    wrote("q", "");
    cluster.unreserve("x/p");
    EXPECT_EQ(cluster.openings() + cluster.reservations(), 0U);
    for (const char* name : {"p", "q"}) cluster.remove_pod(pod(name, 0));
  }
}

TEST_F(ClusterOpeningTest, a_create_whose_answer_was_lost_counts_until_the_pod_shows) {
  ASSERT_TRUE(create("p"));
  cluster.opened("x/p", Uid(), std::nullopt);
  cluster.observe("20");
  EXPECT_FALSE(create("q"));
  cluster.put_pod(pod("p", 0));
  EXPECT_EQ(used(), 8);
  EXPECT_EQ(cluster.openings() + cluster.reservations(), 0U);
  EXPECT_FALSE(create("q"));
}

}  // namespace
}  // namespace lockstep::placement
