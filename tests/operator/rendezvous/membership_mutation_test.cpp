// The random worlds of protocol_property_test.cpp with the state machines broken on purpose: the invariants must
// notice.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "operator/rendezvous/mutation.h"
#include "tests/operator/rendezvous/simulated_world.h"

namespace lockstep::rendezvous {
namespace {

struct Broken {
  Mutation mutation;
  const char* name;
};

class BrokenMembership : public testing::TestWithParam<Broken> {
 protected:
  ~BrokenMembership() override { kMutation = Mutation::kNone; }
};

INSTANTIATE_TEST_SUITE_P(Mutation, BrokenMembership,
                         testing::Values(Broken{Mutation::kGoBeforeRecord, "go_before_record"},
                                         Broken{Mutation::kReadyWhileRunning, "ready_while_running"},
                                         Broken{Mutation::kReuseNumber, "reuse_number"},
                                         Broken{Mutation::kKeepUnasked, "keep_unasked"},
                                         Broken{Mutation::kDisjointSuccessor, "disjoint_successor"},
                                         Broken{Mutation::kNoTransfer, "no_transfer"}),
                         [](const auto& which) { return std::string(which.param.name); });

TEST_P(BrokenMembership, is_noticed_by_the_invariants) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned first =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::cout << "LOCKSTEP_SEED=" << first << "\n";
  kMutation = GetParam().mutation;
  for (unsigned i = 0; i < 3000; ++i) {
    SimulatedWorld world(first + i,
                         {.elastic = i % 2 == 1 || kMutation == Mutation::kDisjointSuccessor, .spares = i % 4 == 0});
    world.disturb(20);
    if (world.violation().empty()) continue;
    std::cout << "noticed in world " << i + 1 << ": " << world.violation() << "\n";
    return;
  }
  FAIL() << "no world noticed the mutation";
}

class BrokenNetworks : public testing::Test {
 protected:
  ~BrokenNetworks() override { kMutation = Mutation::kNone; }
};

TEST_F(BrokenNetworks, a_job_whose_bad_link_costs_nobody_never_goes_on) {
  kMutation = Mutation::kKeepBadLinks;
  for (unsigned seed = 1; seed < 20; ++seed) {
    SimulatedWorld world(seed, {});
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }));
    const std::int64_t generation = world.leader_view()->generation;
    if (!world.cut_two()) continue;
    EXPECT_FALSE(world.reaches(40, [&] { return world.all_up() && world.leader_view()->generation > generation; }));
    return;
  }
  FAIL() << "no world had two pods";
}

TEST_F(BrokenNetworks, blaming_unheard_members_ends_a_generation_that_trains) {
  kMutation = Mutation::kBlameWhenCutOff;
  for (unsigned seed = 1; seed < 20; ++seed) {
    SimulatedWorld world(seed, {});
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }));
    if (world.members() < 2) continue;
    const std::int64_t generation = world.leader_view()->generation;
    world.silence(std::chrono::seconds(20));
    EXPECT_TRUE(world.reaches(40, [&] { return world.all_up() && world.leader_view()->generation > generation; }));
    return;
  }
  FAIL() << "no world had two pods";
}

}  // namespace
}  // namespace lockstep::rendezvous
