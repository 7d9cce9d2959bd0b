// A mutex of which clang knows what it protects. `make lint` compiles with -Wthread-safety: it finds a member that is
// reached without its lock, and a lock that is taken twice or kept. Other compilers skip the marks.
#pragma once

#include <mutex>

#if defined(__clang__)
#define LOCKSTEP_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define LOCKSTEP_THREAD_SAFETY(attribute)
#endif

// Behind a member: it is read and written only while `mutex` is held.
#define LOCKSTEP_GUARDED_BY(mutex) LOCKSTEP_THREAD_SAFETY(guarded_by(mutex))
// Behind a function: its caller holds `mutex`.
#define LOCKSTEP_REQUIRES(mutex) LOCKSTEP_THREAD_SAFETY(requires_capability(mutex))

namespace lockstep {

class LOCKSTEP_THREAD_SAFETY(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() LOCKSTEP_THREAD_SAFETY(acquire_capability()) LOCKSTEP_THREAD_SAFETY(no_thread_safety_analysis) {
    std::mutex::lock();
  }
  void unlock() LOCKSTEP_THREAD_SAFETY(release_capability()) LOCKSTEP_THREAD_SAFETY(no_thread_safety_analysis) {
    std::mutex::unlock();
  }
};

// Holds a Mutex from here to the end of its scope, but between unlock() and lock(). It may be given to a condition
// variable and to Clock::wait_until(). To clang the mutex is held while they wait, so code reads again what they wake
// up to.
class LOCKSTEP_THREAD_SAFETY(scoped_lockable) MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) LOCKSTEP_THREAD_SAFETY(acquire_capability(mutex))
      LOCKSTEP_THREAD_SAFETY(no_thread_safety_analysis)
      : std::unique_lock<std::mutex>(mutex) {}
  ~MutexLock() LOCKSTEP_THREAD_SAFETY(release_capability()) {}

  void lock() LOCKSTEP_THREAD_SAFETY(acquire_capability()) LOCKSTEP_THREAD_SAFETY(no_thread_safety_analysis) {
    std::unique_lock<std::mutex>::lock();
  }
  void unlock() LOCKSTEP_THREAD_SAFETY(release_capability()) LOCKSTEP_THREAD_SAFETY(no_thread_safety_analysis) {
    std::unique_lock<std::mutex>::unlock();
  }
};

}  // namespace lockstep
