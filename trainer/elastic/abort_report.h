// SIGABRT from the agent: the coordinator has found that this process hangs. The process prints what its training
// thread is doing, and dies of the signal.
#pragma once

#include <semaphore.h>
#include <signal.h>

#include <cstddef>
#include <memory>
#include <thread>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::elastic {

// A thread that waits for SIGABRT. It asks the thread that created it for its stack, prints that with names to standard
// error and ends the process with SIGABRT. A handler of a signal that no other code uses takes the stack, on a stack of
// its own. The kernels of oneDNN point the stack register into the heap (stop.h). abort() works as usual.
//
// Create it on the training thread, before any thread that handles signals: it blocks SIGABRT there, and they inherit
// that. One at a time in a process. Its destructor unblocks SIGABRT.
class AbortReport {
 public:
  AbortReport();
  ~AbortReport();
  AbortReport(const AbortReport&) = delete;
  AbortReport& operator=(const AbortReport&) = delete;

 private:
  void run();
  bool capture_now() const;

  const pthread_t watched_;
  const int watched_tid_;
  std::unique_ptr<std::byte[]> stack_;  // of the handler
  stack_t stack_before_{};
  UniqueFd signals_, wake_;
  std::thread thread_;
};

}  // namespace lockstep::trainer::elastic
