// What a replica asks of its source of samples, and what it does with the answers.
#include "trainer/core/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/trainer/core/breaking.h"
#include "tests/trainer/core/gang.h"
#include "trainer/data/generated.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t kSamplesOfBatch = 4, kMicroBatches = 5;

// A source over another one that records the calls, and fails when it is told to.
class Recorder final : public core::SampleSource {
 public:
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) override {
    taken.push_back(position);
    look();
    if (fails && fails->first == position) return std::exchange(fails, std::nullopt)->second;
    return line_.take(position, rows + more_rows, abort);
  }
  std::int64_t held_out() const override { return kHeldOut; }
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) override {
    held_out_taken.push_back(first);
    look();
    return line_.take_held_out(first, rows + more_rows, abort);
  }
  void aim(const core::Aim& next) override { aims.push_back(next); }
  std::optional<core::Batch> peek(std::int64_t position, std::int64_t rows) override {
    peeked.push_back(position);
    return line_.peek(position, rows + more_rows);
  }

  static constexpr std::int64_t kHeldOut = 10;
  std::vector<std::int64_t> taken, held_out_taken, peeked;
  std::vector<core::Aim> aims;
  std::optional<std::pair<std::int64_t, Error>> fails;
  std::int64_t more_rows = 0;  // than were asked for
  const core::Pulse* pulse = nullptr;
  std::vector<std::chrono::steady_clock::duration> rests;  // that the pulse announced at each call

 private:
  void look() {
    if (pulse == nullptr) return;
    EXPECT_EQ(pulse->doing(), core::Doing::kLoading);
    rests.push_back(pulse->rests_until() - std::chrono::steady_clock::now());
  }

  data::LineSource line_{core::ElementType::kFloat32, 3};
};

testing::Recipe recorded_recipe() {
  return {.graph = [] { return models::linear_regression(kSamplesOfBatch); },
          .source = [](core::ElementType) { return std::make_unique<Recorder>(); },
          .optimizer = {.schedule = {.peak = 1e-3, .decay = core::CosineDecay{.total_steps = 9}}},
          .options = {.seed = 3, .micro_batches = kMicroBatches},
          .deterministic = true};
}

Recorder& recorder_of(testing::Rank& rank) {
  return static_cast<Recorder&>(*rank.source);
}

TEST(Source, each_step_takes_what_it_announced_and_the_ranks_together_take_all) {
  constexpr int kRanks = 2, kSteps = 3;
  auto ring = comm::make_in_process_ring(kRanks, true).value();
  std::vector<std::int64_t> taken;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      testing::Rank rank(recorded_recipe(), *ring[r]);
      std::vector<std::int64_t> announced;
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_TRUE(rank.replica->step({}).ok());
        const core::Aim& aim = recorder_of(rank).aims.back();
        EXPECT_EQ(aim.step, step);
        for (auto j = aim.first; j < aim.end; j += aim.stride) announced.push_back(aim.position(step, j));
      }
      EXPECT_EQ(recorder_of(rank).aims.size(), static_cast<size_t>(kSteps));
      EXPECT_EQ(recorder_of(rank).taken, announced);
      const std::lock_guard guard(mutex);
      taken.insert(taken.end(), announced.begin(), announced.end());
    });
  }
  for (auto& thread : threads) thread.join();
  std::sort(taken.begin(), taken.end());
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < kSteps * kMicroBatches; ++i) all.push_back(i * kSamplesOfBatch);
  EXPECT_EQ(taken, all);
}

TEST(Source, only_a_backend_out_of_reach_is_given_the_next_step_ahead) {
  for (const bool late : {false, true}) {
    comm::SingleRankCommunicator alone;
    testing::Recipe recipe = recorded_recipe();
    recipe.backend = late ? "late" : "cpu";
    testing::Rank rank(recipe, alone);
    std::vector<std::int64_t> first_of_next;
    for (std::int64_t step = 1; step < 4; ++step) {
      ASSERT_TRUE(rank.replica->step({}).ok());
      first_of_next.push_back(step * kMicroBatches * kSamplesOfBatch);
    }
    EXPECT_EQ(recorder_of(rank).peeked, late ? first_of_next : std::vector<std::int64_t>());
    EXPECT_EQ(recorder_of(rank).taken.size(), size_t{3 * kMicroBatches}) << "each batch is taken all the same";
  }
}

TEST(Source, an_error_ends_the_step_changes_nothing_and_the_step_can_be_repeated) {
  comm::SingleRankCommunicator alone, also_alone;
  testing::Rank rank(recorded_recipe(), alone), undisturbed(recorded_recipe(), also_alone);
  for (testing::Rank* each : {&rank, &undisturbed}) ASSERT_TRUE(each->replica->step({}).ok());
  const testing::Bytes before = testing::bytes_of(rank.replica->state());
  // The last micro-batch of the second step.
  recorder_of(rank).fails = {(2 * kMicroBatches - 1) * kSamplesOfBatch, fail(ErrorCode::kCorrupt, "a damaged file")};
  const auto failed = rank.replica->step({});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(failed.error().message, "a damaged file");
  EXPECT_TRUE(testing::bytes_of(rank.replica->state()) == before);
  for (testing::Rank* each : {&rank, &undisturbed}) ASSERT_TRUE(each->replica->step({}).ok());
  EXPECT_TRUE(testing::bytes_of(rank.replica->state()) == testing::bytes_of(undisturbed.replica->state()));
}

