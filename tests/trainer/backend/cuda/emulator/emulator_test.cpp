// The emulator must run right kernels in every order, and end the process at wrong ones.
#include "tests/trainer/backend/cuda/emulator/emulator.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/emulator/kernel_language.h"
#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::emulator_test {
namespace {

using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;

enum class Fault { kNone, kFirstBarrier, kSecondBarrier, kOverrun, kUnderrun, kUnwritten };

// y[i] = the sum of x[i] and its neighbours in the block, then the same of y.
__global__ void neighbours(const float* x, float* y, Fault fault) {
  LOCKSTEP_SHARED(float, values, 64);
  const int i = static_cast<int>(threadIdx.x), at = static_cast<int>(blockIdx.x) * 64 + i;
  float own = x[at];
  for (int round = 0; round < 2; ++round) {
    if (fault != Fault::kUnwritten || i != 63) values[i] = own;
    if (fault != Fault::kFirstBarrier) __syncthreads();
    if (i > 0 || fault == Fault::kUnderrun) own += values[i - 1];
    if (i < 63 || fault == Fault::kOverrun) own += values[i + 1];
    if (fault != Fault::kSecondBarrier) __syncthreads();
  }
  y[at] = own;
}

CudaError launch_neighbours(const float* x, float* y, Fault fault) {
  return launch(neighbours, 3, 64, 0, nullptr, x, y, fault);
}

TEST(Emulator, runs_blocks_with_barriers_in_every_order) {
  in_every_order([] {
    Guarded<float> x(std::vector<float>(192, 1)), y(192);
    expect_success(launch_neighbours(x.data(), y.data(), Fault::kNone));
    const std::vector<float> sums = y.values();
    for (size_t i = 0; i < 192; ++i) {
      const size_t place = i % 64, distance = std::min(place, 63 - place);
      EXPECT_EQ(sums[i], distance == 0 ? 5 : distance == 1 ? 8 : 9) << i;
    }
  });
}

// In every order, so that none hides a fault.
void expect_ends(Fault fault, const char* sentence) {
  in_every_order([&] {
    Guarded<float> x(std::vector<float>(192, 1)), y(192);
    EXPECT_DEATH(static_cast<void>(launch_neighbours(x.data(), y.data(), fault)), sentence);
  });
}

TEST(EmulatorDeathTest, a_missing_barrier_after_writes_is_found) {
  expect_ends(Fault::kFirstBarrier, "without a barrier between them|which nobody has written");
}

TEST(EmulatorDeathTest, a_missing_barrier_after_reads_is_found) {
  expect_ends(Fault::kSecondBarrier, "without a barrier between them");
}

TEST(EmulatorDeathTest, an_access_behind_a_shared_array_is_found) {
  expect_ends(Fault::kOverrun, "thread 63: reads element 64 of the shared array 'values', which has 64");
}

TEST(EmulatorDeathTest, an_access_before_a_shared_array_is_found) {
  expect_ends(Fault::kUnderrun, "thread 0: reads element -1 of the shared array 'values', which has 64");
}

TEST(EmulatorDeathTest, a_read_of_shared_memory_that_nobody_wrote_is_found) {
  expect_ends(Fault::kUnwritten, "reads element 63 of the shared array 'values', which nobody has written");
}

__global__ void write_all(float* y, std::int64_t count, bool checks) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (!checks || i < count) y[i] = 1;
}

TEST(Emulator, guards_of_arrays_find_a_thread_out_of_range) {
  const auto run = [](bool checks) {
    Guarded<float> y(100);
    expect_success(launch(write_all, 2, 64, 0, nullptr, y.data(), std::int64_t{100}, checks));
  };
  run(true);
  EXPECT_NONFATAL_FAILURE(run(false), "wrote around an array of 100 elements, at element 100");
}

enum class Parting { kReturns, kOtherBarrier };

