#include "operator/cli/data_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lockstep::cli {

Result<std::string> data_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return (self.parent_path() / "lockstep-data").string();
  return fail(ErrorCode::kUnavailable, fmt::format("cannot find the folder of lockstep: {}", error.message()));
}

int run_data_program(const std::vector<std::string>& words) {
  constexpr int kExitNotFound = 127;
  const Result<std::string> found = data_program();
  if (!found) {
    fmt::print(stderr, "lockstep data: {}\n", found.error().message);
    return kExitNotFound;
  }
  std::string program = *found;
  std::vector<std::string> all{program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  fmt::print(stderr, "lockstep data: cannot run {}: {}; install it beside lockstep\n", program, std::strerror(errno));
  return kExitNotFound;
}

std::vector<std::string> data_words() {
  return {"pack", "synth", "read"};
}

std::vector<std::string> data_options() {
  return {"--test-percent", "--seed",    "--shard-mib", "--images",    "--size",       "--classes",      "--quality",
          "--files",        "--threads", "--seconds",   "--in-memory", "--latency-ms", "--bandwidth-mib"};
}

}  // namespace lockstep::cli
