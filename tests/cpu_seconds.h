// For tests that bound what a computation costs.
#pragma once

#include <ctime>

namespace lockstep {

// CPU time of this thread: the time in which other processes of the machine ran does not count.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace lockstep
