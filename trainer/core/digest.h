// A digest of memory at the memory's own speed, to tell whether two ranks hold the same bits. A change of one word
// always changes it; it is no defence against somebody who looks for collisions (checkpoints have SHA-256 for that).
//
// What is digested is a list of arrays in blocks of kBlock elements. Each block has a digest of its own, keyed by its
// place, and the whole is their sum: so whoever writes a block can say what it adds while it is still in the cache, in
// any order and on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::trainer::core {

// What block `block` of array `array` adds, by its bytes and their number.
std::uint64_t digest_of_block(std::size_t array, std::size_t block, const void* data, std::size_t bytes);

// What a whole array of `count` elements of `width` bytes adds.
std::uint64_t digest_of_array(std::size_t array, const void* data, std::size_t count, std::size_t width);

// The sum, where several threads add to it.
class DigestSum {
 public:
  void add(std::uint64_t digest) { sum_.fetch_add(digest, std::memory_order_relaxed); }
  std::uint64_t value() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace lockstep::trainer::core
