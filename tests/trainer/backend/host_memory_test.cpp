#include "trainer/backend/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace lockstep::trainer::backend {
namespace {

constexpr size_t kLarge = size_t{5} << 20;

TEST(HostMemory, is_zeroed_and_aligned_whatever_its_size) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100'000}, size_t{2} << 20, kLarge + 12}) {
    const auto memory = HostMemory::allocate(bytes);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_EQ((*memory)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*memory)->data()) % core::kAlignment, 0u);
    EXPECT_TRUE(
        std::all_of((*memory)->data(), (*memory)->data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(HostMemory, large_blocks_begin_at_different_offsets_within_a_page) {
  std::vector<std::unique_ptr<core::Memory>> all;
  std::set<std::uintptr_t> places;
  for (int i = 0; i < 64; ++i) {
    all.push_back(HostMemory::allocate(kLarge).value());
    places.insert(reinterpret_cast<std::uintptr_t>(all.back()->data()) % 4096);
  }
  EXPECT_EQ(places.size(), 64u);
}

TEST(HostMemory, more_than_there_is_is_an_error) {
  const auto memory = HostMemory::allocate(size_t{1} << 60);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
}

}  // namespace
}  // namespace lockstep::trainer::backend
