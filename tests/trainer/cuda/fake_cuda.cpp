#include "tests/trainer/cuda/fake_cuda.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/trainer/cuda/fake_memory.h"
#include "tests/trainer/cuda/fake_streams.h"

namespace lockstep::trainer::cuda::fake {
namespace {

constexpr int kRuntimeVersion = 13020;

long environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

// Of FAKE_CUDA_KILL.
struct Kill {
  Kill() {
    const char* text = std::getenv("FAKE_CUDA_KILL");
    const std::string_view given = text == nullptr ? "" : text;
    const size_t colon = given.find(':');
    if (colon == std::string_view::npos) return;
    name = given.substr(0, colon);
    left = std::atol(text + colon + 1);
  }
  // Whether the process dies in this kernel.
  bool is(const char* kernel) { return left > 0 && std::string_view(kernel).starts_with(name) && --left == 0; }

  std::string name;
  std::atomic<long> left{0};  // kernels of the name up to that one; 0: none
};

// The state of the fake's machine. Never destroyed: streams may be at work when the process ends.
struct Machine {
  const int driver = static_cast<int>(environment("FAKE_CUDA_DRIVER", kRuntimeVersion));
  const int devices = static_cast<int>(
      std::clamp(environment("FAKE_CUDA_DEVICES", Streams::kMostDevices), 0L, long{Streams::kMostDevices}));
  const size_t memory = static_cast<size_t>(environment("FAKE_CUDA_MEMORY_MIB", 4096)) << 20;
  const size_t others = static_cast<size_t>(environment("FAKE_CUDA_OTHERS_MIB", 0)) << 20;
  std::atomic<long> looks{environment("FAKE_CUDA_OTHERS_LOOKS", -1)};  // until that is given back; below 0: it never is
  const int capability = static_cast<int>(environment("FAKE_CUDA_CAPABILITY", 90));
  const CudaError launch_error = static_cast<CudaError>(environment("FAKE_CUDA_LAUNCH_ERROR", 0));
  Streams streams{environment("FAKE_CUDA_EAGER", 0) != 0 ? 0 : kMostHeldBack};
  DeviceMemory device_memory;
  PinnedMemory pinned_memory;
  std::atomic<long> kernels_left{environment("FAKE_CUDA_FAIL_AFTER", -1)};  // until one fails; below 0: none does
  std::atomic<bool> copies_hang{false};
  Kill kill;

  std::mutex mutex;
  std::optional<std::vector<Enqueued>> list;
  std::condition_variable released;
  int hanging = 0;
  std::uint64_t releases = 0;

