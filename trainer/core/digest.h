// A digest of memory at the memory's own speed, to tell whether two ranks hold bitwise identical state. A change of one
// word always changes it. It does not resist forged collisions (checkpoints have SHA-256 for that).
//
// The digest covers a list of arrays in blocks of kBlock elements. Each block has a digest of its own, keyed by its
// place, and the whole is their sum. So the code that writes a block can compute its share while the block is in the
// cache, in any order, on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::trainer::core {

// The share of block `block` of array `array`, by its bytes and their number.
std::uint64_t digest_of_block(std::size_t array, std::size_t block, const void* data, std::size_t bytes);

// The share of a whole array of `count` elements of `width` bytes.
std::uint64_t digest_of_array(std::size_t array, const void* data, std::size_t count, std::size_t width);

// A sum of digests to which several threads add.
class DigestSum {
 public:
  void add(std::uint64_t digest) { sum_.fetch_add(digest, std::memory_order_relaxed); }
  std::uint64_t value() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace lockstep::trainer::core
