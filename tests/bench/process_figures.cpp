#include "tests/bench/process_figures.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::bench {
namespace {

std::int64_t kib_of(pid_t pid, const char* field) {
  std::ifstream lines(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(line.find(':') + 1));
  }
  return 0;
}

}  // namespace

double ProcessFigures::cpu_seconds() const {
  double nanoseconds = 0;  // of all its threads: the clock ticks of /proc/PID/stat are too coarse for a quiet gang
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), ignored)) {
    std::ifstream words(thread.path() / "schedstat");
    double ran = 0;
    if (words >> ran) nanoseconds += ran;
  }
  return nanoseconds / 1e9;
}

std::int64_t ProcessFigures::resident_kib() const {
  return kib_of(pid_, "VmRSS:");
}

std::int64_t ProcessFigures::peak_kib() const {
  return kib_of(pid_, "VmHWM:");
}

void ProcessFigures::forget_peak() const {
  std::ofstream(fmt::format("/proc/{}/clear_refs", pid_)) << 5;
}

void raise_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep::bench
