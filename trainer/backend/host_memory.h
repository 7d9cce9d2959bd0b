// Memory of backends that compute on the host. Large blocks ask for huge pages, which the kernel hands out faster. It
// also frees them faster when the process is killed, and peers learn of the death only then. Two blocks in a row never
// begin at the same offset in a page. A processor takes a load for one that depends on an earlier store if the last
// twelve bits of their addresses agree. An optimizer walks parameters, gradients and moments side by side, and would
// stall at each.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

class HostMemory final : public core::Memory {
 public:
  static Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) {
    const bool large = bytes >= kHugePage;
    const size_t offset = large ? next_place() : 0;
    const size_t mapped = large ? core::align_up(bytes + offset, kHugePage) : 0;
    auto* begin = static_cast<std::byte*>(large ? pages(mapped) : small(bytes));
    if (begin == nullptr) {
      return fail(ErrorCode::kExhausted, "there is not enough memory for " + std::to_string(bytes) + " bytes");
    }
    return std::unique_ptr<core::Memory>(new HostMemory(begin, mapped, offset, bytes));
  }

  ~HostMemory() override {
    if (mapped_ > 0) {
      ::munmap(begin_, mapped_);
    } else {
      std::free(begin_);
    }
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::byte* data() const override { return begin_ + offset_; }
  size_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;

  HostMemory(std::byte* begin, size_t mapped, size_t offset, size_t bytes)
      : begin_(begin), mapped_(mapped), offset_(offset), bytes_(bytes) {}

  // Bytes from the begin of a page: all 64 multiples of the alignment in turn, neighbours 17 of them apart.
  static size_t next_place() {
    static std::atomic<size_t> count{0};
    return count.fetch_add(1, std::memory_order_relaxed) * 17 % (4096 / core::kAlignment) * core::kAlignment;
  }

  static void* small(size_t bytes) {
    size_t rounded = core::align_up(bytes == 0 ? 1 : bytes, core::kAlignment);
    void* data = std::aligned_alloc(core::kAlignment, rounded);
    if (data != nullptr) std::memset(data, 0, rounded);
    return data;
  }

  // Zeros from the kernel, which are not written a second time. `bytes` and the address of the block are multiples of a
  // huge page.
  static void* pages(size_t bytes) {
    const size_t room = bytes + kHugePage;
    void* mapped = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::byte*>(mapped);
    const size_t before =
        core::align_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
    if (before > 0) ::munmap(begin, before);
    ::munmap(begin + before + bytes, kHugePage - before);
    ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // advice: without huge pages, small ones do
    return begin + before;
  }

  std::byte* begin_;
  size_t mapped_;  // bytes; 0: `begin_` is the heap's
  size_t offset_;  // of what is used
  size_t bytes_;
};

}  // namespace lockstep::trainer::backend
