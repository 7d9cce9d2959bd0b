#include "operator/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace lockstep {

namespace {

// The group of version 2, from its own line: "0::/kubepods/pod/container". Empty: there is none.
std::string group_of(const std::filesystem::path& groups) {
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

// The whole CPUs of the quota in `folder`: cpu.max has microseconds in each period, or "max", and that period.
std::int64_t quota_in(const std::filesystem::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::int64_t quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::numeric_limits<std::int64_t>::max();
  return quota / period;
}

}  // namespace

int cpus_within_quota(int cpus, const std::filesystem::path& groups, const std::filesystem::path& mounted) {
  std::int64_t least = std::min<std::int64_t>(cpus, quota_in(mounted));
  std::filesystem::path folder = mounted;
  for (const auto& part : std::filesystem::path(group_of(groups))) {
    folder /= part;
    least = std::min(least, quota_in(folder));
  }
  return static_cast<int>(std::max<std::int64_t>(least, 1));
}

int usable_cpus() {
  cpu_set_t cpus;
  const int on = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  return cpus_within_quota(on, "/proc/self/cgroup", "/sys/fs/cgroup");
}

}  // namespace lockstep
