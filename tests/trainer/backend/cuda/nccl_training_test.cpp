// Ranks on fakes of GPUs over the fake of NCCL: gradients are summed where they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/comm/fake_nccl.h"
#include "tests/trainer/core/gang.h"
#include "trainer/comm/device_reducer.h"
#include "trainer/comm/nccl_api.h"
#include "trainer/data/generated.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer::nccl_training_test {
namespace {

using testing::Bytes;
using testing::GangResult;
using testing::Rank;
using testing::Recipe;

// What all ranks handed to their communicators.
struct Handed {
  std::atomic<int> sums{0};                    // of GPU memory
  std::atomic<size_t> largest_of_the_host{0};  // elements of an all-reduce
};

// Forwards to another communicator, and counts. `in_place`: whether it offers what that has for memory of GPUs.
class Counting final : public comm::Communicator, public comm::DeviceReducer {
 public:
  Counting(std::unique_ptr<comm::Communicator> real, bool in_place, Handed& handed)
      : real_(std::move(real)), in_place_(in_place), handed_(handed) {}
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  Result<comm::Ticket> submit(const comm::AllReduce& operation) override {
    size_t before = handed_.largest_of_the_host;
    while (before < operation.count && !handed_.largest_of_the_host.compare_exchange_weak(before, operation.count)) {
    }
    return real_->submit(operation);
  }
  Result<comm::Ticket> submit(const comm::Broadcast& operation) override { return real_->submit(operation); }
  Result<comm::Ticket> submit(const comm::HandOn& operation) override { return real_->submit(operation); }
  Status wait(comm::Ticket ticket) override { return real_->wait(ticket); }
  bool abort(Duration deadline) override { return real_->abort(deadline); }
  int suspect() const override { return real_->suspect(); }
  comm::Activity activity() const override { return real_->activity(); }
  comm::DeviceReducer* device_reducer() override { return in_place_ ? this : nullptr; }
  bool reaches(int gpu) const override { return real_->device_reducer()->reaches(gpu); }
  Result<comm::Ticket> sum(const comm::DeviceSum& operation) override {
    ++handed_.sums;
    return real_->device_reducer()->sum(operation);
  }

