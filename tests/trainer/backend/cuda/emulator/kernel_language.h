// What a .cu file sees of CUDA when g++ compiles it for the emulator. That is keywords, variables and functions, as far
// as the kernels of trainer/backend/cuda/kernels use them.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "tests/trainer/backend/cuda/emulator/emulator.h"
#include "tests/trainer/backend/cuda/emulator/shared_array.h"

// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses): the names are CUDA's.
#define __global__
#define __device__

namespace lockstep::trainer::cuda::emulator {

struct Index {
  unsigned x = 0;
};

// Of the thread that runs.
Index thread_index();
Index block_index();
Index block_size();

void wait_at_barrier(const char* file, int line);
// Gives each lane of the warp the bits that lane `from` brings. The lanes of a warp must all call it.
std::uint64_t exchange(std::uint64_t bits, unsigned from);

template <typename T>
T shuffle(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (mask != 0xffffffffU) from = ~0U;  // refused: the kernels shuffle whole warps
  return std::bit_cast<T>(static_cast<Bits>(exchange(std::bit_cast<Bits>(value), from)));
}

template <typename Parameter, typename Argument>
Parameter argument_of(Argument argument, bool translate) {
  Parameter parameter = argument;
  if constexpr (std::is_pointer_v<Parameter>) {
    if (translate && parameter != nullptr) return static_cast<Parameter>(inside(parameter));
  } else {
    static_assert(std::is_trivially_copyable_v<Parameter>);
  }
  return parameter;
}

}  // namespace lockstep::trainer::cuda::emulator

#define threadIdx (::lockstep::trainer::cuda::emulator::thread_index())
#define blockIdx (::lockstep::trainer::cuda::emulator::block_index())
#define blockDim (::lockstep::trainer::cuda::emulator::block_size())
#define __syncthreads() (::lockstep::trainer::cuda::emulator::wait_at_barrier(__FILE__, __LINE__))

// Each place in the code that says this is one array of the block.
#define LOCKSTEP_SHARED(type, name, count)                            \
  static const char name##_place = 0;                                 \
  const ::lockstep::trainer::cuda::emulator::SharedArray<type> name = \
      ::lockstep::trainer::cuda::emulator::shared_array<type>(&name##_place, #name, count)
#define LOCKSTEP_DYNAMIC_SHARED(type, name)                           \
  const ::lockstep::trainer::cuda::emulator::SharedArray<type> name = \
      ::lockstep::trainer::cuda::emulator::dynamic_shared_array<type>(#name)

namespace lockstep::trainer::cuda {

template <typename T>
using Shared = emulator::SharedArray<T>;

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return emulator::shuffle(mask, value, (emulator::thread_index().x % 32) ^ static_cast<unsigned>(lanes));
}

// Atomic by themselves: the threads of a launch take turns.
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <typename T>
T atomicMax(T* at, T value) {
  const T before = *at;
  *at = before < value ? value : before;
  return before;
}
template <typename T>
T atomicMin(T* at, T value) {
  const T before = *at;
  *at = value < before ? value : before;
  return before;
}

// Rounded once, to nearest: what the host's operators do when the compiler may not contract them.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __dsqrt_rn(double a) {
  return std::sqrt(a);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}

using std::isfinite;

// What trainer/backend/cuda/kernels/launch.h promises of launch(). `words` begin with the kernel's name, unless it
// comes by a variable.
template <typename... Parameters, typename... Arguments>
CudaError launch_as(const char* words, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                    size_t shared_bytes, CudaStream* stream, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const emulator::LaunchSize size{.blocks = blocks, .threads = threads, .shared_bytes = shared_bytes};
  return emulator::launch_on(stream, words, size, [=]([[maybe_unused]] bool translate) {
    // Translated once, not by each thread.
    const auto call = [&](Parameters... parameters) { emulator::run_blocks(size, [&] { kernel(parameters...); }); };
    call(emulator::argument_of<Parameters>(arguments, translate)...);
  });
}
#define launch(...) launch_as(#__VA_ARGS__, __VA_ARGS__)

}  // namespace lockstep::trainer::cuda
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
