#include "operator/rendezvous/gang_choice.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

using Slots = std::vector<int>;

struct Case {
  const char* what;
  std::vector<Candidate> present;
  std::size_t size;
  Slots chosen;
};

TEST(GangChoice, table) {
  const Case cases[] = {
      {"nobody is there", {}, 3, {}},
      {"all that there are, where they are just enough", {{0}, {1}, {2}}, 3, {0, 1, 2}},
      {"all that there are, where they are too few", {{4}, {1}}, 3, {1, 4}},
      {"at the start the lowest slots", {{3}, {2}, {1}, {0}}, 2, {0, 1}},
      {"a spare takes the place of a lost one", {{0, true}, {2, true}, {3}}, 3, {0, 2, 3}},
      {"the lowest spare first", {{0, true}, {2, true}, {4}, {3}}, 3, {0, 2, 3}},
      {"the replacement of a lost one does not push out who took its place",
       {{0, true}, {1}, {2, true}, {3, true}},
       3,
       {0, 2, 3}},
      {"who stays is in order of slots, not of time", {{5, true}, {1, true}, {0}}, 3, {0, 1, 5}},
      {"a gang that is to be smaller keeps its lowest slots", {{0, true}, {1, true}, {3, true}}, 2, {0, 1}},
      {"a smaller gang keeps its own, whoever has a lower slot", {{0}, {1}, {2, true}}, 1, {2}},
      {"nobody is wanted", {{0, true}}, 0, {}},
  };
  for (const Case& each : cases) EXPECT_EQ(choose_gang(each.present, each.size), each.chosen) << each.what;
}

}  // namespace
}  // namespace lockstep::rendezvous