  size_t most() const { return memory - (looks == 0 ? 0 : std::min(memory, others)); }  // for this process
};

Machine& machine() {
  static auto* const instance = new Machine();
  return *instance;
}

thread_local int current_device = 0;
thread_local CudaError last_error = CudaError::kSuccess;

CudaError said(CudaError error) {
  if (error != CudaError::kSuccess) last_error = error;
  return error;
}

// The end of a call: an error of the device's work comes before its own.
CudaError end_call(CudaError error = CudaError::kSuccess) {
  const CudaError lost = machine().streams.lost(current_device);
  return said(lost != CudaError::kSuccess ? lost : error);
}

CudaError end_query(std::optional<bool> done, const char* what) {
  if (!done) refuse(what);
  return end_call(*done ? CudaError::kSuccess : CudaError::kNotReady);
}

bool usable() {
  return machine().driver >= kRuntimeVersion / 1000 * 1000;
}

std::byte* must_be_inside(const void* address, size_t bytes, const char* what) {
  std::byte* const found = machine().device_memory.inside(address, bytes);
  if (found != nullptr) return found;
  const bool pinned = machine().pinned_memory.holds(address, 0);
  refuse(fmt::format("{}: {} bytes at {} are not within an allocation of the device{}", what, bytes, address,
                     pinned ? " but pinned memory of the host" : ""));
}

// Whether the host's memory is pinned.
bool must_be_hosts(const void* address, size_t bytes) {
  if (machine().device_memory.inside(address, 0) != nullptr) {
    refuse(fmt::format("a copy: {} is memory of the device, and was given as the host's", address));
  }
  return machine().pinned_memory.holds(address, bytes);
}

void list(CudaStream* stream, const std::string& what) {
  const std::lock_guard guard(machine().mutex);
  if (machine().list) machine().list->push_back({stream, what});
}

void put_in(CudaStream* stream, std::function<void()> work) {
  if (!machine().streams.put(stream, std::move(work), Streams::Hold::kBack)) refuse("work for a stream that is none");
}

void copy_up(void* to, const void* from, size_t bytes, CudaStream* stream) {
  std::byte* const inside = must_be_inside(to, bytes, "a copy to the device");
  list(stream, fmt::format("up {}", bytes));
  if (must_be_hosts(from, bytes)) {
    put_in(stream, [=] { std::memcpy(inside, from, bytes); });
    return;
  }
  if (!machine().streams.wait(stream)) refuse("a copy in a stream that is none");
  const auto* first = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
  put_in(stream, [=] { std::memcpy(inside, staged->data(), bytes); });
}

void copy_down(void* to, const void* from, size_t bytes, CudaStream* stream) {
  const std::byte* const inside = must_be_inside(from, bytes, "a copy from the device");
  const bool pinned = must_be_hosts(to, bytes);
  put_in(stream, [=] { std::memcpy(to, inside, bytes); });
  if (!pinned) machine().streams.wait(stream);
}

}  // namespace

void kill_process(const std::string& doing) {
  std::fprintf(stderr, "libfakecuda: killed in %s\n", doing.c_str());
  std::fflush(stderr);
  ::kill(::getpid(), SIGKILL);
  std::abort();  // never reached
}

void begin_list() {
  const std::lock_guard guard(machine().mutex);
  machine().list.emplace();
}

std::vector<Enqueued> end_list() {
  const std::lock_guard guard(machine().mutex);
  return std::exchange(machine().list, std::nullopt).value_or(std::vector<Enqueued>());
}

CudaError launch(CudaStream* stream, std::function<void()> kernel, const char* name) {
  Streams& streams = machine().streams;
  const std::optional<int> device = streams.device_of(stream);
  if (device != current_device) return said(CudaError::kInvalidResourceHandle);
  if (machine().launch_error != CudaError::kSuccess) return said(machine().launch_error);
  std::atomic<long>& left = machine().kernels_left;
  long before = left.load();
  while (before >= 0 && !left.compare_exchange_weak(before, before - 1)) {
  }
  if (before == 0) kernel = [&streams, lost = *device] { streams.lose(lost, CudaError::kLaunchFailure); };
  list(stream, name);
  if (machine().kill.is(name)) kernel = [] { kill_process(machine().kill.name); };
  put_in(stream, std::move(kernel));
  return end_call();
}

bool put(CudaStream* stream, std::function<void()> work) {
  return machine().streams.put(stream, std::move(work), Streams::Hold::kNot);
}

void* inside(const void* address) {
  return inside(address, 0);
}

void* inside(const void* address, size_t bytes) {
  return address == nullptr ? nullptr : must_be_inside(address, bytes, "a kernel");
}

bool on_device(const void* address, size_t bytes) {
  return machine().device_memory.inside(address, bytes) != nullptr;
}

void hang() {
  Machine& at = machine();
  std::unique_lock lock(at.mutex);
  ++at.hanging;
  at.released.wait(lock, [&, before = at.releases] { return at.releases != before; });
  --at.hanging;
}

}  // namespace lockstep::trainer::cuda::fake

using namespace lockstep::trainer::cuda;
using namespace lockstep::trainer::cuda::fake;

extern "C" {

void fake_cuda_fail_after(long n) {
  machine().kernels_left = n;
}

void fake_cuda_mend() {
  machine().streams.mend();
}

void fake_cuda_hang_copies() {
  machine().copies_hang = true;
}

int fake_cuda_hanging() {
  const std::lock_guard guard(machine().mutex);
  return machine().hanging;
}

void fake_cuda_release() {
  machine().copies_hang = false;
  const std::lock_guard guard(machine().mutex);
  ++machine().releases;
  machine().released.notify_all();
}

size_t fake_cuda_device_bytes() {
  return machine().device_memory.used();
}

size_t fake_cuda_pinned_bytes() {
  return machine().pinned_memory.used();
}

// --- The device ------------------------------------------------------------------------------------------------------

CudaError cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return CudaError::kSuccess;
}

