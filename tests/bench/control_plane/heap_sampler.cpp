// A library for LD_PRELOAD that samples which functions allocate a program's memory. The allocator stays glibc's.
//
// Each allocated byte is sampled with probability 1/kMeanBytes. On SIGUSR2 a thread writes $LOCKSTEP_HEAP_OUT. It has
// the allocator's own account (malloc_info), and one line for each live sample. A line has the bytes that the sample
// stands for, and the return addresses of its stack, innermost first. memory.py names the addresses. The program's
// threads never wait for the writer longer than one table look-up takes.

#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <cmath>
#include <cstdio>

namespace {

constexpr double kMeanBytes = 16 * 1024;
constexpr int kFrames = 24;
constexpr size_t kSlots = 1 << 16;  // live samples; 65,536 of 16 KiB stand for a gigabyte

constexpr size_t kReach = 100;  // slots from its hash in which a sample may be

struct Sample {
  void* address;
  double bytes;
  int frames;
  void* stack[kFrames];
};

Sample table[kSlots];                 // open addressing; guarded by `lock`
std::atomic<uint32_t> taken[kSlots];  // live samples per hash: almost every free() ends after one read here
std::atomic_flag lock = ATOMIC_FLAG_INIT;
std::atomic<bool> ready{false};
thread_local double until_sample = kMeanBytes;
thread_local uint64_t random_state = 0;
thread_local bool inside = false;

void* (*real_malloc)(size_t) = nullptr;
void (*real_free)(void*) = nullptr;
void* (*real_realloc)(void*, size_t) = nullptr;
void* (*real_memalign)(size_t, size_t) = nullptr;

size_t hash_of(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ULL) >> 48;
}

double next_distance() {
  if (random_state == 0) random_state = reinterpret_cast<uintptr_t>(&random_state) | 1;
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  const double uniform = (static_cast<double>(random_state >> 11) + 1) / 9007199254740993.0;
  return -std::log(uniform) * kMeanBytes;
}

struct Locked {
  Locked() {
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { lock.clear(std::memory_order_release); }
};

void note(void* address, size_t size) {
  if (address == nullptr || inside || !ready.load(std::memory_order_relaxed)) return;
  until_sample -= static_cast<double>(size);
  if (until_sample > 0) return;
  until_sample = next_distance();
  inside = true;
  Sample sample{};
  sample.address = address;
  sample.bytes = static_cast<double>(size) / (1 - std::exp(-static_cast<double>(size) / kMeanBytes));
  sample.frames = backtrace(sample.stack, kFrames);
  const size_t home = hash_of(address);
  {
    const Locked locked;
    for (size_t step = 0; step < kReach; ++step) {
      Sample& slot = table[(home + step) % kSlots];
      if (slot.address != nullptr) continue;
      slot = sample;
      taken[home].fetch_add(1, std::memory_order_relaxed);
      break;
    }
  }
  inside = false;
}

void forget(const void* address) {
  if (address == nullptr || inside) return;
  const size_t home = hash_of(address);
  if (taken[home].load(std::memory_order_relaxed) == 0) return;
  const Locked locked;
  // Samples that were in the way may have been removed, so an empty slot ends nothing. A colliding hash costs a search
  // of a hundred slots at most.
  for (size_t step = 0; step < kReach; ++step) {
    Sample& slot = table[(home + step) % kSlots];
    if (slot.address != address) continue;
    slot.address = nullptr;
    taken[home].fetch_sub(1, std::memory_order_relaxed);
    return;
  }
}

void write_out(const char* path) {
  inside = true;
  FILE* out = fopen(path, "w");
  if (out == nullptr) return;
  malloc_info(0, out);
  fprintf(out, "samples\n");
  for (size_t i = 0; i < kSlots; ++i) {
    Sample sample;
    {
      const Locked locked;
      sample = table[i];
    }
    if (sample.address == nullptr) continue;
    fprintf(out, "%.0f", sample.bytes);
    for (int frame = 2; frame < sample.frames; ++frame) {
      Dl_info where{};
      const auto address = reinterpret_cast<uintptr_t>(sample.stack[frame]);
      if (dladdr(sample.stack[frame], &where) == 0 || where.dli_fname == nullptr) continue;
      fprintf(out, " %s+%lx", where.dli_fname,
              static_cast<unsigned long>(address - reinterpret_cast<uintptr_t>(where.dli_fbase)));
    }
    fputc('\n', out);
  }
  fprintf(out, "end\n");
  fclose(out);
  inside = false;
}

void* writer(void*) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  while (true) {
    int number = 0;
    if (sigwait(&wanted, &number) == 0) write_out(getenv("LOCKSTEP_HEAP_OUT"));
  }
}

void find_real() {
  real_memalign = reinterpret_cast<void* (*)(size_t, size_t)>(dlsym(RTLD_NEXT, "memalign"));
  real_realloc = reinterpret_cast<void* (*)(void*, size_t)>(dlsym(RTLD_NEXT, "realloc"));
  real_free = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, "free"));
  real_malloc = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
}

__attribute__((constructor)) void start() {
  if (real_malloc == nullptr) find_real();
  if (getenv("LOCKSTEP_HEAP_OUT") == nullptr) return;
  void* warm[2];
  backtrace(warm, 2);  // loads the unwinder, which allocates
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);  // every later thread inherits it, so sigwait() gets the signal
  pthread_t thread;
  if (pthread_create(&thread, nullptr, writer, nullptr) == 0) pthread_detach(thread);
  ready.store(true);
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  if (real_malloc == nullptr) find_real();
  void* const found = real_malloc(size);
  note(found, size);
  return found;
}

void free(void* address) {
  if (real_free == nullptr) find_real();
  forget(address);
  real_free(address);
}

void* realloc(void* address, size_t size) {
  if (real_realloc == nullptr) find_real();
  forget(address);
  void* const found = real_realloc(address, size);
  note(found, size);
  return found;
}

void* memalign(size_t alignment, size_t size) {
  if (real_memalign == nullptr) find_real();
  void* const found = real_memalign(alignment, size);
  note(found, size);
  return found;
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** address, size_t alignment, size_t size) {
  *address = memalign(alignment, size);
  return *address == nullptr ? 12 : 0;  // ENOMEM
}
}
