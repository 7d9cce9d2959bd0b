// Part of the fake (fake_cuda.h): the memory of its devices, and pinned memory of the host. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace lockstep::trainer::cuda::fake {

// Ends the process with a sentence.
[[noreturn]] void refuse(const std::string& sentence);

// Memory that has one address for the host, where it cannot be touched, and another for the work of streams.
class DeviceMemory {
 public:
  // The host's address; null: no more than `most` bytes may be in use on the device.
  void* take(int device, size_t bytes, size_t most);
  // False: it is not the address of an allocation. Ends the process if bytes behind the allocation were written.
  bool give_back(void* address);
  // Where work sees these bytes; null: they are not within one allocation.
  std::byte* inside(const void* address, size_t bytes) const;
  size_t used(int device) const;
  size_t used() const;

 private:
  struct Allocation {
    int device = 0;
    size_t bytes = 0;
    size_t mapped = 0;             // of the pages at either address, without the guards
    std::byte* inside = nullptr;   // aligned to kAlignment; ends where the guard begins, but for the alignment
    std::byte* mapping = nullptr;  // of the pages inside: a guard, `mapped` bytes, a guard
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;  // by the host's address
};

class PinnedMemory {
 public:
  void* take(size_t bytes);
  bool give_back(void* address);  // false: it is not the address of an allocation
  // Whether all of the bytes are pinned; none are. Ends the process if some are.
  bool holds(const void* address, size_t bytes) const;
  size_t used() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> allocations_;
};

}  // namespace lockstep::trainer::cuda::fake
