// Runs a fuzz target on small random changes of given inputs, in the unit tests of a room. A fuzzer runs the same
// target for longer: clang++ -std=c++20 -fsanitize=fuzzer,address,undefined -I. with -DLOCKSTEP_FUZZ_TARGET=NAME,
// tests/fuzz/fuzzer.cpp, the target's file and the sources of its room.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/small_changes.h"
#include "tests/sanitizer.h"

namespace lockstep {

using FuzzTarget = int (*)(const std::uint8_t* data, std::size_t size);

// Every byte once, for formats that are not text.
inline std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

// `cases` inputs, fewer in a sanitizer's build (sanitizer.h): the seeds themselves first, then seeds with small
// changes. Ends at the first failure. Prints the seed of the random numbers; LOCKSTEP_SEED=<number> makes another run.
inline void run_on_small_changes(FuzzTarget target, const std::vector<std::string>& seeds, std::string_view alphabet,
                                 int cases) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261125;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // before a target aborts
  std::mt19937_64 random(seed);
  const auto run = [&](const std::string& text) {
    ASSERT_EQ(target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
  };
  for (const std::string& text : seeds) ASSERT_NO_FATAL_FAILURE(run(text));
  for (int i = 0; i < sanitizer::cases(cases); ++i) {
    const std::string& text = seeds[static_cast<std::size_t>(i) % seeds.size()];
    ASSERT_NO_FATAL_FAILURE(run(with_small_changes(text, alphabet, 40, random)));
  }
}

}  // namespace lockstep
