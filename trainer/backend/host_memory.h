// Memory of backends that compute on the host. Large blocks ask for huge pages: they are touched faster, and gone
// faster when the process is killed, which its peers learn only then.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

class HostMemory final : public core::Memory {
 public:
  static Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) {
    const size_t alignment = bytes >= kHugePage ? kHugePage : core::kAlignment;
    size_t rounded = core::align_up(bytes == 0 ? 1 : bytes, alignment);
    void* data = std::aligned_alloc(alignment, rounded);
    if (data == nullptr) {
      return fail(ErrorCode::kExhausted, "there is not enough memory for " + std::to_string(bytes) + " bytes");
    }
    if (alignment == kHugePage)
      ::madvise(data, rounded, MADV_HUGEPAGE);  // advice: where there are none, it does without
    std::memset(data, 0, rounded);
    return std::unique_ptr<core::Memory>(new HostMemory(static_cast<std::byte*>(data), bytes));
  }

  ~HostMemory() override { std::free(data_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::byte* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  HostMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

}  // namespace lockstep::trainer::backend
