// Each term of the objective, each rule and each shortcut of the dynamic programme is left out or broken in turn
// (mutation.h). The comparison with brute force, or with tables that are computed afresh, must notice.
#include <gtest/gtest.h>

#include "operator/placement/mutation.h"
#include "tests/operator/placement/brute_force.h"
#include "tests/operator/placement/place_history.h"

namespace lockstep::placement {
namespace {

class PlaceMutation : public testing::TestWithParam<Mutation> {
 protected:
  void TearDown() override { kMutation = Mutation::kNothing; }

  // How many of the first instances it takes until one differs; 0: none of them does.
  static int instances_until_noticed(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 1; i <= 60'000; ++i) {
      const Instance instance = random_instance(random);
      const Built b = built(instance);
      if (!difference(instance, place(b.tree, b.request)).empty()) return i;
    }
    return 0;
  }
  static int histories_until_noticed(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 1; i <= 20; ++i) {
      if (!history_difference(random, 100).empty()) return i;
    }
    return 0;
  }
};

TEST_P(PlaceMutation, is_noticed) {
  const std::uint64_t seed = std::random_device{}();
  kMutation = GetParam();
  const bool of_history = kMutation == Mutation::kKeepTables;
  const int noticed = of_history ? histories_until_noticed(seed) : instances_until_noticed(seed);
  EXPECT_GT(noticed, 0) << "seed " << seed;
  std::printf("noticed by %s %d, seed %llu\n", of_history ? "history" : "instance", noticed,
              static_cast<unsigned long long>(seed));
}

INSTANTIATE_TEST_SUITE_P(All, PlaceMutation,
                         testing::Values(Mutation::kAnyLevel, Mutation::kFreeDomains, Mutation::kFreeNodes,
                                         Mutation::kNoHoles, Mutation::kSquareHoles, Mutation::kForgetYoung,
                                         Mutation::kHolesBelowAlone, Mutation::kSurvivorsPay, Mutation::kForgetRequired,
                                         Mutation::kForgetPreferred, Mutation::kForgetExclude,
                                         Mutation::kAllowIncomplete, Mutation::kSharedByCapacity,
                                         Mutation::kConcaveAlways, Mutation::kKeepTables, Mutation::kBoundTooHigh));

TEST(PlaceUnmutated, agrees) {
  std::mt19937_64 random(1);
  const Instance instance = random_instance(random);
  const Built b = built(instance);
  EXPECT_EQ(difference(instance, place(b.tree, b.request)), "");
}

}  // namespace
}  // namespace lockstep::placement
