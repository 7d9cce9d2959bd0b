// The tests of the CUDA backend rely on this: the fake is as unhelpful as a GPU may be. What it shares with the real
// runtime is in runtime_contract_test.
#include "tests/trainer/cuda/fake_cuda.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {
namespace {

constexpr auto kOk = CudaError::kSuccess;
constexpr size_t kFloats = 100;
constexpr size_t kBytes = kFloats * sizeof(float);

class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    // The child of a death test is a new process: a mere fork would lack the threads of the streams.
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    const auto loaded = load_cuda_runtime(FAKE_CUDA_LIBRARY);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    cuda_ = *loaded;
    ASSERT_EQ(cuda_->set_device(0), kOk);
    ASSERT_EQ(cuda_->stream_create_with_flags(&stream_, kCudaStreamNonBlocking), kOk);
    ASSERT_EQ(cuda_->stream_create_with_flags(&other_stream_, kCudaStreamNonBlocking), kOk);
    ASSERT_EQ(cuda_->event_create_with_flags(&event_, kCudaEventDisableTiming), kOk);
    void* memory = nullptr;
    ASSERT_EQ(cuda_->malloc(&memory, kBytes), kOk);
    device_ = static_cast<float*>(memory);
    ASSERT_EQ(cuda_->malloc_host(&memory, kBytes), kOk);
    host_ = static_cast<float*>(memory);
  }
  void TearDown() override {
    fake_cuda_fail_after(-1);
    fake_cuda_mend();
    cuda_->stream_destroy(stream_);
    cuda_->stream_destroy(other_stream_);
    cuda_->event_destroy(event_);
    cuda_->free(device_);
    cuda_->free_host(host_);
    EXPECT_EQ(fake_cuda_device_bytes(), 0U);
    EXPECT_EQ(fake_cuda_pinned_bytes(), 0U);
    cuda_->get_last_error();
  }
  // A kernel that adds one to the first float, as the emulator would enqueue it.
  CudaError add_one(CudaStream* stream) {
    auto* at = static_cast<float*>(fake::inside(device_));
    return fake::launch(stream, [at] { *at += 1; });
  }
  void bring_down() {
    ASSERT_EQ(cuda_->memcpy_async(host_, device_, kBytes, CudaCopy::kDeviceToHost, stream_), kOk);
    ASSERT_EQ(cuda_->stream_synchronize(stream_), kOk);
  }

  const CudaRuntime* cuda_ = nullptr;
  CudaStream* stream_ = nullptr;
  CudaStream* other_stream_ = nullptr;
  CudaEvent* event_ = nullptr;
  float* device_ = nullptr;
  float* host_ = nullptr;
};
using FakeCudaDeathTest = FakeCuda;

TEST_F(FakeCuda, fresh_memory_is_nan) {
  EXPECT_TRUE(std::isnan(host_[kFloats - 1]));
  host_[0] = host_[kFloats - 1] = 0;
  bring_down();
  EXPECT_TRUE(std::isnan(host_[0]));
  EXPECT_TRUE(std::isnan(host_[kFloats - 1]));
}

TEST_F(FakeCuda, work_is_held_back_until_a_call_asks_about_it) {
  std::atomic<int> runs{0};
  const auto kernel = [&] { ++runs; };
  ASSERT_EQ(fake::launch(stream_, kernel), kOk);
  ASSERT_EQ(cuda_->event_record(event_, stream_), kOk);
  ASSERT_EQ(fake::launch(stream_, kernel), kOk);
  ASSERT_EQ(fake::launch(other_stream_, kernel), kOk);
  EXPECT_EQ(cuda_->stream_synchronize(other_stream_), kOk);
  EXPECT_EQ(runs, 1) << "another stream's work does not hurry this one's";
  EXPECT_EQ(cuda_->event_synchronize(event_), kOk);
  EXPECT_EQ(runs, 2) << "what was enqueued after the record is still held back";
  EXPECT_EQ(cuda_->stream_query(stream_), CudaError::kNotReady);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk);
  EXPECT_EQ(runs, 3);
}

TEST_F(FakeCuda, a_stream_that_waits_for_an_event_sets_its_work_going) {
  std::atomic<int> runs{0};
  ASSERT_EQ(fake::launch(stream_, [&] { ++runs; }), kOk);
  ASSERT_EQ(cuda_->event_record(event_, stream_), kOk);
  ASSERT_EQ(cuda_->stream_wait_event(other_stream_, event_, 0), kOk);
  ASSERT_EQ(fake::launch(other_stream_, [&] { runs = runs * 10; }), kOk);
  EXPECT_EQ(cuda_->stream_synchronize(other_stream_), kOk);
  EXPECT_EQ(runs, 10);
}

TEST_F(FakeCuda, without_a_wait_the_work_of_another_stream_comes_first) {
  std::atomic<int> runs{0};
  ASSERT_EQ(fake::launch(stream_, [&] { ++runs; }), kOk);
  ASSERT_EQ(fake::launch(other_stream_, [&] { runs = runs * 10; }), kOk);
  EXPECT_EQ(cuda_->stream_synchronize(other_stream_), kOk);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(cuda_->stream_synchronize(stream_), kOk) << "what is held back uses a local variable";
}

