// The tests of the communicator rely on this: the fake fails as NCCL does.
#include "tests/trainer/comm/fake_nccl.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/trainer/comm/test_ring.h"
#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer::comm {
namespace {

using cuda::CudaCopy;
using cuda::CudaError;
using cuda::CudaEvent;
using std::chrono::milliseconds;

NcclApi loaded() {
  auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  EXPECT_TRUE(api.ok());
  return api ? *api : NcclApi{};
}

// One rank as NCCL knows it: a communicator, a stream, and memory for eight floats.
struct FakeRank {
  FakeRank(const NcclApi& given, int number) : api(given), rank(number) {
    EXPECT_EQ(api.cuda.set_device(rank), CudaError::kSuccess);
    EXPECT_EQ(api.cuda.stream_create_with_flags(&stream, cuda::kCudaStreamNonBlocking), CudaError::kSuccess);
    EXPECT_EQ(api.cuda.event_create_with_flags(&event, cuda::kCudaEventDisableTiming), CudaError::kSuccess);
    void* memory = nullptr;
    EXPECT_EQ(api.cuda.malloc(&memory, kBytes), CudaError::kSuccess);
    device = memory;
    EXPECT_EQ(api.cuda.malloc_host(&memory, kBytes), CudaError::kSuccess);
    host = static_cast<float*>(memory);
    std::fill(host, host + 8, 1.0F);
  }
  ~FakeRank() {
    api.cuda.set_device(rank);
    if (comm != nullptr) api.comm_abort(comm);
    api.cuda.stream_destroy(stream);
    api.cuda.event_destroy(event);
    api.cuda.free(device);
    api.cuda.free_host(host);
  }
  NcclResult begin(const NcclUniqueId& id, int ranks) {
    NcclConfig config;
    config.blocking = 0;
    return api.comm_init_rank_config(&comm, ranks, id, rank, &config);
  }
  NcclResult state() const {
    NcclResult error = NcclResult::kSuccess;
    EXPECT_EQ(api.comm_get_async_error(comm, &error), NcclResult::kSuccess);
    return error;
  }
  NcclResult settled() const {
    NcclResult now = NcclResult::kInProgress;
    comes_true([&] { return (now = state()) != NcclResult::kInProgress; });
    return now;
  }
  NcclResult sum() const {
    EXPECT_EQ(api.cuda.memcpy_async(device, host, kBytes, CudaCopy::kHostToDevice, stream), CudaError::kSuccess);
    return api.all_reduce(device, device, 8, NcclType::kFloat32, NcclOperation::kSum, comm, stream);
  }
  void bring_down() const {
    EXPECT_EQ(api.cuda.memcpy_async(host, device, kBytes, CudaCopy::kDeviceToHost, stream), CudaError::kSuccess);
    EXPECT_EQ(api.cuda.event_record(event, stream), CudaError::kSuccess);
  }
  bool fires() const {
    return comes_true([&] { return api.cuda.event_query(event) == CudaError::kSuccess; });
  }
  // No event says that nothing happens: the test checks again a little later.
  bool stays_silent() const {
    std::this_thread::sleep_for(milliseconds(50));
    return api.cuda.event_query(event) == CudaError::kNotReady;
  }

  static constexpr size_t kBytes = 32;
  const NcclApi& api;
  int rank;
  NcclComm* comm = nullptr;
  CudaStream* stream = nullptr;
  CudaEvent* event = nullptr;
  void* device = nullptr;
  float* host = nullptr;
};

class FakeNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    NcclUniqueId id{};
    ASSERT_EQ(api_.get_unique_id(&id), NcclResult::kSuccess);
    id_ = id;
    EXPECT_NE(zero_.begin(id, 2), NcclResult::kInvalidUsage);
    EXPECT_EQ(zero_.state(), NcclResult::kInProgress) << "rank 1 is not there yet";
    EXPECT_NE(one_.begin(id, 2), NcclResult::kInvalidUsage);
    ASSERT_EQ(zero_.settled(), NcclResult::kSuccess);
    ASSERT_EQ(one_.settled(), NcclResult::kSuccess);
  }
  const NcclApi api_ = loaded();
  NcclUniqueId id_{};
  FakeRank zero_{api_, 0};
  FakeRank one_{api_, 1};
};

