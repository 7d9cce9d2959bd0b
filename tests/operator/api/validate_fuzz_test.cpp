// The fuzz target on small random changes of the files in tests/bad_input. LOCKSTEP_FUZZ_CHANGES=<per file> makes a
// longer run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/on_small_changes.h"

extern "C" int validate_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::api::validate_fuzz_test {
namespace {

TEST(JobFile, that_holds_anything_does_no_harm) {
  const char* given = std::getenv("LOCKSTEP_FUZZ_CHANGES");
  const int changes = given != nullptr ? std::atoi(given) : 40;
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/bad_input")) {
    std::stringstream stream;
    stream << std::ifstream(entry.path()).rdbuf();
    files.push_back(stream.str());
  }
  std::sort(files.begin(), files.end());
  run_on_small_changes(validate_fuzz, files, "[]{}:,-#&*!|>'\"%@`~?<.0123456789abcxyz \n\t\r\\\xff\xc3\x80\xed\xa0\x80",
                       changes * static_cast<int>(files.size()));
}

}  // namespace
}  // namespace lockstep::api::validate_fuzz_test
