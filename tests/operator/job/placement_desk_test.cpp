// One placer for all reconcilers: when it answers, and who is told that an answer changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>

#include "operator/base/metrics.h"
#include "operator/job/placement_desk.h"

namespace lockstep::job::placement_desk_test {
namespace {

using placement::Answer;
using placement::Gang;
using placement::SeatState;
using placement::Why;
using std::chrono::seconds;
using ::testing::ElementsAre;

// Nodes with 8 GPUs each, in one rack if nothing else is said.
class Rack final : public ClusterAccess {
 public:
  explicit Rack(int nodes) {
    cluster_.begin_nodes();
    for (int n = 0; n < nodes; ++n) put(n);
    cluster_.end_nodes();
    cluster_.begin_pods();
    cluster_.end_pods();
  }
  void with_cluster(const std::function<void(placement::Cluster&)>& use) override {
    const std::lock_guard guard(mutex_);
    use(cluster_);
  }
  void add_node(int number, const std::string& rack = "r0") {
    with_cluster([&](auto&) { put(number, rack); });
  }
  std::size_t reservations() {
    std::size_t count = 0;
    with_cluster([&](auto& cluster) { count = cluster.reservations(); });
    return count;
  }
  std::size_t openings() {
    std::size_t count = 0;
    with_cluster([&](auto& cluster) { count = cluster.openings(); });
    return count;
  }
  // A pod of others takes all GPUs of the node. It began then, in seconds since 1970.
  void take(const std::string& node, std::uint32_t started = 0) {
    placement::ScannedPod pod;
    pod.uid = placement::Uid::of("other on " + node);
    pod.node = node;
    pod.started = started;
    pod.flags = placement::kBound;
    pod.requests = {{"gpu", 8}, {"pods", 1}};
    with_cluster([&](auto& cluster) { cluster.put_pod(pod); });
  }

 private:
  void put(int number, const std::string& rack = "r0") {
    placement::NodeRecord node;
    node.name = "n" + std::to_string(number);
    node.labels = {{"r", rack}};
    node.allocatable = {{"gpu", 8}, {"pods", 110}};
    node.ready = true;
    cluster_.put_node(node);
  }

  std::mutex mutex_;
  placement::Cluster cluster_{{.name = "test", .levels = {{"rack", "r"}}}};
};

class PlacementDeskTest : public ::testing::Test {
 protected:
  static api::ObjectKey key(const std::string& name) { return {"x", name}; }

  static Gang gang_of(const std::string& name, int pods) {
    Gang gang;
    gang.key = gang.name = name;
    gang.pods = gang.whole = pods;
    for (int slot = 0; slot < pods; ++slot) {
      gang.seats.push_back({.slot = slot, .pod = "x/" + name + std::to_string(slot), .node = {}});
    }
    return gang;
  }
  std::optional<Answer> ask(const Gang& gang, int gpus = 8) {
    placement::Shape shape;
    shape.requests = {{"gpu", gpus}, {"pods", 1}};
    return desk_.ask(key(gang.name), gang, shape);
  }
  std::optional<Answer> ask(const std::string& name, int pods, int gpus = 8) { return ask(gang_of(name, pods), gpus); }

  long decisions() const {
    const std::string text = metrics_.text(), name = "lockstep_placement_seconds_count ";
    return std::stol(text.substr(text.find("\n" + name) + name.size() + 1));
  }
  // Jobs that were told, once there are `count` of them.
  std::vector<std::string> told(std::size_t count) {
    std::unique_lock lock(mutex_);
    told_again_.wait_for(lock, seconds(10), [&] { return told_.size() >= count; });
    return {told_.begin(), told_.end()};
  }

  // Whether this job was told, once or more often.
  bool is_told(const std::string& job) {
    std::unique_lock lock(mutex_);
    return told_again_.wait_for(lock, seconds(10),
                                [&] { return std::find(told_.begin(), told_.end(), job) != told_.end(); });
  }

