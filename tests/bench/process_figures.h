// What Linux tells of another process: its time, and its resident memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lockstep::bench {

// A process that has ended has figures of 0.
class ProcessFigures {
 public:
  explicit ProcessFigures(pid_t pid) : pid_(pid) {}

  // User and system time so far.
  double cpu_seconds() const;
  std::int64_t resident_kib() const;
  // The most resident memory since its start, or since forget_peak().
  std::int64_t peak_kib() const;
  void forget_peak() const;

 private:
  const pid_t pid_;
};

// Lets this process and those that it starts open as many files as the system allows: one for each agent on either
// side.
void raise_descriptors();

}  // namespace lockstep::bench
