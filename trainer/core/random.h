// Random numbers as pure functions of a key and a counter: no generator has a state that a restart could lose.
// Only integer arithmetic and exact floating-point steps are used, so the numbers are bitwise identical on every
// machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::trainer::core {

// SplitMix64's finalizer: a bijection that changes half of the bits for each bit that changes.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A key from a key and one more word: fold in seed, step, sample, layer one after the other.
constexpr std::uint64_t derive(std::uint64_t key, std::uint64_t word) {
  return mix(key ^ mix(word));
}

// A key from a key and a name.
constexpr std::uint64_t derive(std::uint64_t key, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return derive(key, hash);
}

// Uniform in [0, 1) with 53 bits.
constexpr double uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<double>(derive(key, counter) >> 11) * 0x1.0p-53;
}

// Nearly normal, mean 0 and variance 1, within [-6, 6]: the sum of twelve uniform numbers less six. Exact in double,
// so it does not depend on the logarithm of any library.
constexpr double normal(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t sum = 0;
  std::uint64_t state = derive(key, counter);
  for (std::uint64_t i = 0; i < 6; ++i) {
    std::uint64_t bits = mix(state + i);
    sum += (bits >> 32) + (bits & 0xffffffffULL);
  }
  return static_cast<double>(sum) * 0x1.0p-32 - 6.0;
}

// 32 random bits for element `element` under `key`: cheap enough for one call per element of a dropout mask.
constexpr std::uint32_t element_bits(std::uint64_t key, std::uint32_t element) {
  std::uint32_t x = element * 0x9e3779b9U ^ static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15) ^ static_cast<std::uint32_t>(key >> 32)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

}  // namespace lockstep::trainer::core
