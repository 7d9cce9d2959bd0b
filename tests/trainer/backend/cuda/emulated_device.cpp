// Lets kernels that run on the emulator take their turn in the streams of the fake runtime. Part of each program that
// is linked with both.
#include <functional>
#include <utility>

#include "tests/trainer/backend/cuda/emulator/emulator.h"
#include "tests/trainer/cuda/fake_cuda.h"

namespace lockstep::trainer::cuda {
namespace {

CudaError enqueue(CudaStream* stream, const char* kernel, std::function<void()> work) {
  return fake::launch(stream, std::move(work), kernel);
}

void* inside(const void* pointer) {
  return fake::inside(pointer);
}

[[maybe_unused]] const bool kHooked = [] {
  emulator::set_hooks({.enqueue = enqueue, .inside = inside});
  return true;
}();

}  // namespace
}  // namespace lockstep::trainer::cuda
