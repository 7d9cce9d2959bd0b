// Sums of GPU memory in place, over the fakes of NCCL and the CUDA runtime.
#include "trainer/comm/device_reducer.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <numeric>
#include <utility>

#include "tests/trainer/comm/fake_nccl.h"
#include "tests/trainer/comm/test_ring.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/comm/nccl_communicator.h"
#include "trainer/comm/single_rank_communicator.h"

namespace lockstep::trainer::comm {
namespace {

using cuda::CudaCopy;
using cuda::CudaError;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for a wait that returns too early to show, most times. A correct one cannot fail by it.
constexpr milliseconds kMoment(50);

constexpr size_t kElements = 1000;

// A rank's own work on its GPU: a stream, an event, and room for kElements elements.
class Gpu {
 public:
  explicit Gpu(size_t number) : cuda_(fake_setup()->api.cuda), number_(static_cast<int>(number)) {
    enter();
    EXPECT_EQ(cuda_.stream_create_with_flags(&stream_, cuda::kCudaStreamNonBlocking), CudaError::kSuccess);
    EXPECT_EQ(cuda_.event_create_with_flags(&event_, cuda::kCudaEventDisableTiming), CudaError::kSuccess);
    EXPECT_EQ(cuda_.malloc(&memory_, kElements * sizeof(double)), CudaError::kSuccess);
  }
  ~Gpu() {
    enter();
    cuda_.stream_destroy(stream_);
    cuda_.event_destroy(event_);
    cuda_.free(memory_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void enter() const { EXPECT_EQ(cuda_.set_device(number_), CudaError::kSuccess); }
  void* memory() const { return memory_; }

  // A sum of `values`, which a kernel writes once `gate` is open; null: at once.
  template <typename T>
  DeviceSum sum_of(std::vector<T> values, DataType type, std::shared_ptr<std::latch> gate = nullptr) {
    enter();
    const size_t count = values.size();
    void* const to = cuda::fake::inside(memory_, count * sizeof(T));
    const auto kernel = [to, gate, values = std::move(values)] {
      if (gate) gate->wait();
      std::copy(values.begin(), values.end(), static_cast<T*>(to));
    };
    EXPECT_EQ(cuda::fake::launch(stream_, kernel), CudaError::kSuccess);
    EXPECT_EQ(cuda_.event_record(event_, stream_), CudaError::kSuccess);
    return {memory_, count, type, event_};
  }

  template <typename T>
  std::vector<T> content(size_t count) {
    enter();
    std::vector<T> values(count);
    EXPECT_EQ(cuda_.memcpy_async(values.data(), memory_, count * sizeof(T), CudaCopy::kDeviceToHost, stream_),
              CudaError::kSuccess);
    EXPECT_EQ(cuda_.stream_synchronize(stream_), CudaError::kSuccess);
    return values;
  }

 private:
  const cuda::CudaRuntime cuda_;
  const int number_;
  cuda::CudaStream* stream_ = nullptr;
  cuda::CudaEvent* event_ = nullptr;
  void* memory_ = nullptr;
};

Status sum(Communicator& communicator, const DeviceSum& operation) {
  LOCKSTEP_TRY(const Ticket ticket, communicator.device_reducer()->sum(operation));
  return communicator.wait(ticket);
}

template <typename T>
std::vector<T> ascending(size_t count, T first) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class InPlace : public ::testing::Test {
 protected:
  void SetUp() override { misuses_ = fake_nccl_misuses(); }
  void TearDown() override {
    fake_nccl_release();
    EXPECT_TRUE(comes_true([] { return fake_nccl_communicators() == 0; })) << "each was destroyed or aborted";
    EXPECT_EQ(fake_nccl_misuses(), misuses_) << "nothing was done that NCCL and CUDA leave undefined";
  }
  template <typename T>
  static void expect_sum_of_three(DataType type);

  int misuses_ = 0;
};

template <typename T>
void InPlace::expect_sum_of_three(DataType type) {
  Gpu gpus[3] = {Gpu(0), Gpu(1), Gpu(2)};  // they outlive the communicators
  auto ranks = make_ring(3, Carrier::kNccl);
  on_every_rank(3, [&](size_t rank) {
    const DeviceSum operation = gpus[rank].sum_of(ascending<T>(kElements, static_cast<T>(rank)), type);
    const Status status = sum(*ranks[rank], operation);
    ASSERT_TRUE(status.ok()) << status.error().message;
    std::vector<T> expected = ascending<T>(kElements, 1);
    for (T& value : expected) value *= 3;
    EXPECT_EQ(gpus[rank].content<T>(kElements), expected);
  });
}

TEST_F(InPlace, every_type_is_summed_in_the_gpus_memory) {
  expect_sum_of_three<float>(DataType::kFloat32);
  expect_sum_of_three<double>(DataType::kFloat64);
  expect_sum_of_three<std::int64_t>(DataType::kInt64);
}

TEST_F(InPlace, a_sum_waits_for_the_event_of_every_rank_and_its_wait_for_the_sum) {
  for (const size_t late : {0, 1}) {
    Gpu gpus[2] = {Gpu(0), Gpu(1)};
    auto ranks = make_ring(2, Carrier::kNccl);
    const auto gate = std::make_shared<std::latch>(1);
    std::vector<std::future<Status>> waits;
    for (size_t rank = 0; rank < 2; ++rank) {
      const DeviceSum operation =
          gpus[rank].sum_of(ascending<float>(kElements, 5.0F), DataType::kFloat32, rank == late ? gate : nullptr);
      waits.push_back(std::async(std::launch::async, [&, rank, operation] { return sum(*ranks[rank], operation); }));
    }
    for (auto& wait : waits) EXPECT_EQ(wait.wait_for(kMoment), std::future_status::timeout) << late;
    gate->count_down();
    std::vector<float> expected = ascending<float>(kElements, 5.0F);
    for (float& value : expected) value *= 2;
    for (size_t rank = 0; rank < 2; ++rank) {
      const Status status = waits[rank].get();
      ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(gpus[rank].content<float>(kElements), expected) << "rank " << rank;
    }
  }
}

TEST_F(InPlace, sums_and_other_operations_keep_one_order) {
  Gpu gpus[2] = {Gpu(0), Gpu(1)};
  auto ranks = make_ring(2, Carrier::kNccl);
  on_every_rank(2, [&](size_t rank) {
    Communicator& communicator = *ranks[rank];
    std::int64_t before = 1, after = 2;
    const DeviceSum operation = gpus[rank].sum_of(std::vector<std::int64_t>{3}, DataType::kInt64);
    const Ticket first = communicator.submit(AllReduce{&before, 1, DataType::kInt64}).value();
    const Ticket second = communicator.device_reducer()->sum(operation).value();
    const Ticket third = communicator.submit(AllReduce{&after, 1, DataType::kInt64}).value();
    EXPECT_EQ(second.sequence, first.sequence + 1);
    ASSERT_TRUE(communicator.wait(third).ok());
    ASSERT_TRUE(communicator.wait(second).ok());
    ASSERT_TRUE(communicator.wait(first).ok());
    EXPECT_EQ(before, 2);
    EXPECT_EQ(after, 4);
    EXPECT_EQ(gpus[rank].content<std::int64_t>(1), std::vector<std::int64_t>{6});
  });
}

TEST_F(InPlace, a_rank_that_sums_memory_of_the_host_is_a_mismatch) {
  Gpu gpu(0);
  auto ranks = make_ring(2, Carrier::kNccl);
  const DeviceSum operation = gpu.sum_of(std::vector<float>(8, 1.0F), DataType::kFloat32);
  on_every_rank(2, [&](size_t rank) {
    std::vector<float> data(8, 1.0F);
    const Status status = rank == 0 ? sum(*ranks[0], operation) : run(*ranks[1], AllReduce{data.data(), data.size()});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kConflict) << status.error().message;
    EXPECT_NE(status.error().message.find("all-reduce 1 on GPUs (sum of 8 float32)"), std::string::npos)
        << status.error().message;
  });
}

TEST_F(InPlace, an_nccl_error_ends_all_ranks) {
  for (const bool early : {false, true}) {
    Gpu gpus[2] = {Gpu(0), Gpu(1)};
    auto ranks = make_ring(2, Carrier::kNccl);
    fake_nccl_break_next(1, 6, early);
    on_every_rank(2, [&](size_t rank) {
      const Status status = sum(*ranks[rank], gpus[rank].sum_of(std::vector<float>(8, 1.0F), DataType::kFloat32));
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, ErrorCode::kUnavailable) << status.error().message;
      EXPECT_TRUE(ranks[rank]->abort(seconds(10)));
      EXPECT_FALSE(ranks[rank]->device_reducer()->sum({gpus[rank].memory(), 1}).ok()) << "dead for good";
    });
  }
}

// Sums that NCCL was given, by all ranks of counted_ring().
std::atomic<int> given_to_nccl{0};
decltype(NcclApi::all_reduce) real_all_reduce = nullptr;

NcclResult counted_all_reduce(const void* from, void* to, size_t count, NcclType type, NcclOperation operation,
                              NcclComm* communicator, CudaStream* stream) {
  const NcclResult result = real_all_reduce(from, to, count, type, operation, communicator, stream);
  ++given_to_nccl;
  return result;
}

Ranks counted_ring(int n) {
  RingOptions base;
  const auto counting = fake_setup();
  real_all_reduce = std::exchange(counting->api.all_reduce, counted_all_reduce);
  given_to_nccl = 0;
  base.nccl = counting;
  return make_ring(n, false, base);
}

// A sum of two ranks; the GPU of rank 0 computes until the gate opens.
std::vector<Ticket> sums_of_two(Gpu (&gpus)[2], Ranks& ranks, const std::shared_ptr<std::latch>& gate) {
  std::vector<Ticket> tickets;
  for (size_t rank = 0; rank < 2; ++rank) {
    const DeviceSum operation =
        gpus[rank].sum_of(std::vector<float>(8, 1.0F), DataType::kFloat32, rank == 0 ? gate : nullptr);
    tickets.push_back(ranks[rank]->device_reducer()->sum(operation).value());
  }
  return tickets;
}

TEST_F(InPlace, abort_is_true_only_when_no_kernel_is_left_that_could_write) {
  Gpu gpus[2] = {Gpu(0), Gpu(1)};
  auto ranks = counted_ring(2);
  const auto gate = std::make_shared<std::latch>(1);
  const auto tickets = sums_of_two(gpus, ranks, gate);
  ASSERT_TRUE(comes_true([] { return given_to_nccl == 2; }));
  EXPECT_FALSE(ranks[0]->abort(kMoment)) << "its kernel waits for the event";
  gate->count_down();
  ASSERT_TRUE(ranks[0]->abort(seconds(10)));
  EXPECT_FALSE(ranks[0]->wait(tickets[0]).ok());
  EXPECT_FALSE(ranks[1]->wait(tickets[1]).ok());
  static_cast<void>(gpus[0].sum_of(std::vector<float>(8, 7.0F), DataType::kFloat32));
  EXPECT_EQ(gpus[0].content<float>(8), std::vector<float>(8, 7.0F));
}

// A watcher of hangs follows who waits for whom, to the rank that waits for nobody.
TEST_F(InPlace, a_rank_whose_gpu_still_computes_waits_for_no_other) {
  Gpu gpus[2] = {Gpu(0), Gpu(1)};
  auto ranks = counted_ring(2);
  const auto gate = std::make_shared<std::latch>(1);
  const auto tickets = sums_of_two(gpus, ranks, gate);
  EXPECT_TRUE(comes_true([] { return given_to_nccl == 2; }));
  EXPECT_TRUE(comes_true(
      [&] { return ranks[1]->activity().waits_for_bytes_of == 0 && ranks[0]->activity().waits_for_bytes_of == -1; }));
  gate->count_down();
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(ranks[rank]->wait(tickets[rank]).ok());
}

TEST_F(InPlace, it_reaches_its_own_gpu_alone_and_refuses_what_is_none) {
  Gpu gpu(1);
  auto ranks = make_ring(2, Carrier::kNccl);
  SingleRankCommunicator single;
  EXPECT_TRUE(ranks[1]->device_reducer()->reaches(1));
  EXPECT_FALSE(ranks[1]->device_reducer()->reaches(0));
  EXPECT_TRUE(single.device_reducer()->reaches(5)) << "a sum of one rank changes nothing";
  const DeviceSum good = gpu.sum_of(std::vector<float>(8, 1.0F), DataType::kFloat32);
  DeviceSum null = good, no_event = good, unaligned = good;
  null.data = nullptr;
  no_event.after = nullptr;
  unaligned.data = static_cast<std::byte*>(good.data) + 2;
  for (DeviceReducer* reducer : {ranks[1]->device_reducer(), single.device_reducer()}) {
    for (const DeviceSum& bad : {null, no_event, unaligned}) {
      const auto refused = reducer->sum(bad);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << refused.error().message;
    }
  }
  ASSERT_TRUE(sum(single, good).ok());
  EXPECT_EQ(gpu.content<float>(8), std::vector<float>(8, 1.0F));
  EXPECT_EQ(make_ring(2, Carrier::kTcp)[0]->device_reducer(), nullptr);
}

}  // namespace
}  // namespace lockstep::trainer::comm
