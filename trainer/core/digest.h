// A digest of memory at the memory's own speed, to tell whether two ranks hold the same bits. A change of one word
// always changes it; it is no defence against somebody who looks for collisions (checkpoints have SHA-256 for that).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::trainer::core {

// Of a list of blocks of bytes: depends on the bytes, the lengths and the order, and on nothing else.
class Digest {
 public:
  // The next block.
  void add(const std::byte* data, size_t bytes);
  // Of all blocks so far.
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x6c6f636b73746570ULL;
};

}  // namespace lockstep::trainer::core
