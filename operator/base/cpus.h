// How many CPUs this process may use.
#pragma once

#include <filesystem>

namespace lockstep {

// The CPUs of this process's affinity mask, or fewer where a control group of it has a quota (limits.cpu of a
// container). Then they are the whole CPUs of the least quota. At least 1.
int usable_cpus();

// The CPUs, of `cpus`, that the quotas leave. `groups` is /proc/self/cgroup and `mounted` the folder where version 2 of
// the control groups is mounted. What cannot be read limits nothing.
int cpus_within_quota(int cpus, const std::filesystem::path& groups, const std::filesystem::path& mounted);

}  // namespace lockstep
