// What the CUDA backend relies on in a CUDA runtime, as one suite for the fake and for the real one. LOCKSTEP_CUDART
// names the library; without it the fake is tested. On a real one without a GPU the suite is skipped, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {
namespace {

constexpr auto kOk = CudaError::kSuccess;
constexpr size_t kCount = 1000;  // floats of a buffer
constexpr size_t kBytes = kCount * sizeof(float);
constexpr size_t kMany = size_t{16} << 20;  // bytes whose copy takes a GPU longer than the host's next call

class CudaRuntimeContract : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* given = std::getenv("LOCKSTEP_CUDART");
    const auto loaded = load_cuda_runtime(given != nullptr ? given : FAKE_CUDA_LIBRARY);
    if (!loaded && given != nullptr) GTEST_SKIP() << loaded.error().message;
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    cuda_ = *loaded;
    ASSERT_EQ(cuda_->set_device(0), kOk);
    ASSERT_EQ(cuda_->stream_create_with_flags(&stream_, kCudaStreamNonBlocking), kOk);
    ASSERT_EQ(cuda_->stream_create_with_flags(&other_stream_, kCudaStreamNonBlocking), kOk);
    ASSERT_EQ(cuda_->event_create_with_flags(&event_, kCudaEventDisableTiming), kOk);
  }
  void TearDown() override {
    if (cuda_ == nullptr) return;
    EXPECT_EQ(cuda_->stream_destroy(stream_), kOk);
    EXPECT_EQ(cuda_->stream_destroy(other_stream_), kOk);
    EXPECT_EQ(cuda_->event_destroy(event_), kOk);
    for (void* memory : device_) EXPECT_EQ(cuda_->free(memory), kOk);
    for (void* memory : pinned_) EXPECT_EQ(cuda_->free_host(memory), kOk);
  }
  void* on_device(size_t bytes = kBytes) {
    void* memory = nullptr;
    EXPECT_EQ(cuda_->malloc(&memory, bytes), kOk);
    device_.push_back(memory);
    return memory;
  }
  float* pinned(float value, size_t bytes = kBytes) {
    void* memory = nullptr;
    EXPECT_EQ(cuda_->malloc_host(&memory, bytes), kOk);
    pinned_.push_back(memory);
    auto* floats = static_cast<float*>(memory);
    std::fill(floats, floats + bytes / sizeof(float), value);
    return floats;
  }
  void up(void* to, const void* from, CudaStream* stream, size_t bytes = kBytes) {
    EXPECT_EQ(cuda_->memcpy_async(to, from, bytes, CudaCopy::kHostToDevice, stream), kOk);
  }
  void down(void* to, const void* from, CudaStream* stream, size_t bytes = kBytes) {
    EXPECT_EQ(cuda_->memcpy_async(to, from, bytes, CudaCopy::kDeviceToHost, stream), kOk);
  }
  // What the query answers in the end; kNotReady: it still did after 20 s.
  static CudaError asked_until_ready(const std::function<CudaError()>& query) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    CudaError now = query();
    while (now == CudaError::kNotReady && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
      now = query();
    }
    return now;
  }

  const CudaRuntime* cuda_ = nullptr;
  CudaStream* stream_ = nullptr;
  CudaStream* other_stream_ = nullptr;
  CudaEvent* event_ = nullptr;
  std::vector<void*> device_, pinned_;
};

TEST_F(CudaRuntimeContract, versions_and_the_device_are_told) {
  int driver = 0, runtime = 0, major = 0, processors = 0, shared = 0;
  EXPECT_EQ(cuda_->driver_get_version(&driver), kOk);
  EXPECT_EQ(cuda_->runtime_get_version(&runtime), kOk);
  EXPECT_GE(driver / 1000, runtime / 1000);
  EXPECT_EQ(cuda_->device_get_attribute(&major, CudaAttribute::kComputeCapabilityMajor, 0), kOk);
  EXPECT_GE(major, 8);
  EXPECT_EQ(cuda_->device_get_attribute(&processors, CudaAttribute::kMultiProcessorCount, 0), kOk);
  EXPECT_GE(processors, 1);
  EXPECT_EQ(cuda_->device_get_attribute(&shared, CudaAttribute::kMaxSharedMemoryPerBlockOptin, 0), kOk);
  EXPECT_GE(shared, 48 << 10);
  CudaDeviceProperties properties{};
  EXPECT_EQ(cuda_->get_device_properties(&properties, 0), kOk);
  const size_t length = ::strnlen(properties.name, sizeof properties.name);
  EXPECT_GT(length, 0U);
  EXPECT_LT(length, sizeof properties.name);
}

