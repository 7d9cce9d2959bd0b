// The micro-batches that a step reports.
#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <map>
#include <thread>

#include "tests/trainer/core/gang.h"
#include "trainer/data/generated.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t kRows = 4, kBatches = 6;

testing::Recipe recipe(bool checksums) {
  return {.graph = [] { return models::mlp({.batch = kRows, .width = 8, .layers = 1}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.schedule = {.peak = 1e-3, .decay = core::CosineDecay{.total_steps = 9}}},
          .options = {.seed = 3, .micro_batches = kBatches, .checksums = checksums},
          .deterministic = true};
}

// Of micro-batch `index` of the step that follows `step` committed ones, from its samples alone.
std::uint32_t expected(std::int64_t step, std::int64_t index) {
  const data::BlobSource source(core::ElementType::kFloat32, 3);
  std::vector<float> features(kRows * data::BlobSource::kFeatures);
  std::vector<std::int32_t> classes(kRows);
  std::vector<void*> inputs = {features.data(), classes.data()};
  for (std::int64_t row = 0; row < kRows; ++row) source.write((step * kBatches + index) * kRows + row, row, inputs);
  boost::crc_32_type crc;
  crc.process_bytes(features.data(), features.size() * sizeof(float));
  crc.process_bytes(classes.data(), classes.size() * sizeof(std::int32_t));
  return crc.checksum();
}

TEST(Computed, each_rank_lists_its_micro_batches_of_the_last_step_with_their_bytes) {
  constexpr int kRanks = 4;
  auto ring = comm::make_in_process_ring(kRanks, true).value();
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      testing::Rank rank(recipe(true), *ring[static_cast<size_t>(r)]);
      for (std::int64_t step = 0; step < 3; ++step) {
        ASSERT_TRUE(rank.replica->step({}).ok());
        std::map<std::int64_t, std::uint32_t> listed, own;
        for (const core::ComputedBatch& batch : rank.replica->computed()) listed[batch.index] = batch.crc32;
        for (std::int64_t j = r; j < kBatches; j += kRanks) own[j] = expected(step, j);
        EXPECT_EQ(rank.replica->computed().size(), own.size());
        EXPECT_EQ(listed, own) << "rank " << r << " after step " << step + 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Computed, a_step_that_is_computed_again_lists_each_micro_batch_once) {
  comm::SingleRankCommunicator alone;
  testing::Rank rank(recipe(true), alone);
  rank.replica->state().exponents.assign(rank.replica->state().exponents.size(), 60);  // too fine for any sum
  auto report = rank.replica->step({});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_GT(report->redone, 0);
  ASSERT_EQ(rank.replica->computed().size(), static_cast<size_t>(kBatches));
  for (std::int64_t j = 0; j < kBatches; ++j) {
    EXPECT_EQ(rank.replica->computed()[static_cast<size_t>(j)].index, j);
    EXPECT_EQ(rank.replica->computed()[static_cast<size_t>(j)].crc32, expected(0, j));
  }
}

TEST(Computed, nothing_is_listed_without_checksums) {
  comm::SingleRankCommunicator alone;
  testing::Rank rank(recipe(false), alone);
  ASSERT_TRUE(rank.replica->step({}).ok());
  EXPECT_TRUE(rank.replica->computed().empty());
}

}  // namespace
}  // namespace lockstep::trainer
