// The protocol under random faults in virtual time: no seed may violate an invariant, and every job must recover.
// membership_mutation_test.cpp shows that the invariants notice a broken protocol.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/operator/rendezvous/simulated_world.h"
#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

constexpr int kWorlds = sanitizer::cases(150);

unsigned first_seed() {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::cout << "LOCKSTEP_SEED=" << seed << "\n";
  return seed;
}

struct Form {
  const char* name;
  WorldOptions world;
};
class Membership : public testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(Processes, Membership,
                         testing::Values(Form{"restart", {.regroups = false}}, Form{"stay", {.regroups = true}},
                                         Form{"restart_with_fewer", {.regroups = false, .elastic = true}},
                                         Form{"stay_with_fewer", {.regroups = true, .elastic = true}},
                                         Form{"restart_with_spares", {.regroups = false, .spares = true}},
                                         Form{"stay_with_fewer_and_spares",
                                              {.regroups = true, .elastic = true, .spares = true}}),
                         [](const auto& which) { return std::string(which.param.name); });

TEST_P(Membership, invariants_hold_under_faults_and_every_job_recovers_and_finishes) {
  const unsigned first = first_seed();
  int generations = 0, starts = 0, warm = 0, smaller = 0, partly_kept = 0, released = 0;
  std::int64_t commits = 0, kept = 0, transfers = 0, yields = 0;
  for (unsigned i = 0; i < kWorlds; ++i) {
    SimulatedWorld world(first + i, GetParam().world);
    world.disturb(20);
    ASSERT_EQ(world.violation(), "") << "LOCKSTEP_SEED=" << first + i;
    ASSERT_TRUE(world.reaches(40, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    const std::int64_t before = world.training().commits();
    ASSERT_TRUE(world.reaches(10, [&] { return world.training().commits() > before; }))
        << "LOCKSTEP_SEED=" << first + i << " trains no more: " << world.describe();
    world.finish_all_processes();
    ASSERT_TRUE(world.reaches(40, [&] { return world.all_left_with_zero(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    ASSERT_EQ(world.leader_view()->phase, Phase::kFinished) << "LOCKSTEP_SEED=" << first + i;
    ASSERT_EQ(world.violation(), "") << "LOCKSTEP_SEED=" << first + i;
    generations += world.generations();
    starts += world.starts();
    warm += world.warm_starts();
    smaller += world.smaller();
    partly_kept += world.partly_kept();
    released += world.released();
    commits += world.training().commits();
    kept += world.training().kept();
    transfers += world.training().transfers();
    yields += world.training().yields();
  }
  std::cout << kWorlds << " worlds, " << generations << " generations recorded, " << starts << " members started, "
            << warm << " started warm, " << kept << " processes kept (" << partly_kept
            << " times beside new ones of their pod), " << transfers << " states sent, " << commits << " commits, "
            << smaller << " generations with fewer, " << yields << " ended in band, " << released << " pods released\n";
  EXPECT_GT(commits, 0);
  if (!sanitizer::kOn) {
    EXPECT_EQ(kept > 0, GetParam().world.regroups);
    EXPECT_EQ(partly_kept > 0, GetParam().world.regroups);
    EXPECT_EQ(smaller > 0, GetParam().world.elastic);
    EXPECT_GT(warm, 0);
    EXPECT_EQ(yields > 0, GetParam().world.elastic && GetParam().world.regroups);
    EXPECT_EQ(released > 0, GetParam().world.elastic);
  }
}

// Without spares: processes that stand by are not watched. Nobody who does not hang is ever ended for it (the world
// says so), and everybody who does is, whatever else happens.
TEST_P(Membership, under_faults_every_hung_rank_is_ended_and_no_other) {
  const unsigned first = first_seed();
  int aborted = 0;
  for (unsigned i = 0; i < kWorlds; ++i) {
    WorldOptions options = GetParam().world;
    options.spares = false;
    options.watched = true;
    SimulatedWorld world(first + i, options);
    world.disturb(10);
    ASSERT_EQ(world.violation(), "") << "LOCKSTEP_SEED=" << first + i;
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(world.reaches(60, [&] { return world.all_up(); }))
          << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
      world.run_for(std::chrono::seconds(1));  // a step
      if (!world.hang()) continue;
      if (round == 1) world.restart_leader();
      ASSERT_TRUE(world.reaches(60, [&] { return !world.anybody_hangs(); }))
          << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
      ASSERT_EQ(world.violation(), "") << "LOCKSTEP_SEED=" << first + i;
    }
    ASSERT_TRUE(world.reaches(60, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    aborted += world.aborted();
  }
  std::cout << kWorlds << " worlds, " << aborted << " processes ended because they hung\n";
  EXPECT_GT(aborted, 0);
}

// One pod is recreated, and not another one for the same cut, though the cut stays as long as both are there; none
// where one of them was left out for another reason.
TEST_P(Membership, of_two_pods_with_a_broken_link_one_is_recreated) {
  const unsigned first = first_seed();
  int cuts = 0, evicted = 0;
  for (unsigned i = 0; i < kWorlds; ++i) {
    SimulatedWorld world(first + i, GetParam().world);
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    const std::int64_t cut = world.leader_view()->generation;
    if (!world.cut_two()) continue;
    ++cuts;
    // One end that was left out for another reason is not taken in again as long as it does not reach the other.
    ASSERT_TRUE(world.reaches(40,
                              [&] {
                                const auto view = world.leader_view();
                                const bool left_out = view && view->message.find("not taken in") != std::string::npos;
                                return view && view->generation > cut &&
                                       (world.all_up() || (view->phase == Phase::kUp && left_out));
                              }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    const std::int64_t before = world.training().commits();
    ASSERT_TRUE(world.reaches(10, [&] { return world.training().commits() > before; }))
        << "LOCKSTEP_SEED=" << first + i << " trains no more: " << world.describe();
    world.run_for(std::chrono::seconds(10));
    ASSERT_EQ(world.violation(), "") << "LOCKSTEP_SEED=" << first + i;
    ASSERT_LE(world.evicted(), 1) << "LOCKSTEP_SEED=" << first + i;
    evicted += world.evicted();
  }
  std::cout << cuts << " cuts, " << evicted << " pods recreated\n";
  EXPECT_GT(cuts, 0);
  EXPECT_GE(evicted, cuts * 8 / 10);
}

TEST_P(Membership, a_coordinator_that_loses_every_member_evicts_none) {
  const unsigned first = first_seed();
  for (unsigned i = 0; i < kWorlds; ++i) {
    SimulatedWorld world(first + i, GetParam().world);
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    const std::int64_t generation = world.leader_view()->generation;
    if (world.members() < 2) continue;  // who is alone is lost: nothing tells the two apart
    const std::int64_t before = world.training().commits();
    world.silence(std::chrono::seconds(20));
    world.run_for(std::chrono::seconds(20));
    ASSERT_GT(world.training().commits(), before + 20) << "LOCKSTEP_SEED=" << first + i;
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    ASSERT_EQ(world.leader_view()->generation, generation) << "LOCKSTEP_SEED=" << first + i;
  }
}

TEST_P(Membership, a_new_coordinator_leaves_a_running_generation_alone) {
  const unsigned first = first_seed();
  for (unsigned i = 0; i < kWorlds; ++i) {
    SimulatedWorld world(first + i, GetParam().world);
    ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }))
        << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    const int starts = world.starts();
    for (int round = 0; round < 3; ++round) {
      world.restart_leader();
      ASSERT_TRUE(world.reaches(20, [&] { return world.all_up(); }))
          << "LOCKSTEP_SEED=" << first + i << " " << world.describe();
    }
    ASSERT_EQ(world.starts(), starts) << "LOCKSTEP_SEED=" << first + i;
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