TEST_F(CudaRuntimeContract, memory_is_aligned_to_256_bytes) {
  for (const size_t bytes : {size_t{1}, size_t{255}, size_t{4097}}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(on_device(bytes)) % 256, 0U) << bytes;
  }
}

TEST_F(CudaRuntimeContract, too_much_memory_is_an_error_that_leaves_the_device_usable) {
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cuda_->mem_get_info(&free_bytes, &total), kOk);
  EXPECT_LE(free_bytes, total);
  void* memory = nullptr;
  EXPECT_EQ(cuda_->malloc(&memory, total + 1), CudaError::kMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kMemoryAllocation);
  EXPECT_EQ(cuda_->get_last_error(), kOk) << "it was cleared";
  EXPECT_NE(on_device(), nullptr);
}

TEST_F(CudaRuntimeContract, no_memory_is_allocated_and_freed_for_no_bytes) {
  void* memory = nullptr;
  EXPECT_EQ(cuda_->malloc(&memory, 0), kOk);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cuda_->free(nullptr), kOk);
  EXPECT_EQ(cuda_->free_host(nullptr), kOk);
}

TEST_F(CudaRuntimeContract, bytes_go_up_across_and_down_in_the_order_of_the_calls) {
  float* const from = pinned(2.5F);
  float* const to = pinned(0);
  void* const first = on_device();
  void* const second = on_device();
  up(first, from, stream_);
  EXPECT_EQ(cuda_->memcpy_async(second, first, kBytes, CudaCopy::kDeviceToDevice, stream_), kOk);
  EXPECT_EQ(cuda_->memset_async(second, 0xff, sizeof(float), stream_), kOk);
  down(to, second, stream_);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk);
  EXPECT_TRUE(std::isnan(to[0]));
  EXPECT_EQ(to[1], 2.5F);
  EXPECT_EQ(to[kCount - 1], 2.5F);
}

TEST_F(CudaRuntimeContract, part_of_an_allocation_is_copied_by_an_address_inside_it) {
  float* const host = pinned(1);
  auto* const device = static_cast<std::byte*>(on_device());
  EXPECT_EQ(cuda_->memset_async(device, 0, kBytes, stream_), kOk);
  up(device + kBytes - 8, host, stream_, 8);
  down(host, device, stream_);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk);
  EXPECT_EQ(host[kCount - 3], 0);
  EXPECT_EQ(host[kCount - 2], 1);
}

TEST_F(CudaRuntimeContract, pageable_memory_may_be_changed_when_the_copy_from_it_has_returned) {
  std::vector<float> from(kCount, 3), to(kCount);
  void* const device = on_device();
  up(device, from.data(), stream_);
  from.assign(kCount, 4);
  down(to.data(), device, stream_);
  EXPECT_EQ(to[kCount - 1], 3) << "and a copy to it is done when it has returned";
}

TEST_F(CudaRuntimeContract, an_event_that_was_never_recorded_is_done) {
  EXPECT_EQ(cuda_->event_query(event_), kOk);
  EXPECT_EQ(cuda_->event_synchronize(event_), kOk);
  EXPECT_EQ(cuda_->stream_wait_event(stream_, event_, 0), kOk);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk);
}

TEST_F(CudaRuntimeContract, an_event_is_done_when_the_work_before_its_latest_record_is) {
  float* const host = pinned(1, kMany);
  void* const device = on_device(kMany);
  for (int round = 0; round < 4; ++round) {
    host[0] = static_cast<float>(round);
    up(device, host, stream_, kMany);
    EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
    down(host + 2, device, stream_, sizeof(float));
    EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
    EXPECT_EQ(cuda_->event_synchronize(event_), kOk);
    EXPECT_EQ(host[2], static_cast<float>(round));
    EXPECT_EQ(cuda_->event_query(event_), kOk);
  }
}

