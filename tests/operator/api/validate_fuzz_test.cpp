// The fuzz target on small random changes of the files in tests/bad_input: deterministic, so that a failure stays.
// LOCKSTEP_SEED=<number> and LOCKSTEP_FUZZ_CHANGES=<per file> make other and longer runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/sanitizer.h"
#include "tests/small_changes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size);

namespace lockstep::api {
namespace {

TEST(JobFile, that_holds_anything_does_no_harm) {
  const char *given_seed = std::getenv("LOCKSTEP_SEED"), *given_changes = std::getenv("LOCKSTEP_FUZZ_CHANGES");
  const std::uint64_t seed = given_seed != nullptr ? std::strtoull(given_seed, nullptr, 10) : 20261120;
  const int changes = given_changes != nullptr ? std::atoi(given_changes) : sanitizer::cases(40);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const std::string alphabet = "[]{}:,-#&*!|>'\"%@`~?<.0123456789abcxyz \n\t\r\\\xff\xc3\x80\xed\xa0\x80";
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/bad_input")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::stringstream stream;
    stream << std::ifstream(file).rdbuf();
    const std::string original = stream.str();
    for (int change = 0; change < changes; ++change) {
      const std::string text = with_small_changes(original, alphabet, 12, random);
      ASSERT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep::api
