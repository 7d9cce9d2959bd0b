// Shared memory of a block whose every access is checked: bounds, what was never written, and what two threads touch
// without a barrier between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace lockstep::trainer::cuda::emulator {

// One array of the block that runs.
struct SharedMemory {
  // The thread that last touched an element. Barriers are counted over all blocks, from 1; 0: nobody.
  struct Touch {
    std::uint64_t write_barrier = 0, read_barrier = 0;
    int writer = 0, reader = 0;  // kSeveral: several threads have read it
  };
  static constexpr int kSeveral = -1;

  const void* place = nullptr;  // in the code; null: the dynamic array
  const char* name = "";
  size_t width = 0;  // bytes of an element
  size_t count = 0;
  std::vector<std::byte> bytes;  // never more than of an array that was here before
  std::vector<Touch> touches;
};

// Each ends the process if the running thread breaks a rule.
void check_read(SharedMemory& memory, std::int64_t index);
void check_write(SharedMemory& memory, std::int64_t index);

SharedMemory& shared_memory(const void* place, const char* name, size_t width, size_t count);
SharedMemory& dynamic_shared_memory(const char* name, size_t width);

// Behaves as a pointer to shared memory.
template <typename T>
class SharedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  class Element {
   public:
    Element(SharedMemory& memory, std::int64_t index) : memory_(memory), index_(index) {}
    operator T() const {
      check_read(memory_, index_);
      T value;
      std::memcpy(&value, at(), sizeof(T));
      return value;
    }
    const Element& operator=(T value) const {
      check_write(memory_, index_);
      std::memcpy(at(), &value, sizeof(T));
      return *this;
    }
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }
    const Element& operator+=(T value) const { return *this = static_cast<T>(*this) + value; }

   private:
    std::byte* at() const { return memory_.bytes.data() + static_cast<size_t>(index_) * sizeof(T); }

    SharedMemory& memory_;
    std::int64_t index_;
  };

  explicit SharedArray(SharedMemory& memory, std::int64_t offset = 0) : memory_(&memory), offset_(offset) {}
  Element operator[](std::int64_t index) const { return Element(*memory_, offset_ + index); }
  SharedArray operator+(std::int64_t offset) const { return SharedArray(*memory_, offset_ + offset); }

 private:
  SharedMemory* memory_;
  std::int64_t offset_;
};

template <typename T>
SharedArray<T> shared_array(const void* place, const char* name, size_t count) {
  return SharedArray<T>(shared_memory(place, name, sizeof(T), count));
}

template <typename T>
SharedArray<T> dynamic_shared_array(const char* name) {
  return SharedArray<T>(dynamic_shared_memory(name, sizeof(T)));
}

}  // namespace lockstep::trainer::cuda::emulator
