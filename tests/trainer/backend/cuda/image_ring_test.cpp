// Images that the CUDA backend gets as bytes: their numbers have the bits of the host, in the order of the queue.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/trainer/backend/cuda/under_test.h"
#include "trainer/backend/cuda/image_ring.h"
#include "trainer/core/pixels.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::image_ring_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes(size_t count, std::uint64_t key) {
  Bytes all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<std::uint8_t>(core::derive(key, i));
  return all;
}

core::PixelValues numbers_of(std::uint64_t key) {
  core::PixelValues values;
  for (size_t colour = 0; colour < core::kColours; ++colour) {
    for (size_t i = 0; i < values[colour].size(); ++i) {
      values[colour][i] = static_cast<float>(core::normal(key + colour, i));
    }
  }
  return values;
}

class Images : public ::testing::Test {
 protected:
  static std::vector<float> expected(const Bytes& from, const core::PixelValues& values) {
    std::vector<float> numbers(from.size());
    core::spread_pixels(from.data(), from.size(), values, core::ElementType::kFloat32, numbers.data(), 1);
    return numbers;
  }
  std::vector<float> get(const core::Memory& memory) {
    std::vector<float> numbers(memory.bytes() / sizeof(float));
    cuda_->read(numbers.data(), memory.data(), memory.bytes());
    EXPECT_TRUE(cuda_->wait(cuda_->mark()).ok());
    return numbers;
  }

  std::unique_ptr<core::Backend> cuda_ = testing::gpu();
};

TEST_F(Images, become_the_bits_that_the_host_would_write) {
  for (const size_t count : {size_t{3}, size_t{3 * 7 * 11}, size_t{30000}, size_t{300}}) {
    SCOPED_TRACE(count);
    auto memory = cuda_->allocate(count * sizeof(float)).value();
    const Bytes from = bytes(count, count);
    const core::PixelValues values = numbers_of(count);
    {
      Bytes gone = from;
      auto table = std::make_unique<core::PixelValues>(values);
      cuda_->write_pixels(memory->data(), gone.data(), count, *table);
      gone.assign(count, 0);
      *table = {};
    }
    EXPECT_EQ(get(*memory), expected(from, values));
  }
}

TEST_F(Images, of_many_writes_in_a_row_are_each_their_own) {
  constexpr size_t kCount = 900, kWrites = 3 * cuda::ImageRing::kDepth + 1;
  std::vector<std::unique_ptr<core::Memory>> places;
  for (size_t i = 0; i < kWrites; ++i) {
    places.push_back(cuda_->allocate(kCount * sizeof(float)).value());
  }
  for (size_t i = 0; i < kWrites; ++i) {
    cuda_->write_pixels(places[i]->data(), bytes(kCount, i).data(), kCount, numbers_of(i));
  }
  for (size_t i = 0; i < kWrites; ++i) {
    EXPECT_EQ(get(*places[i]), expected(bytes(kCount, i), numbers_of(i))) << "write " << i;
  }
}

TEST_F(Images, come_in_the_order_of_the_queue) {
  constexpr size_t kCount = 600;
  auto memory = cuda_->allocate(kCount * sizeof(float)).value();
  std::vector<std::vector<float>> got(2 * cuda::ImageRing::kDepth, std::vector<float>(kCount));
  for (size_t i = 0; i < got.size(); ++i) {
    cuda_->write_pixels(memory->data(), bytes(kCount, i).data(), kCount, numbers_of(i));
    cuda_->read(got[i].data(), memory->data(), memory->bytes());
    cuda_->clear(memory->data(), memory->bytes());
  }
  ASSERT_TRUE(cuda_->wait(cuda_->mark()).ok());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], expected(bytes(kCount, i), numbers_of(i))) << "write " << i;
  }
}

}  // namespace
}  // namespace lockstep::trainer::image_ring_test
