#include "trainer/data/row_source.h"

#include <algorithm>

namespace lockstep::trainer::data {

namespace {

std::vector<void*> addresses_of(const DraftBatch& draft) {
  std::vector<void*> addresses;
  for (const auto& input : draft.inputs) addresses.push_back(input.data());
  return addresses;
}

}  // namespace

core::Batch RowSource::batch_at(std::int64_t position, std::int64_t rows) const {
  DraftBatch draft = pool_.draft(rows);
  const std::vector<void*> inputs = addresses_of(draft);
  for (std::int64_t row = 0; row < rows; ++row) write(position + row, row, inputs);
  return std::move(draft).finish();
}

Result<core::Batch> RowSource::take(std::int64_t position, std::int64_t rows, const std::atomic<bool>&) {
  std::optional<core::Batch> peeked;
  {
    const std::lock_guard guard(peeked_->mutex);
    if (peeked_->position == position && peeked_->rows == rows) peeked.swap(peeked_->batch);
  }
  return peeked ? *std::move(peeked) : batch_at(position, rows);
}

std::optional<core::Batch> RowSource::peek(std::int64_t position, std::int64_t rows) {
  core::Batch batch = batch_at(position, rows);
  const std::lock_guard guard(peeked_->mutex);
  peeked_->position = position;
  peeked_->rows = rows;
  peeked_->batch = batch;
  return batch;
}

Result<core::Batch> RowSource::take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>&) {
  DraftBatch draft = pool_.draft(rows);
  const std::vector<void*> inputs = addresses_of(draft);
  for (std::int64_t row = 0; row < rows; ++row) {
    write_held_out(std::min(first + row, held_out() - 1), row, inputs);
  }
  return std::move(draft).finish();
}

}  // namespace lockstep::trainer::data
