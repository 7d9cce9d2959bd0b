#include "trainer/data/block_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "tests/sanitizer.h"
#include "tests/trainer/data/record_files.h"

namespace lockstep::trainer::data {
namespace {

TEST(BlockOrder, an_epoch_holds_every_record_once_for_any_blocks_and_window) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < sanitizer::cases(300); ++round) {
    std::vector<std::int64_t> blocks(1 + random() % 12);
    for (auto& records : blocks) records = static_cast<std::int64_t>(1 + random() % 30);
    const BlockOrder order(blocks, static_cast<std::int64_t>(1 + random() % 14), random());
    ASSERT_EQ(order.count(), std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}));
    const auto first_epoch = static_cast<std::int64_t>(random() % 5);
    for (std::int64_t epoch = first_epoch; epoch < first_epoch + 3; ++epoch) {
      std::vector<bool> seen(static_cast<size_t>(order.count()));
      for (std::int64_t index = 0; index < order.count(); ++index) {
        const Place place = order.at(epoch * order.count() + index);
        ASSERT_EQ(place.epoch, epoch);
        ASSERT_EQ(place.index, index);
        ASSERT_GE(place.sample, 0);
        ASSERT_LT(place.sample, order.count());
        ASSERT_FALSE(seen[static_cast<size_t>(place.sample)]) << "round " << round;
        seen[static_cast<size_t>(place.sample)] = true;
      }
    }
  }
}

TEST(BlockOrder, a_position_has_its_record_whatever_was_asked_before) {
  const std::vector<std::int64_t> blocks = {7, 3, 9, 4};
  const BlockOrder forwards(blocks, 2, 5), at_random(blocks, 2, 5);
  std::vector<std::int64_t> expected;
  for (std::int64_t position = 0; position < 230; ++position) expected.push_back(forwards.at(position).sample);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto position = static_cast<std::int64_t>(random() % expected.size());
    EXPECT_EQ(at_random.at(position).sample, expected[static_cast<size_t>(position)]);
  }
}

TEST(BlockOrder, epochs_and_seeds_have_orders_of_their_own_without_a_pattern) {
  const std::vector<std::int64_t> blocks(50, 100);
  const BlockOrder a(blocks, 8, 1), b(blocks, 8, 2);
  int same_epoch = 0, same_seed = 0, ascending = 0;
  for (std::int64_t i = 0; i < 5000; ++i) {
    same_epoch += a.at(i).sample == a.at(5000 + i).sample ? 1 : 0;
    same_seed += a.at(i).sample == b.at(i).sample ? 1 : 0;
    ascending += i > 0 && a.at(i - 1).sample < a.at(i).sample ? 1 : 0;
  }
  EXPECT_LT(same_epoch, 40);
  EXPECT_LT(same_seed, 40);
  EXPECT_NEAR(ascending, 2500, 200);
}

// Records that are read for each block that is loaded, by a reader that keeps the last `kept` blocks.
double mean_run(const std::vector<std::int64_t>& samples, std::int64_t block_records, size_t kept) {
  std::deque<std::int64_t> blocks;
  double loads = 0;
  for (std::int64_t sample : samples) {
    const std::int64_t block = sample / block_records;
    if (const auto found = std::find(blocks.begin(), blocks.end(), block); found != blocks.end()) {
      blocks.erase(found);
    } else {
      loads += 1;
      if (blocks.size() == kept) blocks.pop_front();
    }
    blocks.push_back(block);
  }
  return static_cast<double>(samples.size()) / loads;
}

TEST(BlockOrder, a_reader_that_keeps_a_window_of_blocks_reads_each_as_a_whole) {
  constexpr std::int64_t kBlocks = 64, kRecords = 150, kWindow = 8;
  const BlockOrder order(std::vector<std::int64_t>(kBlocks, kRecords), kWindow, 3);
  std::vector<std::int64_t> samples, shuffled;
  for (std::int64_t i = 0; i < order.count(); ++i) {
    samples.push_back(order.at(i).sample);
    shuffled.push_back(data::place_of(i, order.count(), 3).sample);
  }
  EXPECT_EQ(mean_run(samples, kRecords, kWindow), kRecords);
  EXPECT_LT(mean_run(shuffled, kRecords, kWindow), 1.5) << "one level of shuffling reads single records";
}

TEST(BlockOrder, blocks_are_cut_at_their_size_and_at_the_end_of_a_file) {
  auto file = [](std::initializer_list<std::uint64_t> sizes) {
    RecordIndex index;
    for (std::uint64_t bytes : sizes) {
      index.records.push_back({index.records.empty() ? 0 : index.records.back().end(), bytes - 16});
    }
    return index;
  };
  const std::vector<RecordIndex> files = {file({40, 40, 40, 20}), file({}), file({100, 30}), file({20, 20})};
  EXPECT_EQ(cut_into_blocks(files, 80), (std::vector<std::int64_t>{2, 2, 1, 1, 2}));
}

}  // namespace
}  // namespace lockstep::trainer::data
