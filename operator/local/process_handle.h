// A process held by a descriptor. The kernel may give its number to another process at any time; the descriptor stays
// with the process that it was opened for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "operator/base/result.h"

namespace lockstep::local {

class ProcessHandle {
 public:
  ProcessHandle() = default;
  // kNotFound: there is no such process; kExhausted: no descriptor is left. Check afterwards that it is the intended
  // process: another may have got the number meanwhile.
  static Result<ProcessHandle> open(pid_t pid);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  pid_t pid() const { return pid_; }
  // kNotFound: it has ended; kForbidden: it belongs to another user.
  Status signal(int number) const;
  // Breaks one of its established TCP connections at both ends, as a failed network would. `choice` modulo their number
  // says which, in the order of their descriptors. Returns the two addresses. kNotFound: it has none at the moment, or
  // has ended; kForbidden: the system forbids access to it; kUnavailable: the kernel is too old.
  Result<std::string> cut_connection(std::size_t choice) const;

 private:
  ProcessHandle(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  pid_t pid_ = -1;
  int pidfd_ = -1;
};

}  // namespace lockstep::local
