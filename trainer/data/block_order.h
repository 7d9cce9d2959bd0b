// The order of records that are read from storage, as a pure function of (seed, epoch, index). Storage is fast where
// reads are long, so records are shuffled in two levels:
//
//   blocks of neighbouring records     a keyed permutation per epoch puts the blocks in order
//   windows of a few blocks            a keyed permutation per window puts the records of its blocks in order
//
// A reader that holds the blocks of one window in memory reads each block once per epoch, as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "trainer/data/sampler.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::data {

inline constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;

// Cuts each file into blocks of at least `bytes` (the last one of a file may be smaller). Returns the number of records
// of each block, in the order of files.
std::vector<std::int64_t> cut_into_blocks(std::span<const RecordIndex> files, std::uint64_t bytes);

// Any number of threads.
class BlockOrder {
 public:
  // `block_records`: of each block, each at least 1, at least one block. `window`: blocks of a window, at least 1.
  BlockOrder(std::vector<std::int64_t> block_records, std::int64_t window, std::uint64_t seed);

  std::int64_t count() const { return first_record_.back(); }
  // Where `position`, the number of records consumed before, lies among epochs. Place::sample numbers the records in
  // the order of files.
  Place at(std::int64_t position) const;

 private:
  // The blocks of one epoch in their order.
  struct Epoch {
    std::int64_t number = -1;
    std::vector<size_t> blocks;
    std::vector<std::int64_t> window_starts;  // the index of each window's first record, and the count of records
  };
  std::shared_ptr<const Epoch> epoch(std::int64_t number) const;
  std::int64_t records(size_t block) const { return first_record_[block + 1] - first_record_[block]; }
  std::uint64_t key(std::int64_t epoch) const;

  std::vector<std::int64_t> first_record_;  // of each block, and the count of records
  size_t window_;
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Epoch> epochs_[2];  // the last even and odd ones that were asked for; by mutex_
};

}  // namespace lockstep::trainer::data
