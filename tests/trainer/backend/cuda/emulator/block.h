// The block of threads that runs: its fibers, what they wait for, and its shared memory. One for each thread of the
// system that runs kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/trainer/backend/cuda/emulator/emulator.h"
#include "tests/trainer/backend/cuda/emulator/fiber.h"
#include "tests/trainer/backend/cuda/emulator/shared_array.h"

namespace lockstep::trainer::cuda::emulator {

inline constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;
inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kMaxSharedBytes = 48 * 1024;
inline constexpr int kWarp = 32;

class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs the kernel for each thread of each block.
  void run_all(const LaunchSize& size, Order order, const std::function<void()>& kernel);
  // The block that the calling thread runs; null outside of a launch.
  static Block* current();

  int thread() const { return running_; }
  std::int64_t number() const { return number_; }
  const LaunchSize& size() const { return size_; }

  // For the running thread; kernel_language.h says what they do.
  void wait_at_barrier(const char* file, int line);
  std::uint64_t exchange(std::uint64_t bits, unsigned from);
  SharedMemory& shared_memory(const void* place, const char* name, size_t width, size_t count);
  SharedMemory& dynamic_shared_memory(const char* name, size_t width);
  // Barriers that blocks have passed on this thread of the system, from 1.
  std::uint64_t barriers() const { return barriers_; }

 private:
  enum class State { kCanRun, kAtBarrier, kAtShuffle, kReturned };
  struct Thread {
    Fiber fiber;
    State state = State::kReturned;
    const char* file = "";  // of the barrier that it waits at
    int line = 0;
    std::uint64_t shuffles = 0;                 // that it has brought bits to
    std::array<std::uint64_t, 2> brought = {};  // to the last two of them
  };

  void run_one(const std::function<void()>& kernel);
  bool pass(int begin, int end);
  bool can_run(int thread);
  void release_barrier();
  bool all_returned() const;
  SharedMemory& make(const void* place, const char* name, size_t width, size_t count);

  LaunchSize size_;
  Order order_ = Order::kAscending;
  std::int64_t number_ = 0;
  int running_ = 0;
  std::uint64_t barriers_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;  // as many as any block has had
  std::vector<int> turns_;                        // the threads in the order in which they run
  std::deque<SharedMemory> arrays_;               // as many as any block has had; a deque keeps addresses
  size_t arrays_made_ = 0;                        // of this block
  size_t shared_bytes_ = 0;                       // of this block
};

}  // namespace lockstep::trainer::cuda::emulator
