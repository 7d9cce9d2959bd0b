// Threads that receive no signals: signals are for the thread that asked for them.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace lockstep {

// Starts a thread with all signals blocked. A signal for a fault of the thread itself (SIGSEGV) still ends the process;
// SIGXFSZ becomes an error of write(). The caller owns the thread, and joins it. Throws std::system_error if the system
// cannot create a thread. Any thread.
template <typename Body>
std::thread start_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace lockstep