  Rack rack_{2};
  ManualClock clock_;
  MetricsRegistry metrics_;
  std::set<std::string> expected_;
  std::mutex mutex_;
  std::condition_variable told_again_;
  std::vector<std::string> told_;  // protected by mutex_
  PlacementDesk desk_{rack_, clock_, metrics_, [this] { return expected_; },
                      [this](const api::ObjectKey& job) {
                        const std::lock_guard guard(mutex_);
                        told_.push_back(job.name);
                        told_again_.notify_all();
                      }};
};

TEST_F(PlacementDeskTest, answers_the_gang_that_asks) {
  const auto answer = ask("a", 2);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->nodes.size(), 2u);
  EXPECT_TRUE(told(0).empty()) << "who asks has its answer";
}

TEST_F(PlacementDeskTest, prefers_the_rack_whose_pods_have_run_for_longer) {
  for (int node : {2, 3}) rack_.add_node(node, "r1");
  const auto now = static_cast<std::uint32_t>(std::chrono::system_clock::to_time_t(clock_.wall_now()));
  rack_.take("n0", now - 60);
  rack_.take("n2", now - 3 * 3600);
  EXPECT_EQ(ask("a", 1)->nodes.at(0), "n3") << "n0 may soon be free, and n1 with it";
  desk_.withdraw("a");
  clock_.advance(std::chrono::minutes(40));
  EXPECT_EQ(ask("a", 1)->nodes.at(0), "n1") << "both racks have run for long: the first by name";
}

TEST_F(PlacementDeskTest, gives_a_node_until_the_answer_is_another_one) {
  const auto answer = ask("a", 1);
  ASSERT_TRUE(answer);
  const std::string node = answer->nodes.at(0);
  EXPECT_TRUE(desk_.gives("a", 0, node));
  EXPECT_FALSE(desk_.gives("a", 1, node)) << "a slot that it does not have";
  EXPECT_FALSE(desk_.gives("a", 0, "elsewhere"));
  EXPECT_FALSE(desk_.gives("b", 0, node)) << "a gang that never asked";
  desk_.withdraw("a");
  EXPECT_FALSE(desk_.gives("a", 0, node));
}

TEST_F(PlacementDeskTest, opens_a_pod_where_its_node_has_room_and_else_chooses_another_node) {
  const auto answer = ask("a", 1);
  ASSERT_TRUE(answer);
  const placement::Opening opening{.slot = 0, .pod = "x/a0", .uid = "", .node = answer->nodes.at(0)};
  EXPECT_FALSE(desk_.open("b", opening)) << "a gang that never asked";
  EXPECT_TRUE(desk_.open("a", opening));
  EXPECT_EQ(rack_.openings(), 1u);
  desk_.opened(opening, "", "");
  EXPECT_EQ(rack_.openings(), 0u);
  rack_.take(opening.node);
  desk_.start();
  EXPECT_FALSE(desk_.open("a", opening));
  EXPECT_TRUE(is_told("a")) << "twice, if it decided between take() and open()";
  EXPECT_NE(ask("a", 1)->nodes.at(0), opening.node);
}

TEST_F(PlacementDeskTest, decides_once_for_all_openings_that_it_refuses) {
  const placement::Opening opening{.slot = 0, .pod = "x/a0", .uid = "", .node = ask("a", 1)->nodes.at(0)};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ask("waits" + std::to_string(i), 2)->nodes.empty());
  rack_.take(opening.node);
  const auto before = decisions();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(desk_.open("a", opening));
  EXPECT_EQ(decisions(), before);
  EXPECT_NE(ask("a", 1)->nodes.at(0), opening.node);
  EXPECT_EQ(decisions(), before + 1);
}

// The place that was opened is not the one where the pod is.
TEST_F(PlacementDeskTest, decides_again_when_the_answer_to_a_write_frees_room) {
  desk_.start();
  const auto answer = ask("a", 1);
  ASSERT_TRUE(answer);
  const placement::Opening opening{.slot = 0, .pod = "x/a0", .uid = "", .node = answer->nodes.at(0)};
  ASSERT_TRUE(desk_.open("a", opening));
  rack_.take(opening.node == "n0" ? "n1" : "n0");
  rack_.with_cluster([](auto& cluster) { cluster.observe("20"); });
  ASSERT_TRUE(ask("b", 1)->nodes.empty());
  desk_.opened(opening, "uid", "20");
  EXPECT_TRUE(is_told("b"));
}

TEST_F(PlacementDeskTest, decides_nothing_before_all_jobs_of_the_start_have_asked_or_withdrawn) {
  expected_ = {"a", "b", "c"};
  EXPECT_FALSE(ask("a", 2));
  EXPECT_FALSE(ask("b", 2));
  EXPECT_TRUE(told(0).empty());
  desk_.withdraw("c");
  EXPECT_THAT(told(2), ElementsAre("a", "b"));
  EXPECT_EQ(ask("a", 2)->nodes.size(), 2u);
  EXPECT_EQ(ask("b", 2)->wait.why, Why::kNoRoom);
}