__global__ void part_at_barrier(Parting parting) {
  if (threadIdx.x == 40 && parting == Parting::kReturns) return;
  if (threadIdx.x == 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(EmulatorDeathTest, a_barrier_that_a_thread_does_not_reach_is_found) {
  in_every_order([] {
    EXPECT_DEATH(static_cast<void>(launch(part_at_barrier, 1, 64, 0, nullptr, Parting::kReturns)),
                 "thread 40: has returned, but others of its block wait at a barrier");
    EXPECT_DEATH(static_cast<void>(launch(part_at_barrier, 1, 64, 0, nullptr, Parting::kOtherBarrier)),
                 "thread 40: waits at the barrier in line .*, but thread 0 at that in line");
  });
}

__global__ void take_numbers(unsigned long long* next, unsigned long long* number) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  number[at] = atomicAdd(next, 1ULL);
  __syncthreads();
  number[128 + at] = atomicAdd(next, 1ULL);
}

TEST(Emulator, runs_each_thread_once_between_barriers_and_each_order_differs) {
  std::set<std::vector<unsigned long long>> orders;
  in_every_order([&] {
    Guarded<unsigned long long> next(std::vector<unsigned long long>{0}), number(256);
    expect_success(launch(take_numbers, 2, 64, 0, nullptr, next.data(), number.data()));
    const std::vector<unsigned long long> taken = number.values();
    EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), 256U) << "a thread ran twice, or not at all";
    for (size_t block = 0; block < 2; ++block) {
      const auto before = taken.begin() + static_cast<std::ptrdiff_t>(64 * block), after = before + 128;
      EXPECT_LT(*std::max_element(before, before + 64), *std::min_element(after, after + 64));
    }
    orders.insert(taken);
  });
  EXPECT_EQ(orders.size(), static_cast<size_t>(emulator::kOrders));
}

