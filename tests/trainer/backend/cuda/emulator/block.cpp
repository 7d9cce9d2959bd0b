#include "tests/trainer/backend/cuda/emulator/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

#include "tests/trainer/backend/cuda/emulator/kernel_language.h"
#include "tests/trainer/backend/cuda/emulator/violation.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::cuda::emulator {

namespace {

thread_local Block* running_block = nullptr;

// The numbers 0 to count - 1 in the order.
std::vector<int> turns_of(Order order, int count) {
  std::vector<int> turns(static_cast<size_t>(count));
  std::iota(turns.begin(), turns.end(), 0);
  const auto sort_by = [&](auto key) {
    std::stable_sort(turns.begin(), turns.end(), [&](int a, int b) { return key(a) < key(b); });
  };
  switch (order) {
    case Order::kAscending:
      break;
    case Order::kDescending:
      std::reverse(turns.begin(), turns.end());
      break;
    case Order::kLanesFirst:
      sort_by([](int i) { return i % kWarp; });
      break;
    case Order::kWarpsFirst:
      sort_by([](int i) { return -(i / kWarp); });
      break;
    case Order::kShuffled:
      sort_by([](int i) { return core::mix(static_cast<std::uint64_t>(i)); });
      break;
  }
  return turns;
}

// The number of the block that runs as the `turn`-th of `blocks`.
std::int64_t block_at(Order order, std::int64_t turn, std::int64_t blocks) {
  const std::int64_t even = (blocks + 1) / 2;
  switch (order) {
    case Order::kAscending:
      return turn;
    case Order::kLanesFirst:
      return turn < even ? 2 * turn : 2 * (turn - even) + 1;
    case Order::kDescending:
    case Order::kWarpsFirst:
      return blocks - 1 - turn;
    case Order::kShuffled:
      break;
  }
  return (turn + blocks / 3) % blocks;
}

}  // namespace

void violation(const std::string& sentence) {
  const Block* block = Block::current();
  const std::string where =
      block == nullptr ? std::string() : fmt::format(", block {}, thread {}", block->number(), block->thread());
  std::fputs(fmt::format("emulated kernel{}: {}\n", where, sentence).c_str(), stderr);
  std::abort();
}

Block* Block::current() {
  return running_block;
}

void Block::run_all(const LaunchSize& size, Order order, const std::function<void()>& kernel) {
  if (running_block != nullptr) violation("a kernel launches a kernel");
  running_block = this;
  size_ = size;
  order_ = order;
  turns_ = turns_of(order, size.threads);
  while (threads_.size() < turns_.size()) threads_.push_back(std::make_unique<Thread>());
  for (std::int64_t turn = 0; turn < size.blocks; ++turn) {
    number_ = block_at(order, turn, size.blocks);
    run_one(kernel);
  }
  running_block = nullptr;
}

void Block::run_one(const std::function<void()>& kernel) {
  ++barriers_;
  arrays_made_ = 0;
  shared_bytes_ = size_.shared_bytes;
  const auto body = [](void* function) { (*static_cast<const std::function<void()>*>(function))(); };
  for (const int i : turns_) {
    Thread& thread = *threads_[static_cast<size_t>(i)];
    thread.fiber.start(body, const_cast<std::function<void()>*>(&kernel));
    thread.state = State::kCanRun;
    thread.shuffles = 0;
  }
  while (true) {
    bool progress = false;
    if (order_ == Order::kWarpsFirst) {
      for (int begin = 0; begin < size_.threads; begin += kWarp) {
        while (pass(begin, std::min(begin + kWarp, size_.threads))) progress = true;
      }
    } else {
      progress = pass(0, size_.threads);
    }
    if (progress) continue;
    if (all_returned()) return;
    release_barrier();
  }
}

// Gives a turn to each thread at the places [begin, end) of turns_ that can run. Whether any did.
bool Block::pass(int begin, int end) {
  bool progress = false;
  for (int place = begin; place < end; ++place) {
    const int i = turns_[static_cast<size_t>(place)];
    if (!can_run(i)) continue;
    progress = true;
    running_ = i;
    Thread& thread = *threads_[static_cast<size_t>(i)];
    thread.state = State::kCanRun;
    if (thread.fiber.resume()) thread.state = State::kReturned;
  }
  return progress;
}

bool Block::can_run(int i) {
  const Thread& thread = *threads_[static_cast<size_t>(i)];
  if (thread.state != State::kAtShuffle) return thread.state == State::kCanRun;
  const int first = i - i % kWarp;
  for (int lane = first; lane < std::min(first + kWarp, size_.threads); ++lane) {
    const Thread& other = *threads_[static_cast<size_t>(lane)];
    if (other.shuffles >= thread.shuffles) continue;
    if (other.state == State::kCanRun || other.state == State::kAtShuffle) return false;
    running_ = i;
    violation(fmt::format("shuffles with its warp, but thread {} {}", lane,
                          other.state == State::kReturned ? "has returned" : "waits at a barrier"));
  }
  return true;
}

// Nobody can run, and somebody has not returned.
void Block::release_barrier() {
  const Thread* first = nullptr;
  for (int i = 0; i < size_.threads; ++i) {
    const Thread& thread = *threads_[static_cast<size_t>(i)];
    running_ = i;
    if (thread.state == State::kReturned) violation("has returned, but others of its block wait at a barrier");
    if (first == nullptr) first = &thread;
    if (first->line != thread.line || std::string(first->file) != thread.file) {
      violation(
          fmt::format("waits at the barrier in line {}, but thread 0 at that in line {}", thread.line, first->line));
    }
  }
  ++barriers_;
  for (int i = 0; i < size_.threads; ++i) threads_[static_cast<size_t>(i)]->state = State::kCanRun;
}