TEST_F(FakeNccl, a_kernel_is_in_its_stream_when_the_communicator_says_so_and_not_before) {
  for (int round = 0; round < 4; ++round) {
    const NcclResult launched = zero_.sum();
    if (launched == NcclResult::kInProgress) {
      zero_.bring_down();  // too early: it brings down what went up
      EXPECT_TRUE(zero_.fires());
      EXPECT_EQ(zero_.host[0], 1.0F);
    }
    EXPECT_EQ(zero_.settled(), NcclResult::kSuccess);
    one_.sum();
    EXPECT_EQ(one_.settled(), NcclResult::kSuccess);
    zero_.bring_down();
    EXPECT_TRUE(zero_.fires());
    EXPECT_EQ(zero_.host[7], 2.0F);
    one_.bring_down();
    EXPECT_TRUE(one_.fires());
    std::fill(zero_.host, zero_.host + 8, 1.0F);
    std::fill(one_.host, one_.host + 8, 1.0F);
  }
}

TEST_F(FakeNccl, an_aborted_kernel_leaves_nan_and_the_stream_continues) {
  zero_.sum();
  EXPECT_EQ(zero_.settled(), NcclResult::kSuccess);
  zero_.bring_down();
  EXPECT_TRUE(zero_.stays_silent()) << "rank 1 takes no part";
  EXPECT_EQ(api_.comm_abort(std::exchange(zero_.comm, nullptr)), NcclResult::kSuccess);
  EXPECT_TRUE(zero_.fires()) << "the event says nothing of success";
  EXPECT_NE(zero_.host[0], zero_.host[0]);
}

TEST_F(FakeNccl, a_dead_peer_is_a_remote_error_and_the_kernel_stays_until_abort) {
  api_.comm_abort(std::exchange(one_.comm, nullptr));
  zero_.sum();
  EXPECT_EQ(zero_.settled(), NcclResult::kSuccess) << "no thread has read it so far";
  zero_.bring_down();
  EXPECT_TRUE(comes_true([&] { return zero_.state() != NcclResult::kSuccess; }));
  EXPECT_EQ(zero_.state(), NcclResult::kRemoteError);
  EXPECT_TRUE(zero_.stays_silent());
}

TEST_F(FakeNccl, an_invalid_argument_has_no_effect) {
  EXPECT_EQ(api_.broadcast(zero_.device, zero_.device, 8, NcclType::kFloat32, 2, zero_.comm, zero_.stream),
            NcclResult::kInvalidArgument);
  EXPECT_EQ(zero_.state(), NcclResult::kSuccess);
}

TEST_F(FakeNccl, an_id_is_good_for_one_communicator) {
  NcclComm* second = nullptr;
  NcclConfig config;
  config.blocking = 0;
  EXPECT_EQ(api_.comm_init_rank_config(&second, 2, id_, 0, &config), NcclResult::kInvalidUsage);
}

TEST_F(FakeNccl, memory_is_taken_and_given_back_once_the_gpu_is_idle) {
  api_.cuda.set_device(0);
  void* before = nullptr;
  EXPECT_EQ(api_.cuda.malloc(&before, 64), CudaError::kSuccess);
  zero_.sum();
  EXPECT_EQ(zero_.settled(), NcclResult::kSuccess);
  void* after = nullptr;
  auto taking = std::async(std::launch::async, [&] {
    api_.cuda.set_device(0);
    return api_.cuda.malloc(&after, 64);
  });
  auto giving = std::async(std::launch::async, [&] {
    api_.cuda.set_device(0);
    return api_.cuda.free(before);
  });
  EXPECT_EQ(taking.wait_for(milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(giving.wait_for(milliseconds(50)), std::future_status::timeout);
  api_.comm_abort(std::exchange(zero_.comm, nullptr));
  EXPECT_EQ(taking.get(), CudaError::kSuccess);
  EXPECT_EQ(giving.get(), CudaError::kSuccess);
  EXPECT_EQ(api_.cuda.free(after), CudaError::kSuccess);
}

}  // namespace
}  // namespace lockstep::trainer::comm
