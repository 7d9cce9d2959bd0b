// The shipped state machines of the membership protocol, through every choice up to a depth, and at random beyond it.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "tests/operator/rendezvous/explorer_scenarios.h"
#include "tests/sanitizer.h"

namespace lockstep::rendezvous::explorer {
namespace {

std::string to_name(const std::string& words) {
  std::string name;
  for (const char c : words) {
    if (c != ',') name += c == ' ' ? '_' : c;
  }
  return name;
}

class Explorer : public testing::TestWithParam<Scenario> {};

INSTANTIATE_TEST_SUITE_P(Of, Explorer, testing::ValuesIn(shipped_scenarios()),
                         [](const auto& which) { return to_name(which.param.name); });

TEST_P(Explorer, no_choice_breaks_a_rule_and_every_job_finishes_when_faults_stop) {
  const std::size_t most = sanitizer::kOn ? static_cast<std::size_t>(sanitizer::cases(20'000)) : most_states();
  const Outcome outcome = explore(GetParam(), most);
  std::cout << in_words(GetParam(), outcome) << "\n";
  ASSERT_FALSE(outcome.found) << in_words(*outcome.found);
  EXPECT_GT(outcome.states, 100U);
}

class ExplorerWalks : public testing::TestWithParam<Scenario> {};

INSTANTIATE_TEST_SUITE_P(
    Of, ExplorerWalks,
    testing::Values(
        Scenario{.name = "three members", .steps = 3, .root = Scenario::Root::kBoot, .faults = 15, .delays = 15},
        Scenario{.name = "three members in two racks",
                 .steps = 3,
                 .racks = true,
                 .root = Scenario::Root::kBoot,
                 .faults = 15,
                 .delays = 15},
        Scenario{.name = "at least one of three members",
                 .min_slots = 1,
                 .steps = 3,
                 .checkpoints = true,
                 .root = Scenario::Root::kBoot,
                 .faults = 15,
                 .delays = 15},
        Scenario{.name = "at least two of four members",
                 .slots = 4,
                 .min_slots = 2,
                 .steps = 3,
                 .root = Scenario::Root::kBoot,
                 .faults = 15,
                 .delays = 15}),
    [](const auto& which) { return to_name(which.param.name); });

TEST_P(ExplorerWalks, no_long_way_breaks_a_rule_and_every_job_finishes_when_faults_stop) {
  const auto seed = static_cast<unsigned>(from_environment("LOCKSTEP_SEED", std::random_device{}()));
  std::cout << "LOCKSTEP_SEED=" << seed << "\n";
  const auto walks = static_cast<int>(from_environment("LOCKSTEP_EXPLORER_WALKS", sanitizer::cases(300)));
  const Outcome outcome = walk(GetParam(), seed, walks, 500);
  std::cout << GetParam().name << ": " << walks << " walks of up to " << outcome.depth << " choices\n";
  ASSERT_FALSE(outcome.found) << in_words(*outcome.found);
}

}  // namespace
}  // namespace lockstep::rendezvous::explorer
