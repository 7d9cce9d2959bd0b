// Functions that take turns on one thread of the system, each on a stack of its own. x86-64 only.
#pragma once

#include <cstddef>

namespace lockstep::trainer::cuda::emulator {

// Not copyable: its stack holds its address. One thread of the system resumes it and destroys it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls body(argument). The one before must have returned. The body may not throw.
  void start(void (*body)(void*), void* argument);
  // Runs the body until it calls yield() or returns. Whether it has returned.
  bool resume();
  // From inside the body: back to resume().
  void yield();

 private:
  static void enter();
  void switch_to_body();
  void switch_to_caller(bool last);

  std::byte* memory_;       // kBytes, the lowest page of which cannot be touched
  void* stack_ = nullptr;   // of the body while it is not running
  void* caller_ = nullptr;  // the stack of resume() while the body runs
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool returned_ = true;
  // What the sanitizers know about the two stacks.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] void* callers_fake_stack_ = nullptr;
  [[maybe_unused]] const void* callers_bottom_ = nullptr;
  [[maybe_unused]] size_t callers_bytes_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* tsan_caller_ = nullptr;
};

}  // namespace lockstep::trainer::cuda::emulator
