#include "tests/trainer/cuda/fake_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace lockstep::trainer::cuda::fake {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;
constexpr int kPoison = 0xff;  // NaN as a float and as a double
constexpr auto kBehind = std::byte{0xa5};

size_t rounded(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

void* reserve(size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) refuse(fmt::format("the host has no room for {} bytes", bytes));
  return mapped;
}

// The allocation that `address` is in or directly behind; end() if there is none.
template <typename Allocations>
auto at_or_before(const Allocations& allocations, const void* address) {
  const auto after = allocations.upper_bound(static_cast<const std::byte*>(address));
  return after == allocations.begin() ? allocations.end() : std::prev(after);
}

}  // namespace

void refuse(const std::string& sentence) {
  std::fprintf(stderr, "libfakecuda: %s\n", sentence.c_str());
  std::abort();
}

void* DeviceMemory::take(int device, size_t bytes, size_t most) {
  if (bytes > most || used(device) > most - bytes) return nullptr;
  Allocation made{.device = device, .bytes = bytes, .mapped = rounded(bytes, kPage)};
  auto* address = static_cast<std::byte*>(reserve(made.mapped));
  made.mapping = static_cast<std::byte*>(reserve(made.mapped + 2 * kPage));
  std::byte* const pages = made.mapping + kPage;
  if (::mprotect(pages, made.mapped, PROT_READ | PROT_WRITE) != 0) refuse("the host has no more memory");
  made.inside = pages + made.mapped - rounded(bytes, kAlignment);
  std::memset(made.inside, kPoison, bytes);
  std::fill(made.inside + bytes, pages + made.mapped, kBehind);
  const std::lock_guard guard(mutex_);
  allocations_[address] = made;
  return address;
}

bool DeviceMemory::give_back(void* address) {
  Allocation ended;
  {
    const std::lock_guard guard(mutex_);
    const auto found = allocations_.find(static_cast<const std::byte*>(address));
    if (found == allocations_.end()) return false;
    ended = found->second;
    allocations_.erase(found);
  }
  const std::byte* const end = ended.mapping + kPage + ended.mapped;
  if (std::any_of<const std::byte*>(ended.inside + ended.bytes, end, [](std::byte at) { return at != kBehind; })) {
    refuse(fmt::format("work wrote behind the {} bytes at {}", ended.bytes, address));
  }
  ::munmap(ended.mapping, ended.mapped + 2 * kPage);
  ::munmap(address, ended.mapped);
  return true;
}

std::byte* DeviceMemory::inside(const void* address, size_t bytes) const {
  const std::lock_guard guard(mutex_);
  const auto found = at_or_before(allocations_, address);
  if (found == allocations_.end()) return nullptr;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - found->first);
  const Allocation& allocation = found->second;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return nullptr;
  return allocation.inside + offset;
}

size_t DeviceMemory::used(int device) const {
  const std::lock_guard guard(mutex_);
  size_t sum = 0;
  for (const auto& [_, allocation] : allocations_) sum += allocation.device == device ? allocation.bytes : 0;
  return sum;
}

size_t DeviceMemory::used() const {
  const std::lock_guard guard(mutex_);
  size_t sum = 0;
  for (const auto& [_, allocation] : allocations_) sum += allocation.bytes;
  return sum;
}

void* PinnedMemory::take(size_t bytes) {
  void* memory = std::aligned_alloc(kPage, rounded(bytes, kPage));
  if (memory == nullptr) refuse(fmt::format("the host has no room for {} bytes", bytes));
  std::memset(memory, kPoison, bytes);
  const std::lock_guard guard(mutex_);
  allocations_[static_cast<const std::byte*>(memory)] = bytes;
  return memory;
}

bool PinnedMemory::give_back(void* address) {
  {
    const std::lock_guard guard(mutex_);
    if (allocations_.erase(static_cast<const std::byte*>(address)) == 0) return false;
  }
  std::free(address);
  return true;
}

bool PinnedMemory::holds(const void* address, size_t bytes) const {
  const std::lock_guard guard(mutex_);
  const auto found = at_or_before(allocations_, address);
  if (found == allocations_.end()) return false;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - found->first);
  if (offset >= found->second) return false;
  if (bytes > found->second - offset) {
    refuse(fmt::format("{} bytes at {} reach beyond their pinned memory", bytes, address));
  }
  return true;
}

size_t PinnedMemory::used() const {
  const std::lock_guard guard(mutex_);
  size_t sum = 0;
  for (const auto& [_, bytes] : allocations_) sum += bytes;
  return sum;
}

}  // namespace lockstep::trainer::cuda::fake