TEST(Source, a_failed_step_says_whether_the_source_is_the_cause) {
  testing::Breaking communicator;
  testing::Rank rank(recorded_recipe(), communicator);
  const auto fails_with = [&](ErrorCode code) {
    recorder_of(rank).fails = {0, fail(code, "why")};
    EXPECT_EQ(rank.replica->step({}).error().code, code);
    return rank.replica->samples_failed();
  };
  EXPECT_TRUE(fails_with(ErrorCode::kUnavailable));
  EXPECT_FALSE(fails_with(ErrorCode::kCancelled)) << "an abort that the source has obeyed";
  EXPECT_TRUE(fails_with(ErrorCode::kCorrupt));
  communicator.left = 0;
  EXPECT_EQ(rank.replica->step({}).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(rank.replica->samples_failed()) << "a peer went away";
}

// Blobs whose last row is of a class that the model does not have.
class Mislabelled final : public core::SampleSource {
 public:
  Result<core::Batch> take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) override {
    LOCKSTEP_TRY(auto batch, blobs_.take(position, rows, abort));
    classes_.assign(static_cast<size_t>(rows), 1);
    classes_.back() = 1000;
    auto lease = std::make_shared<core::Batch>(std::move(batch));
    return core::Batch({lease->inputs()[0], std::as_bytes(std::span(classes_))}, lease);
  }
  std::int64_t held_out() const override { return kSamplesOfBatch; }
  Result<core::Batch> take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) override {
    return take(first, rows, abort);
  }

 private:
  data::BlobSource blobs_{core::ElementType::kFloat32, 3};
  std::vector<std::int32_t> classes_;
};

TEST(Source, a_class_that_the_model_does_not_have_is_an_error_of_the_samples) {
  for (const char* backend : {"cpu", "late"}) {
    comm::SingleRankCommunicator alone;
    testing::Recipe recipe = recorded_recipe();
    recipe.graph = [] { return models::mlp({.batch = kSamplesOfBatch, .width = 8}); };
    recipe.source = [](core::ElementType) { return std::make_unique<Mislabelled>(); };
    recipe.backend = backend;
    testing::Rank rank(recipe, alone);
    EXPECT_EQ(rank.replica->evaluate().error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(rank.replica->samples_failed()) << backend << ", evaluation";
    const auto failed = rank.replica->step({});
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(rank.replica->samples_failed()) << backend << ", step";
  }
}

TEST(Source, a_batch_of_another_shape_is_refused) {
  comm::SingleRankCommunicator alone;
  testing::Rank rank(recorded_recipe(), alone);
  recorder_of(rank).more_rows = 1;
  EXPECT_EQ(rank.replica->step({}).error().message, "the samples do not have the shapes of the graph's inputs");
  EXPECT_EQ(rank.replica->evaluate().error().code, ErrorCode::kInternal);
}

TEST(Source, a_rank_that_waits_for_samples_says_how_long_it_may_rest) {
  comm::SingleRankCommunicator alone;
  core::Pulse pulse;
  testing::Recipe recipe = recorded_recipe();
  recipe.options.pulse = &pulse;
  recipe.options.loading_rest = std::chrono::seconds(150);
  testing::Rank rank(recipe, alone);
  recorder_of(rank).pulse = &pulse;
  ASSERT_TRUE(rank.replica->step({}).ok());
  EXPECT_EQ(pulse.rests_until(), core::Pulse::Time()) << "after a step";
  ASSERT_TRUE(rank.replica->evaluate().ok());
  EXPECT_EQ(pulse.rests_until(), core::Pulse::Time()) << "after an evaluation";
  EXPECT_EQ(recorder_of(rank).rests.size(), static_cast<size_t>(kMicroBatches + 3));
  for (const auto rest : recorder_of(rank).rests) {
    EXPECT_GT(rest, std::chrono::seconds(50));
    EXPECT_LE(rest, std::chrono::seconds(150));
  }
}

TEST(Source, a_rank_whose_samples_are_in_memory_does_not_rest) {
  comm::SingleRankCommunicator alone;
  core::Pulse pulse;
  testing::Recipe recipe = recorded_recipe();
  recipe.options.pulse = &pulse;
  testing::Rank rank(recipe, alone);
  recorder_of(rank).pulse = &pulse;
  EXPECT_EQ(rank.source->patience(), Duration::zero());
  ASSERT_TRUE(rank.replica->step({}).ok());
  for (const auto rest : recorder_of(rank).rests) EXPECT_LT(rest, std::chrono::seconds(0));
}

TEST(Source, evaluation_takes_whole_batches_of_the_held_out_samples) {
  comm::SingleRankCommunicator alone;
  testing::Rank rank(recorded_recipe(), alone);
  ASSERT_TRUE(rank.replica->evaluate().ok());
  EXPECT_EQ(recorder_of(rank).held_out_taken, (std::vector<std::int64_t>{0, 4, 8}));
  EXPECT_TRUE(recorder_of(rank).taken.empty());
}

}  // namespace
}  // namespace lockstep::trainer
