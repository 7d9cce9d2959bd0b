// Memory of backends that compute on the host. Large blocks ask for huge pages: they are touched faster, and gone
// faster when the process is killed, which its peers learn only then.
#pragma once

#include <sys/mman.h>

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
    void* data = bytes >= kHugePage ? pages(core::align_up(bytes, kHugePage)) : small(bytes);
    if (data == nullptr) {
      return fail(ErrorCode::kExhausted, "there is not enough memory for " + std::to_string(bytes) + " bytes");
    }
    return std::unique_ptr<core::Memory>(new HostMemory(static_cast<std::byte*>(data), bytes));
  }

  ~HostMemory() override {
    if (bytes_ >= kHugePage) {
      ::munmap(data_, core::align_up(bytes_, kHugePage));
    } else {
      std::free(data_);
    }
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::byte* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;

  HostMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  static void* small(size_t bytes) {
    size_t rounded = core::align_up(bytes == 0 ? 1 : bytes, core::kAlignment);
    void* data = std::aligned_alloc(core::kAlignment, rounded);
    if (data != nullptr) std::memset(data, 0, rounded);
    return data;
  }

  // Zeros from the kernel, which are not written a second time; `bytes` is a multiple of a huge page, and so is where
  // they begin.
  static void* pages(size_t bytes) {
    const size_t room = bytes + kHugePage;
    void* mapped = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::byte*>(mapped);
    const size_t before =
        core::align_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
    if (before > 0) ::munmap(begin, before);
    ::munmap(begin + before + bytes, kHugePage - before);
    ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // advice: where there are none, it does without
    return begin + before;
  }

  std::byte* data_;
  size_t bytes_;
};

}  // namespace lockstep::trainer::backend
