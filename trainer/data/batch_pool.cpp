#include "trainer/data/batch_pool.h"

#include <new>
#include <utility>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::data {

core::Batch DraftBatch::finish() && {
  return {{inputs.begin(), inputs.end()}, std::move(lease), std::move(pixels)};
}

// The blocks that no batch uses, all of one size.
class BatchPool::Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  // A block of `bytes`, and what gives it back.
  std::pair<std::byte*, std::shared_ptr<const void>> lease(size_t bytes) {
    std::byte* data = take(bytes).release();
    return {data, std::shared_ptr<const void>(data, [self = shared_from_this(), bytes](std::byte* returned) {
              self->give_back(Block(returned), bytes);
            })};
  }

 private:
  struct Free {
    void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t(core::kAlignment)); }
  };
  using Block = std::unique_ptr<std::byte[], Free>;

  Block take(size_t bytes) {
    {
      const std::lock_guard guard(mutex_);
      if (bytes != bytes_) {
        free_.clear();
        bytes_ = bytes;
      }
      if (!free_.empty()) {
        Block block = std::move(free_.back());
        free_.pop_back();
        return block;
      }
    }
    return Block(new (std::align_val_t(core::kAlignment)) std::byte[bytes]());
  }

  void give_back(Block block, size_t bytes) {
    const std::lock_guard guard(mutex_);
    if (bytes == bytes_) free_.push_back(std::move(block));
  }

  std::mutex mutex_;
  size_t bytes_ = 0;         // of each free block; protected by mutex_
  std::vector<Block> free_;  // protected by mutex_
};

BatchPool::BatchPool(std::vector<size_t> row_bytes, std::shared_ptr<const core::PixelValues> pixels)
    : row_bytes_(std::move(row_bytes)), pixels_(std::move(pixels)), blocks_(std::make_shared<Blocks>()) {}

DraftBatch BatchPool::draft(std::int64_t rows) const {
  size_t total = 0;
  for (size_t bytes : row_bytes_) total += core::align_up(bytes * static_cast<size_t>(rows), core::kAlignment);
  auto [data, lease] = blocks_->lease(total);
  DraftBatch draft{.lease = std::move(lease), .pixels = pixels_};
  for (size_t bytes : row_bytes_) {
    const size_t all = bytes * static_cast<size_t>(rows);
    draft.inputs.emplace_back(data, all);
    data += core::align_up(all, core::kAlignment);
  }
  return draft;
}

}  // namespace lockstep::trainer::data
