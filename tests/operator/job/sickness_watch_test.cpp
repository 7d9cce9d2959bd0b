#include "operator/job/sickness_watch.h"

#include <gtest/gtest.h>

namespace lockstep::job::sickness_watch_test {
namespace {

using namespace std::chrono_literals;

struct Watch {
  ManualClock clock;
  SicknessWatch watch{clock};

  void sicken(const std::string& node) { watch.note(node, "node/" + node, true); }
  bool many(const std::string& node, std::size_t nodes) const { return watch.find(node, nodes)->many; }
};

TEST(SicknessWatch, knows_since_when_a_node_is_sick) {
  Watch s;
  EXPECT_FALSE(s.watch.find("n1", 10));
  s.sicken("n1");
  s.clock.advance(7s);
  s.sicken("n1");
  ASSERT_TRUE(s.watch.find("n1", 10));
  EXPECT_EQ(s.watch.find("n1", 10)->age, 7s);
}

TEST(SicknessWatch, a_node_is_well_when_each_source_says_so) {
  Watch s;
  s.sicken("n1");
  s.watch.note("n1", "pod", true);
  s.watch.note("n1", "node/n1", false);
  EXPECT_TRUE(s.watch.find("n1", 10));
  s.watch.note("n1", "pod", false);
  EXPECT_FALSE(s.watch.find("n1", 10));
  s.watch.note("n1", "pod", false);
}

struct Together {
  int sick;
  std::size_t nodes;
  bool many;
};

class SickTogether : public ::testing::TestWithParam<Together> {};

TEST_P(SickTogether, is_many) {
  const auto& [sick, nodes, many] = GetParam();
  Watch s;
  for (int i = 0; i < sick; ++i) {
    s.sicken("n" + std::to_string(i));
    s.clock.advance(1s);
  }
  for (int i = 0; i < sick; ++i) EXPECT_EQ(s.many("n" + std::to_string(i), nodes), many) << i;
}

// More than 20 % of the nodes, and at least three.
INSTANTIATE_TEST_SUITE_P(SicknessWatch, SickTogether,
                         ::testing::Values(Together{4, 10, true}, Together{3, 10, true}, Together{3, 14, true},
                                           Together{3, 15, false}, Together{2, 3, false}, Together{1, 1, false}),
                         [](const auto& test) {
                           return std::to_string(test.param.sick) + "_of_" + std::to_string(test.param.nodes);
                         });

TEST(SicknessWatch, nodes_that_became_sick_one_by_one_are_not_many) {
  Watch s;
  for (const char* node : {"n1", "n2", "n3", "n4"}) {
    s.sicken(node);
    s.clock.advance(SicknessWatch::kTogether / 2 + 1s);
  }
  EXPECT_FALSE(s.many("n1", 4));
  EXPECT_FALSE(s.many("n4", 4));
}

// As the node of a device does, when the pod that had the device has left.
TEST(SicknessWatch, those_that_are_well_again_count_for_a_minute) {
  Watch s;
  for (const char* node : {"n1", "n2"}) {
    s.sicken(node);
    s.clock.advance(10s);
    s.watch.note(node, std::string("node/") + node, false);
    EXPECT_FALSE(s.watch.find(node, 10));
  }
  s.sicken("n3");
  EXPECT_TRUE(s.many("n3", 10));
  s.clock.advance(SicknessWatch::kTogether + 1s);
  s.sicken("n4");
  EXPECT_FALSE(s.many("n4", 10));
}

TEST(SicknessWatch, a_node_that_becomes_sick_again_and_again_counts_once) {
  Watch s;
  for (int i = 0; i < 5; ++i) {
    s.watch.note("n1", "node/n1", false);
    s.sicken("n1");
  }
  EXPECT_FALSE(s.many("n1", 1));
}

TEST(SicknessWatch, many_stay_many_until_they_are_well) {
  Watch s;
  for (const char* node : {"n1", "n2", "n3"}) s.sicken(node);
  s.clock.advance(10min);
  EXPECT_TRUE(s.many("n2", 10));
  s.watch.note("n2", "node/n2", false);
  s.sicken("n2");
  EXPECT_FALSE(s.many("n2", 10));
  EXPECT_TRUE(s.many("n1", 10));
}

}  // namespace
}  // namespace lockstep::job::sickness_watch_test
