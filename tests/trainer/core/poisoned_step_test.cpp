// A step whose all-reduce is aborted, over the fake of NCCL: its kernels end early and leave NaN, and work queued
// behind them runs. The step must fail, and the state must stay as it was. A step with a bug (trainer/core/mutation.h)
// shows that this test would notice; this program is compiled with mutations for it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "tests/trainer/comm/fake_nccl.h"
#include "tests/trainer/core/gang.h"
#include "trainer/data/generated.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::Rank;
using testing::Recipe;

Recipe recipe(bool deterministic) {
  return {.graph = [] { return models::mlp({.batch = 4, .width = 24, .layers = 2}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.rule = core::AdamW{}},
          .options = {.seed = 3, .micro_batches = 6, .buckets = {.first_bytes = 512, .bytes = 2048}},
          .deterministic = deterministic};
}

// Two ranks make a step, then one of which an all-reduce breaks. Returns how many of them took the second step as made,
// or hold another state than before it.
int harmed(bool deterministic, bool early) {
  comm::RingOptions base;
  auto setup = comm::make_nccl_setup(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY, 0);
  if (!setup) return 99;
  base.nccl = *setup;
  auto ranks = comm::make_in_process_ring(2, false, base);
  if (!ranks) return 99;
  std::atomic<int> count{0};
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Rank rank(recipe(deterministic), *(*ranks)[i]);
      auto whole = rank.replica->step({});
      if (!whole || !whole->committed) count = 99;
      const Bytes before = bytes_of(rank.replica->state());
      // Both are between their steps when one of them gets its breakage.
      if (++ready == 2) fake_nccl_break_next(1, 6, early);
      while (ready < 2) std::this_thread::yield();
      auto broken = rank.replica->step({});
      const bool told = broken.ok() && broken->committed;
      if (told || bytes_of(rank.replica->state()) != before) ++count;
    });
  }
  for (auto& thread : threads) thread.join();
  return count;
}

TEST(PoisonedStep, an_aborted_all_reduce_changes_no_parameter) {
  for (const bool deterministic : {false, true}) {
    for (const bool early : {false, true}) {
      EXPECT_EQ(harmed(deterministic, early), 0)
          << "deterministic " << deterministic << ", kernels end early " << early;
    }
  }
}

TEST(PoisonedStep, a_step_that_applies_what_a_broken_collective_left_is_noticed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // the mutation is looked up once in a process
  EXPECT_EXIT(
      {
        ::setenv("TRAINER_MUTATION", "kApplyBroken", 1);
        std::_Exit(harmed(true, true));
      },
      ::testing::ExitedWithCode(2), "");
}

}  // namespace
}  // namespace lockstep::trainer