CudaError cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return CudaError::kSuccess;
}

CudaError cudaGetDeviceCount(int* count) {
  if (!usable()) return said(CudaError::kInsufficientDriver);
  *count = machine().devices;
  return said(machine().devices > 0 ? CudaError::kSuccess : CudaError::kNoDevice);
}

CudaError cudaSetDevice(int device) {
  if (!usable()) return said(CudaError::kInsufficientDriver);
  if (device < 0 || device >= machine().devices) return said(CudaError::kInvalidDevice);
  current_device = device;
  return end_call();
}

CudaError cudaDeviceGetAttribute(int* value, CudaAttribute attribute, int device) {
  if (device < 0 || device >= machine().devices) return said(CudaError::kInvalidDevice);
  switch (attribute) {
    case CudaAttribute::kMultiProcessorCount:
      *value = 4;
      return CudaError::kSuccess;
    case CudaAttribute::kComputeCapabilityMajor:
      *value = machine().capability / 10;
      return CudaError::kSuccess;
    case CudaAttribute::kComputeCapabilityMinor:
      *value = machine().capability % 10;
      return CudaError::kSuccess;
    case CudaAttribute::kMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      return CudaError::kSuccess;
  }
  return said(CudaError::kInvalidValue);
}

CudaError cudaGetDeviceProperties(CudaDeviceProperties* properties, int device) {
  if (device < 0 || device >= machine().devices) return said(CudaError::kInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "a fake of a GPU");
  properties->uuid[15] = static_cast<unsigned char>(device);
  return CudaError::kSuccess;
}

// --- Memory ----------------------------------------------------------------------------------------------------------

CudaError cudaMalloc(void** memory, size_t bytes) {
  machine().streams.wait_for_device(current_device);
  if (const CudaError error = end_call(); error != CudaError::kSuccess) return error;
  *memory = bytes == 0 ? nullptr : machine().device_memory.take(current_device, bytes, machine().most());
  return said(*memory == nullptr && bytes > 0 ? CudaError::kMemoryAllocation : CudaError::kSuccess);
}

CudaError cudaFree(void* memory) {
  machine().streams.wait_for_device(current_device);
  const bool known = memory == nullptr || machine().device_memory.give_back(memory);
  return end_call(known ? CudaError::kSuccess : CudaError::kInvalidValue);
}

CudaError cudaMallocHost(void** memory, size_t bytes) {
  machine().streams.wait_for_device(current_device);
  if (const CudaError error = end_call(); error != CudaError::kSuccess) return error;
  *memory = bytes == 0 ? nullptr : machine().pinned_memory.take(bytes);
  return CudaError::kSuccess;
}

CudaError cudaFreeHost(void* memory) {
  machine().streams.wait_for_device(current_device);
  const bool known = memory == nullptr || machine().pinned_memory.give_back(memory);
  return end_call(known ? CudaError::kSuccess : CudaError::kInvalidValue);
}

CudaError cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (machine().looks > 0) --machine().looks;
  *total_bytes = machine().memory;
  *free_bytes = machine().most() - std::min(machine().most(), machine().device_memory.used(current_device));
  return end_call();
}

CudaError cudaMemcpyAsync(void* to, const void* from, size_t bytes, CudaCopy direction, CudaStream* stream) {
  if (machine().copies_hang) hang();
  if (bytes == 0) return end_call();
  switch (direction) {
    case CudaCopy::kHostToDevice:
      copy_up(to, from, bytes, stream);
      return end_call();
    case CudaCopy::kDeviceToHost:
      copy_down(to, from, bytes, stream);
      return end_call();
    case CudaCopy::kDeviceToDevice: {
      std::byte* const into = must_be_inside(to, bytes, "a copy on the device");
      const std::byte* const out_of = must_be_inside(from, bytes, "a copy on the device");
      put_in(stream, [=] { std::memmove(into, out_of, bytes); });
      return end_call();
    }
  }
  refuse("a copy in a direction that is none");
}

