// The digest of memory: what changes it and what does not.
#include "trainer/core/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "trainer/core/random.h"

namespace lockstep::trainer::core {
namespace {

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix(i));
  return bytes;
}

std::uint64_t digest_of(const std::vector<std::byte>& bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.value();
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

TEST(Digest, lengths_borders_and_the_order_of_blocks_count) {
  std::set<std::uint64_t> seen;
  for (size_t count = 0; count <= 200; ++count) {
    EXPECT_TRUE(seen.insert(digest_of(std::vector<std::byte>(count))).second) << count << " zeros";
  }
  auto of_two = [](const std::vector<std::byte>& first, const std::vector<std::byte>& second) {
    Digest digest;
    digest.add(first.data(), first.size());
    digest.add(second.data(), second.size());
    return digest.value();
  };
  EXPECT_NE(of_two(some_bytes(64), some_bytes(65)), of_two(some_bytes(65), some_bytes(64)));
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
    Digest digest;
    digest.add(moved.data() + offset, bytes.size());
    EXPECT_EQ(digest.value(), expected);
  }
}

TEST(Digest, is_the_same_in_every_release) {
  EXPECT_EQ(digest_of(some_bytes(1000)), 10579964250878072573ULL)
      << "ranks of one generation compare it, and so do agents";
}

}  // namespace
}  // namespace lockstep::trainer::core
