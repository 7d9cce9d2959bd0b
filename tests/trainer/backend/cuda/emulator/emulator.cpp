#include "tests/trainer/backend/cuda/emulator/emulator.h"

#include <atomic>
#include <utility>

#include "tests/trainer/backend/cuda/emulator/block.h"
#include "tests/trainer/backend/cuda/emulator/violation.h"

namespace lockstep::trainer::cuda::emulator {

namespace {

std::atomic<Order> current_order{Order::kAscending};
Hooks hooks;

}  // namespace

void set_order(Order order) {
  current_order = order;
}

void set_hooks(const Hooks& to) {
  hooks = to;
}

void* inside(const void* pointer) {
  return hooks.inside(pointer);
}

CudaError launch_on(CudaStream* stream, const char* kernel, const LaunchSize& size,
                    std::function<void(bool translate)> work) {
  if (size.blocks <= 0) return CudaError::kSuccess;
  if (size.blocks > kMaxBlocks || size.threads < 1 || size.threads > kMaxThreads ||
      size.shared_bytes > kMaxSharedBytes) {
    return CudaError::kInvalidConfiguration;
  }
  if (stream == nullptr) {
    work(false);
    return CudaError::kSuccess;
  }
  if (hooks.enqueue == nullptr || hooks.inside == nullptr) violation("a launch on a stream, but no runtime set hooks");
  return hooks.enqueue(stream, kernel, [work = std::move(work)] { work(true); });
}

void run_blocks(const LaunchSize& size, const std::function<void()>& kernel) {
  thread_local Block block;
  block.run_all(size, current_order, kernel);
}

}  // namespace lockstep::trainer::cuda::emulator
