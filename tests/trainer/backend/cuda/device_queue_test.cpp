// Memory, copies and marks of the CUDA backend, and a device that breaks.
#include "trainer/backend/cuda/device_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/error_code.h"
#include "trainer/core/optimizer.h"
#include "trainer/models/linear_regression.h"

namespace lockstep::trainer::device_queue_test {
namespace {

using testing::Bench;
using testing::fake_gpu;

std::vector<int> numbers(size_t count, int from) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), from);
  return all;
}

TEST(CudaMemory, begins_with_zeros_and_holds_what_was_written) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(4096).value();
  std::vector<int> got = numbers(1024, 1);
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, std::vector<int>(1024, 0));
  cuda->write(memory->data(), numbers(1024, 5).data(), 4096);  // memory that is gone when the call has returned
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, numbers(1024, 5));
  cuda->clear(memory->data() + 4, 8);
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_THAT(std::vector<int>(got.begin(), got.begin() + 4), ::testing::ElementsAre(5, 0, 0, 8));
}

TEST(CudaMemory, copies_may_be_larger_than_the_pinned_ring_and_of_any_size) {
  auto cuda = fake_gpu();
  const size_t count = (size_t{5} << 20) + 3;  // 20 MiB and a little
  auto memory = cuda->allocate(count * sizeof(int)).value();
  const std::vector<int> given = numbers(count, -7);
  std::vector<int> got(count);
  cuda->write(memory->data(), given.data(), count * sizeof(int));
  cuda->read(got.data(), memory->data(), count * sizeof(int));
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_TRUE(got == given);
}

TEST(CudaMemory, many_small_copies_wait_for_the_oldest_and_lose_nothing) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(5000 * sizeof(int)).value();
  std::vector<int> got(5000);
  for (int i = 0; i < 5000; ++i) {
    auto* at = memory->data() + static_cast<size_t>(i) * sizeof(int);
    cuda->write(at, &i, sizeof i);
    cuda->read(&got[static_cast<size_t>(i)], at, sizeof i);
  }
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_TRUE(got == numbers(5000, 0));
}

TEST(CudaMemory, a_write_of_what_an_earlier_read_brings_waits_for_it) {
  auto cuda = fake_gpu();
  auto from = cuda->allocate(64).value(), to = cuda->allocate(64).value();
  int number = 41, middle = 0, got = 0;
  cuda->write(from->data(), &number, sizeof number);
  cuda->read(&middle, from->data(), sizeof middle);
  cuda->write(to->data(), &middle, sizeof middle);
  cuda->read(&got, to->data(), sizeof got);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, 41);
}

TEST(CudaMemory, a_read_shows_at_its_mark_and_not_before_work_is_done) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(64).value();
  std::vector<int> got(200, -1);
  std::vector<core::Mark> marks;
  for (int i = 0; i < 200; ++i) {  // more than the queue has events
    cuda->write(memory->data(), &i, sizeof i);
    cuda->read(&got[static_cast<size_t>(i)], memory->data(), sizeof i);
    marks.push_back(cuda->mark());
  }
  EXPECT_EQ(cuda->mark().number, marks.back().number) << "no work since";
  EXPECT_EQ(got.back(), -1);
  ASSERT_TRUE(cuda->wait(marks[150]).ok());
  EXPECT_TRUE(cuda->reached(marks[3]));
  for (size_t i = 0; i <= 150; ++i) EXPECT_EQ(got[i], static_cast<int>(i));
  while (!cuda->reached(marks.back())) {
  }
  EXPECT_EQ(got, numbers(200, 0));
}

TEST(CudaMemory, too_much_is_refused_with_its_bytes) {
  auto cuda = fake_gpu();
  const auto memory = cuda->allocate(size_t{1} << 40);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr("the GPU has no room for 1099511627776 bytes"));
}

TEST(CudaMemory, that_nobody_gives_back_is_waited_for_within_a_bound) {
  const auto other = fake_gpu();
  const auto held = other->allocate(size_t{64} << 20).value();
  const auto runtime = cuda::load_cuda_runtime(FAKE_CUDA_LIBRARY).value();
  const auto queue = cuda::DeviceQueue::create(*runtime, 0).value();
  ::testing::internal::CaptureStderr();
  const auto memory = cuda::DeviceMemory::allocate(*queue, size_t{4064} << 20, std::chrono::milliseconds(120));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("waiting up to 0.12 s for 4064 MiB"));
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
}

class BrokenDevice : public ::testing::Test {
 protected:
  ~BrokenDevice() override {
    fake_cuda_release();
    fake_cuda_fail_after(-1);
    fake_cuda_mend();
  }
};

