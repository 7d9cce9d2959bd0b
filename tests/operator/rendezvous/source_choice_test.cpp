#include "operator/rendezvous/source_choice.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

StateVersion version(std::int64_t generation, std::int64_t step, const char* digest) {
  return {generation, step, digest};
}

struct Choices {
  const char* what;
  std::vector<HeldState> held;
  int ranks;
  std::optional<CheckpointReport> checkpoint;
  StateSource source;
};

TEST(SourceChoice, table) {
  const StateVersion a = version(1, 7, "a"), b = version(1, 7, "b"), later = version(2, 6, "c");
  const Choices cases[] = {
      {"nobody holds anything", {}, 2, {}, {-1, {}, false}},
      {"all hold the same", {{0, a}, {1, a}}, 2, {}, {0, a, false}},
      {"one holds nothing: from right before it in the ring", {{0, a}, {1, a}, {3, a}}, 4, {}, {1, a, true}},
      {"a later generation comes before more steps", {{0, a}, {1, later}}, 2, {}, {1, later, true}},
      {"other bits of the same step: those of most", {{0, a}, {1, b}, {2, b}}, 3, {}, {2, b, true}},
      {"as many of each: those of the lowest rank", {{0, b}, {1, a}}, 2, {}, {0, b, true}},
      {"a checkpoint of a later step", {{0, a}}, 2, CheckpointReport{"s", 8, 1, "d"}, {-1, {}, false}},
      {"a checkpoint of the same step", {{0, a}, {1, a}}, 2, CheckpointReport{"s", 7, 1, "d"}, {0, a, false}},
  };
  for (const Choices& each : cases) {
    EXPECT_EQ(choose_source(each.held, each.ranks, each.checkpoint).source, each.source) << each.what;
  }
}

TEST(SourceChoice, replicas_that_differ_are_told_of_with_what_each_rank_holds) {
  const StateVersion a = version(1, 7, "a"), b = version(1, 7, "b");
  EXPECT_EQ(choose_source({{0, a}, {1, b}, {2, a}}, 3, {}).divergence,
            "replicas of step 7 of generation 1 differ (ranks 0, 2 with digest a; rank 1 with digest b); rank 0 "
            "gives its own to all");
}

TEST(SourceChoice, states_of_other_steps_are_no_divergence) {
  EXPECT_EQ(choose_source({{0, version(1, 7, "a")}, {1, version(1, 6, "b")}}, 2, {}).divergence, "");
}

TEST(SourceChoice, of_many_ranks_only_some_are_named) {
  std::vector<HeldState> held;
  for (int rank = 0; rank < 30; ++rank) held.push_back({rank, version(1, 7, rank == 29 ? "b" : "a")});
  EXPECT_NE(choose_source(held, 30, {}).divergence.find("6, 7 and 21 more with digest a"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::rendezvous
