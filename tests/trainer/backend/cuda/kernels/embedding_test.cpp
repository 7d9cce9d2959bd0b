#include "trainer/backend/cuda/kernels/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::embedding_test {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

size_t size(std::int64_t count) {
  return static_cast<size_t>(count);
}

std::vector<std::int32_t> indices_of(const EmbeddingShape& shape) {
  std::vector<std::int32_t> made(size(shape.rows));
  for (size_t i = 0; i < made.size(); ++i) {
    made[i] = static_cast<std::int32_t>(core::derive(7, i) % static_cast<std::uint64_t>(shape.vocabulary));
  }
  return made;
}

class EmbeddingKernels : public ::testing::TestWithParam<EmbeddingShape> {};

TEST_P(EmbeddingKernels, look_up_rows_and_add_their_gradients) {
  const EmbeddingShape shape = GetParam();
  const size_t width = size(shape.width), outputs = size(shape.rows) * width;
  const std::vector<float> start = numbers(size(shape.vocabulary) * width, 4);
  const std::vector<float> start_positions = numbers(size(shape.positions) * width, 5);
  in_every_order([&] {
    Guarded<std::int32_t> indices(indices_of(shape));
    Guarded<float> table(numbers(start.size(), 1)), positions(numbers(start_positions.size(), 2)), y(outputs);
    Guarded<float> dy(numbers(outputs, 3)), dtable(start), dpositions(start_positions);
    expect_success(embedding_forward(nullptr, shape, indices.data(), table.data(), positions.data(), y.data()));
    expect_success(embedding_backward(nullptr, shape, indices.data(), dy.data(), dtable.data(), dpositions.data()));
    std::vector<double> values(outputs), tables(start.begin(), start.end());
    std::vector<double> places(start_positions.begin(), start_positions.end());
    for (size_t i = 0; i < outputs; ++i) {
      const size_t row = i / width, c = i % width;
      const size_t entry = size(indices.data()[row]) * width + c, place = row % size(shape.positions) * width + c;
      values[i] = table.data()[entry] + positions.data()[place];
      tables[entry] += dy.data()[i];
      places[place] += dy.data()[i];
    }
    expect_close(y.values(), values, 0);
    expect_close(dtable.values(), tables, 1e-5);
    expect_close(dpositions.values(), places, 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmbeddingKernels,
                         ::testing::Values(EmbeddingShape{1, 1, 1, 1}, EmbeddingShape{12, 4, 5, 7},
                                           EmbeddingShape{96, 32, 65, 48}, EmbeddingShape{66, 33, 2, 129}));

TEST(EmbeddingIndices, outside_the_table_touch_no_memory_and_become_nan) {
  const EmbeddingShape shape{.rows = 3, .positions = 3, .vocabulary = 2, .width = 2};
  Guarded<std::int32_t> indices(std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 1, 2});
  Guarded<float> table(std::vector<float>{1, 2, 3, 4}), positions(std::vector<float>(6, 1)), y(6);
  Guarded<float> dy(std::vector<float>(6, 1)), dtable(std::vector<float>(4, 0)), dpositions(std::vector<float>(6, 0));
  expect_success(embedding_forward(nullptr, shape, indices.data(), table.data(), positions.data(), y.data()));
  expect_success(embedding_backward(nullptr, shape, indices.data(), dy.data(), dtable.data(), dpositions.data()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_close(y.values(), {nan, nan, 4, 5, nan, nan}, 0);
  expect_close(dtable.values(), {0, 0, 1, 1}, 0);
  expect_close(dpositions.values(), {1, 1, 1, 1, 1, 1}, 0);
}

std::uint64_t first_bad(std::vector<std::int32_t> indices, std::int64_t limit) {
  Guarded<std::int32_t> from(indices);
  Guarded<std::uint64_t> to(std::vector<std::uint64_t>{kNoBadIndex});
  expect_success(find_bad_index(nullptr, from.data(), static_cast<std::int64_t>(indices.size()), limit, to.data()));
  return to.values()[0];
}

TEST(EmbeddingIndices, the_first_bad_one_is_found_with_its_row) {
  in_every_order([] {
    std::vector<std::int32_t> indices(1000, 3);
    EXPECT_EQ(first_bad(indices, 4), kNoBadIndex);
    EXPECT_EQ(first_bad(indices, 3), 3U);
    indices[999] = 7;
    indices[700] = -5;
    indices[300] = 4;
    EXPECT_EQ(first_bad(indices, 4), (std::uint64_t{300} << 32) + 4);
    indices[300] = 0;
    EXPECT_EQ(first_bad(indices, 4), (std::uint64_t{700} << 32) + 0xfffffffbU);
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda::embedding_test
