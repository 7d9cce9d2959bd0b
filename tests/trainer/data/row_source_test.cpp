#include "trainer/data/row_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::data {
namespace {

const std::atomic<bool> kNoAbort{false};

// Inputs: the position (rows), and a byte of it three times (rows, 3).
class Positions final : public RowSource {
 public:
  Positions() : RowSource({sizeof(std::int64_t), 3}) {}
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override {
    static_cast<std::int64_t*>(inputs[0])[row] = position;
    std::memset(static_cast<std::byte*>(inputs[1]) + 3 * row, static_cast<int>(position % 256), 3);
  }
  std::int64_t held_out() const override { return 5; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override {
    write(1000 + index, row, inputs);
  }
};

std::vector<std::int64_t> first_input(const core::Batch& batch) {
  std::vector<std::int64_t> values(batch.inputs()[0].size() / sizeof(std::int64_t));
  std::memcpy(values.data(), batch.inputs()[0].data(), batch.inputs()[0].size());
  return values;
}

TEST(RowSource, a_batch_holds_the_samples_from_its_position_on_input_by_input) {
  Positions source;
  const core::Batch batch = source.take(40, 3, kNoAbort).value();
  ASSERT_EQ(batch.inputs().size(), 2U);
  EXPECT_EQ(first_input(batch), (std::vector<std::int64_t>{40, 41, 42}));
  ASSERT_EQ(batch.inputs()[1].size(), 9U);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(std::to_integer<size_t>(batch.inputs()[1][i]), 40 + i / 3);
  EXPECT_EQ(batch.bytes(), 33U);
  for (const auto& input : batch.inputs()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(input.data()) % core::kAlignment, 0U);
  }
}

TEST(RowSource, a_batch_beyond_the_held_out_samples_repeats_the_last) {
  EXPECT_EQ(first_input(Positions().take_held_out(3, 4, kNoAbort).value()),
            (std::vector<std::int64_t>{1003, 1004, 1004, 1004}));
}

TEST(RowSource, a_peek_gives_the_batch_that_the_next_take_gives) {
  Positions source;
  const core::Batch peeked = source.peek(40, 3).value();
  const core::Batch taken = source.take(40, 3, kNoAbort).value(), again = source.take(40, 3, kNoAbort).value();
  EXPECT_EQ(peeked.inputs()[0].data(), taken.inputs()[0].data());
  EXPECT_NE(again.inputs()[0].data(), taken.inputs()[0].data());
  for (const core::Batch* batch : {&peeked, &taken, &again}) {
    EXPECT_EQ(first_input(*batch), (std::vector<std::int64_t>{40, 41, 42}));
  }
  ASSERT_TRUE(source.peek(50, 3).has_value());
  EXPECT_EQ(first_input(source.take(50, 2, kNoAbort).value()), (std::vector<std::int64_t>{50, 51}));
  EXPECT_EQ(first_input(source.take(51, 3, kNoAbort).value()), (std::vector<std::int64_t>{51, 52, 53}));
}

TEST(BatchPool, memory_is_used_again_after_its_batch_and_not_before) {
  Positions source;
  std::optional<core::Batch> first = source.take(0, 2, kNoAbort).value();
  const std::byte* place = first->inputs()[0].data();
  const core::Batch second = source.take(2, 2, kNoAbort).value();
  EXPECT_NE(second.inputs()[0].data(), place);
  first.reset();
  EXPECT_EQ(source.take(4, 2, kNoAbort)->inputs()[0].data(), place);
  EXPECT_EQ(first_input(second), (std::vector<std::int64_t>{2, 3}));
}

TEST(BatchPool, a_batch_outlives_its_source) {
  std::optional<Positions> source(std::in_place);
  const core::Batch batch = source->take(7, 1, kNoAbort).value();
  source.reset();
  EXPECT_EQ(first_input(batch), (std::vector<std::int64_t>{7}));
}

}  // namespace
}  // namespace lockstep::trainer::data
