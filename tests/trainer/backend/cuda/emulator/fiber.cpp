#include "tests/trainer/backend/cuda/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// lockstep_switch_stack(save, to): pushes what a call preserves, stores the stack in *save and goes on at `to`, which
// an earlier call (or Fiber::start) has left.
extern "C" void lockstep_switch_stack(void** save, void* to);
asm(R"(
.text
.type lockstep_switch_stack, @function
lockstep_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_switch_stack, .-lockstep_switch_stack
)");

namespace lockstep::trainer::cuda::emulator {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 256 * 1024;  // the sanitizers' frames are large; only pages that are touched cost memory
constexpr size_t kSaved = 6;           // registers that lockstep_switch_stack pops

thread_local Fiber* entering = nullptr;

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE) != 0) {
    std::fputs("the emulator of kernels has no memory for a stack\n", stderr);
    std::abort();
  }
  memory_ = static_cast<std::byte*>(memory);
#ifdef __SANITIZE_THREAD__
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  munmap(memory_, kBytes);
}

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  returned_ = false;
  // As if enter() had been called: the address of its return, which is never used, ends a frame that is aligned to 16.
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + kBytes);
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  for (size_t i = 0; i < kSaved; ++i) *--top = 0;
  stack_ = top;
}

bool Fiber::resume() {
  entering = this;
  switch_to_body();
  return returned_;
}

void Fiber::yield() {
  switch_to_caller(false);
}

void Fiber::enter() {
  Fiber* self = entering;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->callers_bottom_, &self->callers_bytes_);
#endif
  self->body_(self->argument_);
  self->returned_ = true;
  self->switch_to_caller(true);
}

void Fiber::switch_to_body() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&callers_fake_stack_, memory_, kBytes);
#endif
#ifdef __SANITIZE_THREAD__
  tsan_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  lockstep_switch_stack(&caller_, stack_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(callers_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::switch_to_caller(bool last) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_stack_, callers_bottom_, callers_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
  static_cast<void>(last);
  lockstep_switch_stack(&stack_, caller_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, &callers_bottom_, &callers_bytes_);
#endif
}

}  // namespace lockstep::trainer::cuda::emulator