CudaError cudaMemsetAsync(void* to, int byte, size_t bytes, CudaStream* stream) {
  if (bytes == 0) return end_call();
  std::byte* const into = must_be_inside(to, bytes, "setting memory");
  put_in(stream, [=] { std::memset(into, byte, bytes); });
  return end_call();
}

// --- Streams and events ----------------------------------------------------------------------------------------------

CudaError cudaStreamCreateWithFlags(CudaStream** stream, unsigned) {
  if (const CudaError error = end_call(); error != CudaError::kSuccess) return error;
  *stream = machine().streams.make(current_device);
  return CudaError::kSuccess;
}

CudaError cudaStreamDestroy(CudaStream* stream) {
  if (!machine().streams.end(stream)) refuse("a stream destroyed that is none");
  return end_call();
}

CudaError cudaStreamQuery(CudaStream* stream) {
  return end_query(machine().streams.query(stream), "a query of a stream that is none");
}

CudaError cudaStreamSynchronize(CudaStream* stream) {
  if (!machine().streams.wait(stream)) refuse("a wait for a stream that is none");
  return end_call();
}

CudaError cudaStreamWaitEvent(CudaStream* stream, CudaEvent* event, unsigned) {
  if (!machine().streams.make_wait(stream, event)) refuse("a wait in a stream or for an event that is none");
  return end_call();
}

CudaError cudaEventCreateWithFlags(CudaEvent** event, unsigned) {
  if (const CudaError error = end_call(); error != CudaError::kSuccess) return error;
  *event = machine().streams.make_event();
  return CudaError::kSuccess;
}

CudaError cudaEventDestroy(CudaEvent* event) {
  if (!machine().streams.end(event)) refuse("an event destroyed that is none");
  return end_call();
}

CudaError cudaEventRecord(CudaEvent* event, CudaStream* stream) {
  if (!machine().streams.record(event, stream)) refuse("a record of an event or in a stream that is none");
  return end_call();
}

CudaError cudaEventQuery(CudaEvent* event) {
  return end_query(machine().streams.query(event), "a query of an event that is none");
}

CudaError cudaEventSynchronize(CudaEvent* event) {
  if (!machine().streams.wait(event)) refuse("a wait for an event that is none");
  return end_call();
}

// --- Errors ----------------------------------------------------------------------------------------------------------

CudaError cudaPeekAtLastError() {
  const CudaError lost = machine().streams.lost(current_device);
  return lost != CudaError::kSuccess ? lost : last_error;
}

CudaError cudaGetLastError() {
  const CudaError error = cudaPeekAtLastError();
  last_error = CudaError::kSuccess;
  return error;
}

const char* cudaGetErrorString(CudaError error) {
  switch (error) {
    case CudaError::kSuccess:
      return "no error";
    case CudaError::kInvalidValue:
      return "invalid argument";
    case CudaError::kMemoryAllocation:
      return "out of memory";
    case CudaError::kInitialization:
      return "initialization error";
    case CudaError::kInvalidConfiguration:
      return "invalid configuration argument";
    case CudaError::kInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case CudaError::kNoDevice:
      return "no CUDA-capable device is detected";
    case CudaError::kInvalidDevice:
      return "invalid device ordinal";
    case CudaError::kNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case CudaError::kUnsupportedPtxVersion:
      return "the provided PTX was compiled with an unsupported toolchain.";
    case CudaError::kLaunchOutOfResources:
      return "too many resources requested for launch";
    case CudaError::kNotSupported:
      return "operation not supported";
    case CudaError::kInvalidResourceHandle:
      return "invalid resource handle";
    case CudaError::kNotReady:
      return "device not ready";
    case CudaError::kIllegalAddress:
      return "an illegal memory access was encountered";
    case CudaError::kLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}
}