TEST_F(FakeCuda, an_event_stands_for_its_latest_record) {
  ASSERT_EQ(add_one(stream_), kOk);
  ASSERT_EQ(cuda_->event_record(event_, stream_), kOk);
  ASSERT_EQ(cuda_->event_record(event_, other_stream_), kOk);
  EXPECT_EQ(cuda_->event_query(event_), kOk) << "the other stream is empty; this one's work is not asked about";
}

TEST_F(FakeCuda, pinned_memory_is_read_when_the_copy_runs) {
  host_[0] = 1;
  ASSERT_EQ(cuda_->memcpy_async(device_, host_, kBytes, CudaCopy::kHostToDevice, stream_), kOk);
  host_[0] = 2;
  bring_down();
  EXPECT_EQ(host_[0], 2) << "the change came too early, and the fake shows it";
}

TEST_F(FakeCuda, a_query_that_is_not_ready_leaves_an_error_behind) {
  ASSERT_EQ(add_one(stream_), kOk);
  ASSERT_EQ(cuda_->event_record(event_, stream_), kOk);
  EXPECT_EQ(cuda_->event_query(event_), CudaError::kNotReady);
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kNotReady);
  EXPECT_EQ(cuda_->get_last_error(), kOk);
}

TEST_F(FakeCuda, a_kernel_that_breaks_breaks_all_that_comes_after_it) {
  ASSERT_EQ(cuda_->memset_async(device_, 0, kBytes, stream_), kOk);
  fake_cuda_fail_after(1);
  ASSERT_EQ(add_one(stream_), kOk);
  ASSERT_EQ(add_one(stream_), kOk) << "the launch itself succeeds";
  EXPECT_EQ(cuda_->stream_synchronize(stream_), CudaError::kLaunchFailure);
  EXPECT_EQ(add_one(stream_), CudaError::kLaunchFailure);
  EXPECT_EQ(cuda_->event_record(event_, stream_), CudaError::kLaunchFailure);
  EXPECT_EQ(cuda_->event_query(event_), CudaError::kLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cuda_->malloc(&memory, 1), CudaError::kLaunchFailure);
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kLaunchFailure);
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kLaunchFailure) << "it stays";
  ASSERT_EQ(cuda_->set_device(1), kOk) << "another device is sound";
  ASSERT_EQ(cuda_->set_device(0), CudaError::kLaunchFailure);
  fake_cuda_mend();
  cuda_->get_last_error();
  bring_down();
  EXPECT_EQ(host_[0], 1) << "only the kernel before the failure ran";
}

TEST_F(FakeCuda, a_launch_on_another_devices_stream_fails) {
  ASSERT_EQ(cuda_->set_device(1), kOk);
  EXPECT_EQ(add_one(stream_), CudaError::kInvalidResourceHandle);
  EXPECT_EQ(cuda_->get_last_error(), CudaError::kInvalidResourceHandle);
  ASSERT_EQ(cuda_->set_device(0), kOk);
}

TEST_F(FakeCudaDeathTest, the_host_cannot_touch_memory_of_the_device) {
  EXPECT_DEATH(*device_ = 1, "");
}

TEST_F(FakeCudaDeathTest, a_pointer_of_the_wrong_kind_ends_with_a_sentence) {
  float pageable[kFloats] = {};
  EXPECT_DEATH(cuda_->memcpy_async(pageable, host_, kBytes, CudaCopy::kHostToDevice, stream_),
               "not within an allocation");
  EXPECT_DEATH(cuda_->memcpy_async(host_, pageable, kBytes, CudaCopy::kDeviceToHost, stream_),
               "not within an allocation");
  EXPECT_DEATH(cuda_->memcpy_async(device_, device_, kBytes, CudaCopy::kHostToDevice, stream_), "given as the host's");
  EXPECT_DEATH(cuda_->memcpy_async(device_, host_, kBytes, CudaCopy::kDeviceToDevice, stream_),
               "pinned memory of the host");
  EXPECT_DEATH(cuda_->memset_async(host_, 0, kBytes, stream_), "pinned memory of the host");
  EXPECT_DEATH(fake::inside(pageable), "a kernel: .* not within an allocation");
  EXPECT_EQ(fake::inside(nullptr), nullptr);
}

TEST_F(FakeCudaDeathTest, bytes_beyond_an_allocation_end_with_a_sentence) {
  EXPECT_DEATH(cuda_->memset_async(device_ + 1, 0, kBytes, stream_), "not within an allocation");
  EXPECT_DEATH(cuda_->memcpy_async(device_, host_ + 1, kBytes, CudaCopy::kHostToDevice, stream_),
               "beyond their pinned");
  EXPECT_DEATH(
      {
        auto* at = static_cast<float*>(fake::inside(device_));
        fake::launch(stream_, [at] { at[kFloats] = 1; });
        cuda_->free(device_);
      },
      "wrote behind the 400 bytes");
}

TEST_F(FakeCudaDeathTest, a_stream_or_an_event_that_is_none_ends_with_a_sentence) {
  EXPECT_DEATH(cuda_->stream_synchronize(nullptr), "stream that is none");
  EXPECT_DEATH(cuda_->event_record(event_, nullptr), "that is none");
  EXPECT_DEATH(cuda_->event_query(nullptr), "event that is none");
}

}  // namespace
}  // namespace lockstep::trainer::cuda