TEST_F(CudaRuntimeContract, a_query_that_is_asked_again_and_again_is_done_at_last) {
  float* const host = pinned(1, kMany);
  void* const device = on_device(kMany);
  up(device, host, stream_, kMany);
  EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
  EXPECT_EQ(asked_until_ready([&] { return cuda_->event_query(event_); }), kOk);
  up(device, host, stream_, kMany);
  EXPECT_EQ(asked_until_ready([&] { return cuda_->stream_query(stream_); }), kOk);
}

TEST_F(CudaRuntimeContract, a_stream_waits_for_an_event_of_another) {
  float* const from = pinned(0, kMany);
  float* const to = pinned(0);
  void* const device = on_device(kMany);
  for (int round = 1; round <= 4; ++round) {
    std::fill(from, from + kMany / sizeof(float), static_cast<float>(round));
    up(device, from, stream_, kMany);
    EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
    EXPECT_EQ(cuda_->stream_wait_event(other_stream_, event_, 0), kOk);
    down(to, static_cast<std::byte*>(device) + kMany - kBytes, other_stream_);
    EXPECT_EQ(cuda_->stream_synchronize(other_stream_), kOk);
    EXPECT_EQ(to[kCount - 1], static_cast<float>(round));
  }
}

TEST_F(CudaRuntimeContract, a_wait_is_for_the_record_at_the_time_of_the_call) {
  float* const host = pinned(1);
  void* const device = on_device();
  EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
  EXPECT_EQ(cuda_->stream_wait_event(other_stream_, event_, 0), kOk);
  // A later record of the same event, after work that waits for the other stream: no circle.
  CudaEvent* back = nullptr;
  ASSERT_EQ(cuda_->event_create_with_flags(&back, kCudaEventDisableTiming), kOk);
  up(device, host, other_stream_);
  EXPECT_EQ(cuda_->event_record(back, other_stream_), kOk);
  EXPECT_EQ(cuda_->stream_wait_event(stream_, back, 0), kOk);
  EXPECT_EQ(cuda_->event_record(event_, stream_), kOk);
  EXPECT_EQ(cuda_->event_synchronize(event_), kOk);
  EXPECT_EQ(cuda_->event_destroy(back), kOk);
}

TEST_F(CudaRuntimeContract, work_outlives_the_event_that_it_waits_for) {
  CudaEvent* brief = nullptr;
  ASSERT_EQ(cuda_->event_create_with_flags(&brief, kCudaEventDisableTiming), kOk);
  float* const host = pinned(5);
  void* const device = on_device();
  up(device, host, stream_);
  EXPECT_EQ(cuda_->event_record(brief, stream_), kOk);
  EXPECT_EQ(cuda_->stream_wait_event(other_stream_, brief, 0), kOk);
  EXPECT_EQ(cuda_->event_destroy(brief), kOk);
  down(host, device, other_stream_);
  EXPECT_EQ(cuda_->stream_synchronize(other_stream_), kOk);
  EXPECT_EQ(host[0], 5);
}

TEST_F(CudaRuntimeContract, memory_is_freed_after_the_work_on_it) {
  float* const from = pinned(7, kMany);
  float* const to = pinned(0, kMany);
  void* brief = nullptr;
  ASSERT_EQ(cuda_->malloc(&brief, kMany), kOk);
  up(brief, from, stream_, kMany);
  down(to, brief, stream_, kMany);
  EXPECT_EQ(cuda_->free(brief), kOk);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk);
  EXPECT_EQ(to[kMany / sizeof(float) - 1], 7);
}

TEST_F(CudaRuntimeContract, each_thread_has_a_last_error_of_its_own) {
  EXPECT_NE(cuda_->set_device(1 << 20), kOk);
  std::thread([&] { EXPECT_EQ(cuda_->peek_at_last_error(), kOk); }).join();
  EXPECT_EQ(cuda_->peek_at_last_error(), CudaError::kInvalidDevice);
  EXPECT_EQ(cuda_->peek_at_last_error(), CudaError::kInvalidDevice) << "peeking does not clear it";
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kInvalidDevice);
  EXPECT_EQ(cuda_->peek_at_last_error(), kOk);
  EXPECT_STREQ(cuda_->get_error_string(CudaError::kInvalidDevice), "invalid device ordinal");
}

}  // namespace
}  // namespace lockstep::trainer::cuda
