// SIGABRT from the agent: this process hangs, says the coordinator, and is about to be ended. It prints what the thread
// that trains is doing, and dies of the signal.
#pragma once

#include <semaphore.h>
#include <signal.h>

#include <cstddef>
#include <memory>
#include <thread>

#include "trainer/comm/fd.h"

namespace lockstep::trainer::elastic {

// Listens for SIGABRT on a thread of its own, which asks the thread that made it for its stack, prints that with names
// to standard error and ends the process with SIGABRT. The stack is taken by the handler of a signal that nobody else
// uses, on a stack of its own: the kernels of oneDNN point the stack register into the heap (stop.h). abort() ends the
// process as ever.
//
// Make it on the thread that trains, before any thread that handles signals: it blocks SIGABRT there, and they inherit
// that. One at a time in a process. SIGABRT is not blocked any more when it is gone.
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
  comm::UniqueFd signals_, wake_;
  std::thread thread_;
};

}  // namespace lockstep::trainer::elastic
