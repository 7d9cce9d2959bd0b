#include "operator/rendezvous/start_choice.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

using Lines = std::vector<IdentityRun>;

// Slots with 2 ranks each, of which these have said these lines.
LateStart late_of(const std::vector<std::pair<int, Lines>>& slots, bool together = true) {
  std::vector<StartingMember> missing;
  for (const auto& [slot, lines] : slots) missing.push_back({slot, 2 * slot, "a-" + std::to_string(slot), &lines});
  return choose_late(missing, together);
}

TEST(StartChoice, blames_the_rank_that_has_not_loaded) {
  struct Row {
    const char* what;
    std::vector<std::pair<int, Lines>> slots;
    bool together;
    int slot, rank;
    const char* who;
  };
  const Lines loaded = {{2, "model=mlp"}}, half = {{1, "model=mlp"}, {1, ""}};
  const std::vector<Row> rows = {
      {"one loads while others wait for it", {{0, loaded}, {1, loaded}, {2, {}}}, true, 2, 4, "slot 2 (pod a-2)"},
      {"the second process of a pod loads", {{0, loaded}, {1, half}, {2, loaded}}, true, 1, 3, "slot 1 (pod a-1)"},
      {"two load", {{0, loaded}, {1, half}, {2, {}}}, true, 1, 3, "slots 1, 2"},
      {"all load", {{0, {}}, {1, {}}}, true, -1, -1, "slots 0, 1"},
      {"all have loaded", {{0, loaded}, {1, loaded}}, true, -1, -1, "slots 0, 1"},
      {"the others are up, and it loads", {{1, half}}, true, 1, 3, "slot 1 (pod a-1)"},
      {"the others are up, and it has loaded", {{1, loaded}}, true, 1, 2, "slot 1 (pod a-1)"},
      {"each comes up by itself", {{1, {}}, {2, loaded}}, false, 1, 2, "slots 1, 2"},
  };
  for (const Row& row : rows) {
    const LateStart late = late_of(row.slots, row.together);
    EXPECT_EQ(late.slot, row.slot) << row.what;
    EXPECT_EQ(late.rank, row.rank) << row.what;
    EXPECT_EQ(late.who, row.who) << row.what;
  }
}

TEST(StartChoice, names_some_of_many) {
  std::vector<std::pair<int, Lines>> slots;
  for (int slot = 0; slot < 4096; ++slot) slots.emplace_back(slot, Lines());
  EXPECT_EQ(late_of(slots).who, "slots 0, 1, 2, 3, 4, 5, 6, 7 and 4088 more");
}

}  // namespace
}  // namespace lockstep::rendezvous