 private:
  const std::unique_ptr<comm::Communicator> real_;
  const bool in_place_;
  Handed& handed_;
};

std::vector<std::unique_ptr<comm::Communicator>> over_nccl(int ranks) {
  comm::RingOptions base;
  base.nccl = comm::make_nccl_setup(FAKE_NCCL_LIBRARY, FAKE_CUDA_LIBRARY, 0).value();
  return comm::make_in_process_ring(ranks, false, base).value();
}

// Under ThreadSanitizer emulated kernels are slow.
constexpr std::int64_t kMicroBatches = sanitizer::kThreads ? 2 : 6;

Recipe mlp(bool deterministic, std::int64_t micro_batches = kMicroBatches) {
  return {.graph = [] { return models::mlp({.batch = 4, .width = 24, .layers = 2, .dropout = 0.1}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.rule = core::AdamW{}, .schedule = {.peak = 3e-3, .warmup_steps = 5}},
          .options = {.seed = 3,
                      .micro_batches = micro_batches,
                      .clip_norm = 0.5,
                      .buckets = {.first_bytes = 512, .bytes = 2048}},
          .device = [](int rank) { return testing::fake_gpu(rank); },
          .deterministic = deterministic};
}

constexpr int kSteps = sanitizer::kThreads ? 1 : sanitizer::steps(6);

GangResult train(Recipe recipe, int ranks, bool in_place, Handed& handed) {
  recipe.link = [in_place, &handed](int count) {
    auto real = over_nccl(count);
    std::vector<std::unique_ptr<comm::Communicator>> all;
    for (auto& each : real) all.push_back(std::make_unique<Counting>(std::move(each), in_place, handed));
    return all;
  };
  return testing::train(recipe, ranks, kSteps);
}

void expect_equal(const GangResult& actual, const GangResult& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.held_out_loss, expected.held_out_loss);
  for (const Bytes& state : actual.states) EXPECT_TRUE(state == expected.states[0]);
}

TEST(TrainingOverNccl, gradients_summed_in_place_have_the_bits_of_those_that_went_by_the_host) {
  // 1: a rank has none, and adds zeros.
  const std::vector<std::int64_t> counts =
      sanitizer::kThreads ? std::vector{kMicroBatches} : std::vector{kMicroBatches, std::int64_t{1}};
  for (const bool deterministic : {false, true}) {
    if (sanitizer::kThreads && deterministic) continue;  // another test here has that mode
    for (const std::int64_t micro_batches : counts) {
      SCOPED_TRACE(::testing::Message() << "deterministic " << deterministic << ", " << micro_batches << " batches");
      const Recipe recipe = mlp(deterministic, micro_batches);
      const size_t buckets = core::lay_out(recipe.graph(), recipe.options.buckets).buckets.size();
      const size_t first = core::lay_out(recipe.graph(), recipe.options.buckets).buckets[0].end;
      ASSERT_GT(buckets, 2U);
      Handed in_place, by_host;
      const GangResult actual = train(recipe, 2, true, in_place), expected = train(recipe, 2, false, by_host);
      expect_equal(actual, expected);
      EXPECT_EQ(in_place.sums, static_cast<int>(2 * kSteps * buckets));
      EXPECT_LT(in_place.largest_of_the_host, first) << "a footer, and no bucket";
      EXPECT_EQ(by_host.sums, 0);
      EXPECT_GE(by_host.largest_of_the_host, first);
    }
  }
}

TEST(TrainingOverNccl, deterministic_is_bitwise_identical_for_every_number_of_ranks) {
  const Recipe recipe = mlp(true);
  const GangResult one = testing::train(recipe, 1, kSteps);
  const std::vector<int> gangs = sanitizer::kThreads ? std::vector<int>{2} : std::vector<int>{2, 3};
  for (const int ranks : gangs) {
    SCOPED_TRACE(ranks);
    Handed handed;
    expect_equal(train(recipe, ranks, true, handed), one);
    EXPECT_GT(handed.sums, 0);
  }
}

TEST(TrainingOverNccl, a_gpu_that_the_communicator_does_not_reach_goes_by_the_host) {
  Recipe recipe = mlp(true);
  recipe.device = [](int rank) { return testing::fake_gpu(rank + 4); };
  Handed handed;
  const GangResult elsewhere = train(recipe, 2, true, handed);
  EXPECT_EQ(handed.sums, 0);
  EXPECT_EQ(elsewhere.losses.size(), static_cast<size_t>(kSteps));
}

// The same of the host's memory: poisoned_step_test.
TEST(TrainingOverNccl, an_aborted_sum_changes_no_parameter) {
  for (const bool deterministic : {false, true}) {
    if (sanitizer::kThreads && deterministic) continue;  // another test here has that mode
    for (const bool early : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "deterministic " << deterministic << ", kernels end early " << early);
      auto ranks = over_nccl(2);
      std::atomic<int> ready{0};
      std::vector<std::thread> threads;
      for (size_t i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
          const std::unique_ptr<comm::Communicator> communicator = std::move(ranks[i]);
          Rank rank(mlp(deterministic), *communicator);
          const auto whole = rank.replica->step({});
          EXPECT_TRUE(whole.ok() && whole->committed);
          const Bytes before = testing::bytes_of(rank.replica->state());
          // Both are between their steps when one of them gets its breakage.
          if (++ready == 2) fake_nccl_break_next(1, 6, early);
          while (ready < 2) std::this_thread::yield();
          EXPECT_FALSE(rank.replica->step({}).ok());
          EXPECT_TRUE(communicator->abort(std::chrono::seconds(30)));
          EXPECT_TRUE(testing::bytes_of(rank.replica->state()) == before);
        });
      }
      for (auto& thread : threads) thread.join();
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::nccl_training_test