bool Block::all_returned() const {
  return std::all_of(threads_.begin(), threads_.begin() + size_.threads,
                     [](const auto& thread) { return thread->state == State::kReturned; });
}

void Block::wait_at_barrier(const char* file, int line) {
  Thread& thread = *threads_[static_cast<size_t>(running_)];
  thread.state = State::kAtBarrier;
  thread.file = file;
  thread.line = line;
  thread.fiber.yield();
}

std::uint64_t Block::exchange(std::uint64_t bits, unsigned from) {
  if (from >= kWarp) violation("shuffles with a part of its warp, or from a lane that is none");
  const int i = running_, lane = i - i % kWarp + static_cast<int>(from);
  if (size_.threads % kWarp != 0) violation("shuffles in a block whose last warp is not whole");
  Thread& thread = *threads_[static_cast<size_t>(i)];
  // A lane is at most one shuffle ahead of another, so the last two are enough.
  const size_t slot = ++thread.shuffles % 2;
  thread.brought[slot] = bits;
  thread.state = State::kAtShuffle;
  thread.fiber.yield();
  return threads_[static_cast<size_t>(lane)]->brought[slot];
}

SharedMemory& Block::shared_memory(const void* place, const char* name, size_t width, size_t count) {
  for (size_t i = 0; i < arrays_made_; ++i) {
    if (arrays_[i].place == place) return arrays_[i];
  }
  shared_bytes_ += width * count;
  if (shared_bytes_ > kMaxSharedBytes) violation(fmt::format("the block has {} bytes of shared memory", shared_bytes_));
  return make(place, name, width, count);
}

SharedMemory& Block::dynamic_shared_memory(const char* name, size_t width) {
  for (size_t i = 0; i < arrays_made_; ++i) {
    if (arrays_[i].place == nullptr) return arrays_[i];
  }
  return make(nullptr, name, width, size_.shared_bytes / width);
}

SharedMemory& Block::make(const void* place, const char* name, size_t width, size_t count) {
  if (arrays_made_ == arrays_.size()) arrays_.emplace_back();
  SharedMemory& array = arrays_[arrays_made_++];
  array.place = place;
  array.name = name;
  array.width = width;
  array.count = count;
  array.bytes.resize(width * count);
  array.touches.assign(count, {});
  return array;
}

namespace {

SharedMemory::Touch& touch(SharedMemory& memory, std::int64_t index, const char* does) {
  if (index < 0 || static_cast<size_t>(index) >= memory.count) {
    violation(
        fmt::format("{} element {} of the shared array '{}', which has {}", does, index, memory.name, memory.count));
  }
  return memory.touches[static_cast<size_t>(index)];
}

void race(const SharedMemory& memory, std::int64_t index, const char* does, const char* did, int other) {
  violation(fmt::format("{} element {} of the shared array '{}', which {} {} without a barrier between them", does,
                        index, memory.name,
                        other == SharedMemory::kSeveral ? "several threads" : fmt::format("thread {}", other), did));
}

}  // namespace

void check_read(SharedMemory& memory, std::int64_t index) {
  const Block& block = *Block::current();
  SharedMemory::Touch& last = touch(memory, index, "reads");
  if (last.write_barrier == 0) {
    violation(fmt::format("reads element {} of the shared array '{}', which nobody has written", index, memory.name));
  }
  if (last.write_barrier == block.barriers() && last.writer != block.thread()) {
    race(memory, index, "reads", "writes", last.writer);
  }
  const bool others = last.read_barrier == block.barriers() && last.reader != block.thread();
  last.reader = others ? SharedMemory::kSeveral : block.thread();
  last.read_barrier = block.barriers();
}

void check_write(SharedMemory& memory, std::int64_t index) {
  const Block& block = *Block::current();
  SharedMemory::Touch& last = touch(memory, index, "writes");
  if (last.write_barrier == block.barriers() && last.writer != block.thread()) {
    race(memory, index, "writes", "writes", last.writer);
  }
  if (last.read_barrier == block.barriers() && last.reader != block.thread()) {
    race(memory, index, "writes", "reads", last.reader);
  }
  last.writer = block.thread();
  last.write_barrier = block.barriers();
}

SharedMemory& shared_memory(const void* place, const char* name, size_t width, size_t count) {
  return Block::current()->shared_memory(place, name, width, count);
}

SharedMemory& dynamic_shared_memory(const char* name, size_t width) {
  return Block::current()->dynamic_shared_memory(name, width);
}

Index thread_index() {
  return {static_cast<unsigned>(Block::current()->thread())};
}
Index block_index() {
  return {static_cast<unsigned>(Block::current()->number())};
}
Index block_size() {
  return {static_cast<unsigned>(Block::current()->size().threads)};
}

void wait_at_barrier(const char* file, int line) {
  Block::current()->wait_at_barrier(file, line);
}

std::uint64_t exchange(std::uint64_t bits, unsigned from) {
  return Block::current()->exchange(bits, from);
}

}  // namespace lockstep::trainer::cuda::emulator