TEST_F(PlacementDeskTest, waits_for_no_job_that_is_gone_before_it_asked) {
  expected_ = {"a", "gone"};
  EXPECT_FALSE(ask("a", 2));
  expected_ = {"a"};
  desk_.withdraw("");
  EXPECT_THAT(told(1), ElementsAre("a"));
}

TEST_F(PlacementDeskTest, tells_the_gang_that_waited_when_another_leaves) {
  ASSERT_EQ(ask("a", 2)->nodes.size(), 2u);
  ASSERT_TRUE(ask("b", 2)->nodes.empty());
  desk_.withdraw("a");
  EXPECT_THAT(told(1), ElementsAre("b"));
  EXPECT_EQ(ask("b", 2)->nodes.size(), 2u);
}

TEST_F(PlacementDeskTest, decides_again_when_the_cluster_has_changed) {
  desk_.start();
  ASSERT_TRUE(ask("a", 3)->nodes.empty());
  rack_.add_node(2);
  desk_.cluster_changed();
  EXPECT_THAT(told(1), ElementsAre("a"));
  EXPECT_EQ(ask("a", 3)->nodes.size(), 3u);
}

TEST_F(PlacementDeskTest, decides_again_when_time_alone_changes_an_answer) {
  desk_.start();
  // A gang that has reserved nodes and never gets pods gives them back after its timeout.
  ASSERT_EQ(ask("a", 2)->nodes.size(), 2u);
  ASSERT_TRUE(ask("b", 2)->nodes.empty());
  clock_.advance(placement::Gang().timeout + seconds(1));
  EXPECT_THAT(told(2), ::testing::UnorderedElementsAre("a", "b"));
}

TEST_F(PlacementDeskTest, follows_a_job_whose_pods_need_more) {
  ASSERT_EQ(ask("a", 2, 4)->nodes.size(), 2u);
  EXPECT_EQ(rack_.reservations(), 2u);
  desk_.withdraw("a");
  EXPECT_EQ(rack_.reservations(), 0u);
  EXPECT_TRUE(ask("a", 2, 9)->nodes.empty());
}

TEST_F(PlacementDeskTest, says_what_the_nodes_are_short_of) {
  EXPECT_EQ(ask("a", 2, 9)->wait.obstacles, "of 2 nodes: insufficient gpu on 2");
  ASSERT_EQ(ask("b", 1)->nodes.size(), 1u);
  EXPECT_EQ(ask("c", 2)->wait.obstacles, "of 2 nodes: insufficient gpu on 1");
}

TEST_F(PlacementDeskTest, says_that_a_free_node_is_kept_for_another_gang) {
  ASSERT_EQ(ask("a", 1, 4)->nodes.size(), 1u);
  ASSERT_EQ(ask("big", 2)->wait.why, Why::kNoRoom);
  const Answer small = *ask("small", 1);
  EXPECT_EQ(small.wait.behind, "big");
  EXPECT_EQ(small.wait.obstacles, "of 2 nodes: kept free or avoided on 2");
}

TEST_F(PlacementDeskTest, says_that_a_node_already_has_a_pod_of_an_exclusive_gang) {
  Gang gang = gang_of("a", 2);
  gang.constraint.exclusive = true;
  gang.seats[0].state = SeatState::kBound;
  gang.seats[0].node = "n0";
  gang.seats[0].version = "1";
  ASSERT_EQ(ask(gang, 4)->nodes.at(1), "n1");
  desk_.withdraw("a");
  rack_.with_cluster([](auto& cluster) { cluster.observe("1"); });  // and the pod is gone
  ASSERT_EQ(ask("other", 1)->nodes.at(0), "n0");
  gang.seats[0].node = "n1";
  EXPECT_EQ(ask(gang, 4)->wait.obstacles, "of 2 nodes: insufficient gpu on 1, a pod of the job is there on 1");
}

TEST_F(PlacementDeskTest, stops_while_it_waits) {
  desk_.start();
  desk_.stop();
  EXPECT_EQ(ask("a", 2)->nodes.size(), 2u);
}

}  // namespace
}  // namespace lockstep::job::placement_desk_test
