// The digest of memory: what changes it and what does not.
#include "trainer/core/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "trainer/core/parallel.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::core {
namespace {

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix(i));
  return bytes;
}

std::uint64_t digest_of(const std::vector<std::byte>& bytes) {
  return digest_of_block(0, 0, bytes.data(), bytes.size());
}

TEST(Digest, every_single_bit_counts) {
  for (size_t count : {1U, 7U, 64U, 200U}) {
    std::vector<std::byte> bytes = some_bytes(count);
    std::set<std::uint64_t> seen{digest_of(bytes)};
    for (size_t bit = 0; bit < 8 * count; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(digest_of(bytes)).second) << "bit " << bit << " of " << count << " bytes";
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Digest, lengths_and_places_count) {
  std::set<std::uint64_t> seen;
  for (size_t count = 0; count <= 200; ++count) {
    EXPECT_TRUE(seen.insert(digest_of(std::vector<std::byte>(count))).second) << count << " zeros";
  }
  const std::vector<std::byte> bytes = some_bytes(64);
  for (size_t array = 0; array < 20; ++array) {
    for (size_t block = 0; block < 20; ++block) {
      EXPECT_TRUE(seen.insert(digest_of_block(array, block, bytes.data(), bytes.size())).second)
          << array << " " << block;
    }
  }
}

TEST(Digest, an_array_is_the_sum_of_its_blocks) {
  const std::vector<std::byte> bytes = some_bytes(4 * (2 * kBlock + 5));
  const size_t block = 4 * kBlock;
  EXPECT_EQ(digest_of_array(3, bytes.data(), bytes.size() / 4, 4),
            digest_of_block(3, 0, bytes.data(), block) + digest_of_block(3, 1, bytes.data() + block, block) +
                digest_of_block(3, 2, bytes.data() + 2 * block, 20));
  EXPECT_EQ(digest_of_array(3, nullptr, 0, 4), 0U);
}

TEST(Digest, words_that_change_places_count) {
  std::vector<std::byte> bytes = some_bytes(256);
  std::uint64_t before = digest_of(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);  // the same lanes
  EXPECT_NE(digest_of(bytes), before);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);  // the same stride
  EXPECT_NE(digest_of(bytes), before);
}

TEST(Digest, where_the_bytes_lie_does_not_count) {
  std::vector<std::byte> bytes = some_bytes(1000);
  std::uint64_t expected = digest_of(bytes);
  for (size_t offset = 1; offset < 9; ++offset) {
    std::vector<std::byte> moved(bytes.size() + offset);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_EQ(digest_of_block(0, 0, moved.data() + offset, bytes.size()), expected);
  }
}

TEST(Digest, is_the_same_in_every_release) {
  EXPECT_EQ(digest_of(some_bytes(1000)), 14834023786568476346ULL)
      << "ranks of one generation compare it, and so do agents";
}

}  // namespace
}  // namespace lockstep::trainer::core