TEST_F(BrokenDevice, every_wait_says_so_and_nothing_hangs) {
  const size_t pinned = fake_cuda_pinned_bytes();
  {
    auto cuda = fake_gpu();
    const core::Graph graph = models::linear_regression(4);
    Bench bench(graph, *cuda);
    fake_cuda_fail_after(1);
    static_cast<void>(bench.program().forward(bench.context, bench.abort));
    for (int i = 0; i < 2; ++i) {
      const Status waited = cuda->wait(cuda->mark());
      ASSERT_FALSE(waited.ok());
      EXPECT_EQ(waited.error().code, ErrorCode::kExhausted);
      EXPECT_THAT(waited.error().message, ::testing::HasSubstr("GPU 0 ("));
      EXPECT_THAT(waited.error().message, ::testing::HasSubstr("failed"));
    }
    int number = 7;
    cuda->read(&number, static_cast<std::byte*>(bench.program().data(0)), sizeof number);
    EXPECT_FALSE(cuda->reached(cuda->mark()));
    EXPECT_EQ(number, 7) << "nothing of a lost device arrives";
  }
  fake_cuda_fail_after(-1);
  fake_cuda_mend();
  EXPECT_EQ(fake_cuda_pinned_bytes(), pinned);
}

TEST_F(BrokenDevice, a_launch_that_meets_an_error_of_earlier_work_names_the_gpu) {
  for (const bool forward : {true, false}) {  // begins with a matrix product, or with a kernel
    SCOPED_TRACE(forward ? "forward" : "backward");
    auto cuda = fake_gpu();
    const core::Graph graph = models::linear_regression(4);
    Bench bench(graph, *cuda);
    ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
    fake_cuda_fail_after(0);
    double norm = 0;
    cuda->norm(static_cast<std::byte*>(bench.program().data(0)), 1, &norm);
    static_cast<void>((*cuda::load_cuda_runtime(FAKE_CUDA_LIBRARY).value()).free(nullptr));  // waits for the work
    const Status met = forward ? bench.program().forward(bench.context, bench.abort)
                               : bench.program().backward(bench.context, bench.abort);
    ASSERT_FALSE(met.ok());
    EXPECT_EQ(met.error().code, ErrorCode::kExhausted);
    EXPECT_THAT(met.error().message, ::testing::HasSubstr("GPU 0 (a fake of a GPU) failed"));
    EXPECT_EQ(cuda->wait(cuda->mark()).error().message, met.error().message);
    fake_cuda_fail_after(-1);
    fake_cuda_mend();
  }
}

TEST_F(BrokenDevice, one_that_hangs_keeps_its_memory_and_holds_up_nobody) {
  {
    auto queue =
        cuda::DeviceQueue::create(*cuda::load_cuda_runtime(FAKE_CUDA_LIBRARY).value(), 0, std::chrono::milliseconds(50))
            .value();
    auto memory = cuda::DeviceMemory::allocate(*queue, 64).value();
    ASSERT_EQ(cuda::fake::launch(queue->stream(), cuda::fake::hang), cuda::CudaError::kSuccess);
    const Status waited = queue->wait(queue->mark());
    ASSERT_FALSE(waited.ok());
    EXPECT_THAT(waited.error().message, ::testing::HasSubstr("failed: its work is not done after 0.05 s"));
  }
  while (fake_cuda_hanging() == 0) std::this_thread::yield();  // the fixture's release would come too early
}

TEST(CudaErrors, what_a_new_process_would_meet_again_may_not_be_tried_again) {
  using cuda::BlasStatus, cuda::CudaError, cuda::code_of;
  for (const auto error : {CudaError::kMemoryAllocation, CudaError::kIllegalAddress, CudaError::kLaunchFailure}) {
    EXPECT_EQ(code_of(error), ErrorCode::kExhausted) << static_cast<int>(error);
  }
  for (const auto status : {BlasStatus::kNotInitialized, BlasStatus::kAllocFailed, BlasStatus::kExecutionFailed}) {
    EXPECT_EQ(code_of(status), ErrorCode::kExhausted) << static_cast<int>(status);
  }
  for (const auto error : {CudaError::kInvalidValue, CudaError::kInvalidConfiguration, CudaError::kInvalidDevice,
                           CudaError::kInvalidResourceHandle, CudaError::kNotSupported}) {
    EXPECT_EQ(code_of(error), ErrorCode::kInternal) << static_cast<int>(error);
  }
  EXPECT_EQ(code_of(BlasStatus::kInvalidValue), ErrorCode::kInternal);
  EXPECT_EQ(code_of(BlasStatus::kNotSupported), ErrorCode::kInternal);
}

TEST_F(BrokenDevice, an_update_on_it_ends_the_process_with_a_code_that_may_be_tried_again) {
  const core::Graph graph = models::linear_regression(4);
  const core::Layout layout = core::lay_out(graph);
  const auto update = [&] {
    auto cuda = fake_gpu();
    const size_t bytes = layout.count * sizeof(float);
    auto parameters = cuda->allocate(bytes).value(), gradients = cuda->allocate(bytes).value();
    auto slot = cuda->allocate(bytes).value();
    void* const slots[] = {slot->data()};
    fake_cuda_fail_after(0);
    cuda->update({.rule = core::Sgd{}, .schedule = {.peak = 0.1}},
                 {.layout = &layout, .parameters = parameters->data(), .gradients = gradients->data(), .slots = slots});
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(update(), ::testing::ExitedWithCode(backend::kExitDeviceLost),
              "the optimizer's update did not end: GPU 0 ");
}

}  // namespace
}  // namespace lockstep::trainer::device_queue_test
