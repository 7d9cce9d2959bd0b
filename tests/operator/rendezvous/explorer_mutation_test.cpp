// Each mutation of the membership protocol, and of the model of the trainer, is found, and nothing is found without it.
#include <gtest/gtest.h>

#include <iostream>

#include "operator/rendezvous/mutation.h"
#include "tests/operator/rendezvous/explorer_scenarios.h"

namespace lockstep::rendezvous::explorer {
namespace {

constexpr std::size_t kMostStates = 2'500'000;

class ExplorerOf : public testing::TestWithParam<Mutated> {
 protected:
  ~ExplorerOf() override { kMutation = Mutation::kNone; }
};

INSTANTIATE_TEST_SUITE_P(Mutation, ExplorerOf, testing::ValuesIn(mutated_scenarios()),
                         [](const auto& which) { return std::string(which.param.name); });

TEST_P(ExplorerOf, the_way_to_a_broken_rule_is_found) {
  kMutation = GetParam().mutation;
  const Outcome outcome = explore(GetParam().scenario, kMostStates);
  ASSERT_TRUE(outcome.found) << outcome.states << " states to depth " << outcome.depth;
  EXPECT_FALSE(outcome.lost) << outcome.found->violation;
  std::cout << GetParam().name << " " << in_words(*outcome.found) << "\n";
}

}  // namespace
}  // namespace lockstep::rendezvous::explorer