// Lane by lane, sums of all lanes by ever wider exchanges. `absent`: a lane that takes no part; -1: none.
__global__ void sum_warps(const std::int64_t* x, std::int64_t* y, int absent) {
  const int i = static_cast<int>(threadIdx.x);
  std::int64_t sum = x[i];
  if (i == absent) return;
  for (int lanes = 1; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  y[i] = sum;
}

TEST(Emulator, shuffles_bits_between_the_lanes_of_a_warp) {
  in_every_order([] {
    std::vector<std::int64_t> numbers(64);
    for (size_t i = 0; i < 64; ++i) numbers[i] = std::int64_t{1} << (i % 32 + i / 32);
    Guarded<std::int64_t> x(numbers), y(64);
    expect_success(launch(sum_warps, 1, 64, 0, nullptr, x.data(), y.data(), -1));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(y.data()[i], 0xffffffffLL << (i / 32));
  });
}

TEST(EmulatorDeathTest, a_shuffle_that_a_lane_takes_no_part_in_is_found) {
  in_every_order([] {
    Guarded<std::int64_t> x(64), y(64);
    EXPECT_DEATH(static_cast<void>(launch(sum_warps, 1, 64, 0, nullptr, x.data(), y.data(), 37)),
                 "shuffles with its warp, but thread 37 has returned");
  });
}

TEST(EmulatorDeathTest, a_shuffle_in_a_part_of_a_warp_is_found) {
  Guarded<std::int64_t> x(40), y(40);
  EXPECT_DEATH(static_cast<void>(launch(sum_warps, 1, 40, 0, nullptr, x.data(), y.data(), -1)),
               "shuffles in a block whose last warp is not whole");
}

// Reverses a block through the shared memory that the launch asks for.
__global__ void reverse(const float* x, float* y) {
  LOCKSTEP_DYNAMIC_SHARED(float, values);
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulator, gives_a_block_the_shared_memory_of_its_launch) {
  Guarded<float> x(std::vector<float>{1, 2, 3}), y(3);
  expect_success(launch(reverse, 1, 3, 3 * sizeof(float), nullptr, x.data(), y.data()));
  EXPECT_EQ(y.values(), (std::vector<float>{3, 2, 1}));
}

TEST(EmulatorDeathTest, a_launch_with_too_little_shared_memory_is_found) {
  Guarded<float> x(std::vector<float>{1, 2, 3}), y(3);
  EXPECT_DEATH(static_cast<void>(launch(reverse, 1, 3, 2 * sizeof(float), nullptr, x.data(), y.data())),
               "thread 2: writes element 2 of the shared array 'values', which has 2");
}

__global__ void too_much() {
  LOCKSTEP_SHARED(double, values, 4096);
  values[threadIdx.x] = 1;
}

TEST(EmulatorDeathTest, more_shared_memory_than_a_block_has_is_found) {
  EXPECT_EQ(launch(too_much, 1, 32, 16 * 1024, nullptr), CudaError::kSuccess);
  EXPECT_DEATH(static_cast<void>(launch(too_much, 1, 32, 16 * 1024 + 1, nullptr)),
               "the block has 49153 bytes of shared memory");
}

TEST(Emulator, refuses_launches_that_no_device_takes) {
  const auto size = [](std::int64_t blocks, int threads, size_t shared_bytes) {
    return launch(write_all, blocks, threads, shared_bytes, nullptr, static_cast<float*>(nullptr), std::int64_t{0},
                  true);
  };
  EXPECT_EQ(size(1, 1024, 0), CudaError::kSuccess);
  EXPECT_EQ(size(0, 1024, 0), CudaError::kSuccess);
  EXPECT_EQ(size(1, 1025, 0), CudaError::kInvalidConfiguration);
  EXPECT_EQ(size(1, 0, 0), CudaError::kInvalidConfiguration);
  EXPECT_EQ(size(std::int64_t{1} << 31, 32, 0), CudaError::kInvalidConfiguration);
  EXPECT_EQ(size(1, 32, 48 * 1024 + 1), CudaError::kInvalidConfiguration);
}

// A stream that keeps its work, on a device whose memory lies 16 bytes further for its work than for others.
std::vector<std::function<void()>>& stream_work() {
  static std::vector<std::function<void()>> work;
  return work;
}

TEST(Emulator, hands_launches_on_a_stream_to_the_hook_and_translates_pointers) {
  emulator::set_hooks({.enqueue =
                           [](CudaStream*, const char* kernel, std::function<void()> work) {
                             EXPECT_EQ(std::string_view(kernel).substr(0, 10), "write_all,");
                             stream_work().push_back(std::move(work));
                             return CudaError::kNotReady;
                           },
                       .inside =
                           [](const void* pointer) {
                             return static_cast<void*>(static_cast<char*>(const_cast<void*>(pointer)) + 16);
                           }});
  int place = 0;
  auto* stream = reinterpret_cast<CudaStream*>(&place);
  Guarded<float> y(std::vector<float>(4, 0));
  EXPECT_EQ(launch(write_all, 1, 32, 0, stream, y.data(), std::int64_t{0}, true), CudaError::kNotReady);
  EXPECT_EQ(launch(write_all, 1, 32, 0, stream, y.data() - 3, std::int64_t{2}, true), CudaError::kNotReady);
  EXPECT_EQ(launch(write_all, 1, 32, 0, stream, static_cast<float*>(nullptr), std::int64_t{0}, true),
            CudaError::kNotReady);
  EXPECT_EQ(y.values(), std::vector<float>(4, 0)) << "ran at once";
  ASSERT_EQ(stream_work().size(), 3U);
  for (const auto& work : stream_work()) work();
  EXPECT_EQ(y.values(), (std::vector<float>{0, 1, 1, 0}));
  stream_work().clear();
  emulator::set_hooks({});
}

TEST(EmulatorDeathTest, a_stream_without_hooks_is_found) {
  int place = 0;
  auto* stream = reinterpret_cast<CudaStream*>(&place);
  EXPECT_DEATH(static_cast<void>(launch(too_much, 1, 32, 0, stream)), "a launch on a stream, but no runtime set hooks");
}

}  // namespace
}  // namespace lockstep::trainer::cuda::emulator_test
