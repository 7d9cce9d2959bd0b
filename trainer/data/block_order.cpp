#include "trainer/data/block_order.h"

#include <algorithm>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

std::vector<std::int64_t> cut_into_blocks(std::span<const RecordIndex> files, std::uint64_t bytes) {
  std::vector<std::int64_t> blocks;
  for (const RecordIndex& file : files) {
    std::uint64_t begin = 0;  // of the block
    std::int64_t count = 0;
    for (const Record& record : file.records) {
      ++count;
      if (record.end() - begin < bytes) continue;
      blocks.push_back(count);
      begin = record.end();
      count = 0;
    }
    if (count > 0) blocks.push_back(count);
  }
  return blocks;
}

BlockOrder::BlockOrder(std::vector<std::int64_t> block_records, std::int64_t window, std::uint64_t seed)
    : first_record_{0}, window_(static_cast<size_t>(window)), seed_(seed) {
  for (std::int64_t records : block_records) first_record_.push_back(first_record_.back() + records);
}

std::uint64_t BlockOrder::key(std::int64_t epoch) const {
  return core::derive(core::derive(seed_, "blocks"), static_cast<std::uint64_t>(epoch));
}

std::shared_ptr<const BlockOrder::Epoch> BlockOrder::epoch(std::int64_t number) const {
  const std::lock_guard guard(mutex_);
  auto& kept = epochs_[number % 2];
  if (kept && kept->number == number) return kept;
  auto made = std::make_shared<Epoch>();
  made->number = number;
  const size_t blocks = first_record_.size() - 1;
  const Permutation permutation(blocks, key(number));
  std::int64_t index = 0;
  for (size_t i = 0; i < blocks; ++i) {
    if (i % window_ == 0) made->window_starts.push_back(index);
    made->blocks.push_back(permutation.at(i));
    index += records(made->blocks.back());
  }
  made->window_starts.push_back(index);
  return kept = made;
}

Place BlockOrder::at(std::int64_t position) const {
  Place place{.epoch = position / count(), .index = position % count()};
  const std::shared_ptr<const Epoch> order = epoch(place.epoch);
  const auto& starts = order->window_starts;
  const auto window =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), place.index) - starts.begin() - 1);
  const auto size = static_cast<std::uint64_t>(starts[window + 1] - starts[window]);
  const Permutation permutation(size, core::derive(core::derive(key(place.epoch), "window"), window));
  auto left = static_cast<std::int64_t>(permutation.at(static_cast<std::uint64_t>(place.index - starts[window])));
  auto block = order->blocks.begin() + static_cast<std::ptrdiff_t>(window * window_);
  for (; left >= records(*block); ++block) left -= records(*block);
  place.sample = first_record_[*block] + left;
  return place;
}

}  // namespace lockstep::trainer::data
