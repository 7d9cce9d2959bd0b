#include "tests/trainer/comm/fake_cuda.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/trainer/comm/fake_nccl.h"

namespace lockstep::trainer::comm {

struct CudaStream {
  int device = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, closing = false;
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return closing || !queue.empty(); });
      if (queue.empty()) return;
      auto next = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      next();
      next = nullptr;
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
};

struct CudaEvent {
  std::shared_ptr<std::atomic<int>> pending = std::make_shared<std::atomic<int>>(0);
};

namespace fake {
namespace {

constexpr int kDevices = 16;
constexpr size_t kPage = 4096;

thread_local int current_device = 0;

// The state of the fake's machine. Never destroyed: streams may be at work when the process ends.
struct Machine {
  std::mutex mutex;
  std::condition_variable released;
  std::map<CudaStream*, std::shared_ptr<CudaStream>> streams;
  std::map<const std::byte*, size_t> device_memory, pinned_memory;
  int misuses = 0, hanging = 0;
  bool hangs = false, copies_hang = false;
};

Machine& machine() {
  static auto* const instance = new Machine();
  return *instance;
}

bool within(const std::map<const std::byte*, size_t>& memory, const void* at, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(at);
  auto found = memory.upper_bound(first);
  if (found == memory.begin()) return false;
  --found;
  return first + bytes <= found->first + found->second;
}

// Calls that allocate or free memory wait for all work of the GPU.
void drain_device() {
  std::vector<std::shared_ptr<CudaStream>> streams;
  {
    const std::lock_guard guard(machine().mutex);
    for (const auto& [_, stream] : machine().streams) {
      if (stream->device == current_device) streams.push_back(stream);
    }
  }
  for (const auto& stream : streams) stream->drain();
}

CudaError allocate(void** memory, size_t bytes, std::map<const std::byte*, size_t>& of) {
  drain_device();
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  const std::lock_guard guard(machine().mutex);
  of[static_cast<const std::byte*>(*memory)] = bytes;
  return CudaError::kSuccess;
}

CudaError give_back(void* memory, std::map<const std::byte*, size_t>& of) {
  drain_device();
  const std::lock_guard guard(machine().mutex);
  if (of.erase(static_cast<const std::byte*>(memory)) == 0) return CudaError::kInvalidValue;
  std::free(memory);
  return CudaError::kSuccess;
}

}  // namespace

bool put(CudaStream* stream, std::function<void()> work) {
  std::shared_ptr<CudaStream> known;
  {
    const std::lock_guard guard(machine().mutex);
    const auto found = machine().streams.find(stream);
    if (found == machine().streams.end()) return false;
    known = found->second;
  }
  const std::lock_guard guard(known->mutex);
  known->queue.push_back(std::move(work));
  known->changed.notify_all();
  return true;
}

bool on_device(const void* memory, size_t bytes) {
  const std::lock_guard guard(machine().mutex);
  return within(machine().device_memory, memory, bytes);
}

void count_misuse(const char* what) {
  std::fprintf(stderr, "libfakenccl: %s\n", what);
  const std::lock_guard guard(machine().mutex);
  ++machine().misuses;
}

void hang() {
  std::unique_lock lock(machine().mutex);
  machine().hangs = true;
  ++machine().hanging;
  machine().released.wait(lock, [] { return !machine().hangs; });
  --machine().hanging;
}

}  // namespace fake
}  // namespace lockstep::trainer::comm

using namespace lockstep::trainer::comm;
using fake::machine;

extern "C" {

void fake_nccl_release() {
  fake_nccl_hang_aborts(0, 0);
  const std::lock_guard guard(machine().mutex);
  machine().hangs = machine().copies_hang = false;
  machine().released.notify_all();
}

void fake_nccl_hang_copies() {
  const std::lock_guard guard(machine().mutex);
  machine().copies_hang = true;
}

int fake_nccl_hanging() {
  const std::lock_guard guard(machine().mutex);
  return machine().hanging;
}

int fake_nccl_misuses() {
  const std::lock_guard guard(machine().mutex);
  return machine().misuses;
}

CudaError cudaGetDeviceCount(int* count) {
  *count = fake::kDevices;
  return CudaError::kSuccess;
}

CudaError cudaSetDevice(int device) {
  if (device < 0 || device >= fake::kDevices) return CudaError::kInvalidValue;
  fake::current_device = device;
  return CudaError::kSuccess;
}

CudaError cudaStreamCreateWithFlags(CudaStream** stream, unsigned) {
  auto made = std::make_shared<CudaStream>();
  made->device = fake::current_device;
  made->thread = std::thread([&made = *made] { made.work(); });
  *stream = made.get();
  const std::lock_guard guard(machine().mutex);
  machine().streams[made.get()] = made;
  return CudaError::kSuccess;
}

CudaError cudaStreamDestroy(CudaStream* stream) {
  std::shared_ptr<CudaStream> ending;
  {
    const std::lock_guard guard(machine().mutex);
    const auto found = machine().streams.find(stream);
    if (found == machine().streams.end()) return CudaError::kInvalidValue;
    ending = std::move(found->second);
    machine().streams.erase(found);
  }
  {
    const std::lock_guard guard(ending->mutex);
    ending->closing = true;
    ending->changed.notify_all();
  }
  ending->thread.join();
  return CudaError::kSuccess;
}

CudaError cudaEventCreateWithFlags(CudaEvent** event, unsigned) {
  *event = new CudaEvent();
  return CudaError::kSuccess;
}

CudaError cudaEventRecord(CudaEvent* event, CudaStream* stream) {
  event->pending->fetch_add(1);
  const bool known = fake::put(stream, [pending = event->pending] { pending->fetch_sub(1); });
  return known ? CudaError::kSuccess : CudaError::kInvalidValue;
}

CudaError cudaEventQuery(CudaEvent* event) {
  return event->pending->load() == 0 ? CudaError::kSuccess : CudaError::kNotReady;
}

CudaError cudaEventDestroy(CudaEvent* event) {
  delete event;
  return CudaError::kSuccess;
}

CudaError cudaMalloc(void** memory, size_t bytes) {
  return fake::allocate(memory, bytes, machine().device_memory);
}

CudaError cudaFree(void* memory) {
  return fake::give_back(memory, machine().device_memory);
}

CudaError cudaMallocHost(void** memory, size_t bytes) {
  return fake::allocate(memory, bytes, machine().pinned_memory);
}

CudaError cudaFreeHost(void* memory) {
  return fake::give_back(memory, machine().pinned_memory);
}

CudaError cudaMemcpyAsync(void* to, const void* from, size_t bytes, CudaCopy direction, CudaStream* stream) {
  const bool up = direction == CudaCopy::kHostToDevice;
  bool known = false, pinned = false, hangs = false;
  std::shared_ptr<CudaStream> into;
  {
    const std::lock_guard guard(machine().mutex);
    known = fake::within(machine().device_memory, up ? to : from, bytes);
    pinned = fake::within(machine().pinned_memory, up ? from : to, bytes);
    hangs = machine().copies_hang;
    if (const auto found = machine().streams.find(stream); found != machine().streams.end()) into = found->second;
  }
  if (hangs) fake::hang();
  if (!known || !into) {
    fake::count_misuse("a copy with memory or a stream that is none");
    return CudaError::kInvalidValue;
  }
  fake::put(stream, [=] { std::memcpy(to, from, bytes); });
  if (!pinned) into->drain();
  return CudaError::kSuccess;
}

const char* cudaGetErrorString(CudaError error) {
  return error == CudaError::kSuccess ? "no error" : error == CudaError::kNotReady ? "not ready" : "invalid value";
}
}
