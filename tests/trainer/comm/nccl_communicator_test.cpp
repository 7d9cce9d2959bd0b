// The promises of a communicator over NCCL beyond those of every communicator (ring_communicator_test,
// ring_failures_test): its behaviour when NCCL breaks, hangs or is silent. NCCL is the fake.
#include "trainer/comm/nccl_communicator.h"

#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "tests/trainer/comm/fake_nccl.h"
#include "tests/trainer/comm/ring_parts.h"
#include "tests/trainer/comm/test_ring.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/comm/links.h"

namespace lockstep::trainer::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class OverNccl : public ::testing::Test {
 protected:
  void SetUp() override { misuses_ = fake_nccl_misuses(); }
  void TearDown() override {
    fake_nccl_release();
    EXPECT_TRUE(comes_true([] { return NcclCommunicator::hanging() == 0; }));
    EXPECT_TRUE(comes_true([] { return fake_nccl_communicators() == 0; })) << "each was destroyed or aborted";
    EXPECT_EQ(fake_nccl_misuses(), misuses_) << "nothing was done that NCCL and CUDA leave undefined";
  }

  static void await_hanging(int calls) {
    ASSERT_TRUE(comes_true([&] { return fake_cuda_hanging() == calls; }));
  }

  static Ranks make(int n, const RingOptions& base = {}) { return make_ring(n, Carrier::kNccl, base); }

  // Options of n ranks, to be set up one by one.
  static std::vector<RingOptions> options_of(Parts& parts) {
    std::vector<RingOptions> all;
    for (size_t rank = 0; rank < parts.peers.size(); ++rank) {
      auto setup = fake_setup();
      setup->device = static_cast<int>(rank);
      all.push_back(parts.options(static_cast<int>(rank)));
      all.back().nccl = std::move(setup);
    }
    return all;
  }

  int misuses_ = 0;
};

TEST_F(OverNccl, it_is_what_carries_the_bytes) {
  auto ranks = make(2);
  EXPECT_EQ(ranks[0]->carrier(), "NCCL");
}

TEST_F(OverNccl, nan_wins_a_maximum_on_every_rank) {
  auto ranks = make(3);
  on_every_rank(3, [&](size_t rank) {
    double values[2] = {static_cast<double>(rank) - 5, rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0};
    const Status status = run(*ranks[rank], AllReduce{values, 2, DataType::kFloat64, Reduction::kMax});
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(values[0], -3.0);
    EXPECT_TRUE(std::isnan(values[1]));
  });
}

TEST_F(OverNccl, generations_one_after_the_other_have_an_id_each) {
  for (int generation = 1; generation <= 3; ++generation) {
    Parts parts(2);
    auto options = options_of(parts);
    for (RingOptions& one : options) one.generation = generation;
    const auto ranks = create_all(options);
    ASSERT_TRUE(ranks[0].ok()) << ranks[0].error().message;  // the fake refuses an id that was used before
    ASSERT_TRUE(ranks[1].ok()) << ranks[1].error().message;
  }
}

TEST_F(OverNccl, an_nccl_error_ends_all_ranks_and_no_garbled_buffer_is_done) {
  for (const bool early : {false, true}) {
    for (const int error : {1, 2, 3, 5, 6}) {
      auto ranks = make(3);
      fake_nccl_break_next(1, error, early);
      on_every_rank(3, [&](size_t rank) {
        std::vector<float> data(1000, 1.0F);
        const Status status = run(*ranks[rank], AllReduce{data.data(), data.size()});
        ASSERT_FALSE(status.ok()) << "error " << error << " early " << early;
        EXPECT_EQ(status.error().code, ErrorCode::kUnavailable) << status.error().message;
        EXPECT_EQ(data, std::vector<float>(1000, 1.0F)) << "garbage that NCCL left on the GPU does not come back";
        EXPECT_EQ(ranks[rank]->suspect(), -1);
        EXPECT_FALSE(ranks[rank]->submit(AllReduce{data.data(), 1}).ok()) << "dead for good";
        EXPECT_TRUE(ranks[rank]->abort(seconds(5)));
      });
    }
  }
}

TEST_F(OverNccl, the_sentence_of_an_error_says_what_nccl_said_and_in_which_operation) {
  auto ranks = make(2);
  fake_nccl_break_next(1, 2, true);
  on_every_rank(2, [&](size_t rank) {
    float value = 1.0F;
    const Status status = run(*ranks[rank], AllReduce{&value, 1});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("unhandled system error"), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find("all-reduce 1 (sum of 1 float32)"), std::string::npos)
        << status.error().message;
  });
}

TEST_F(OverNccl, any_thread_ends_an_operation_that_another_one_waits_for) {
  auto ranks = make(2);
  std::vector<float> data(100'000, 1.0F);
  auto waiting = std::async(std::launch::async, [&] { return run(*ranks[0], AllReduce{data.data(), data.size()}); });
  ASSERT_TRUE(comes_true([&] { return ranks[0]->activity().waits_for_bytes_of == 1; }));
  EXPECT_TRUE(ranks[0]->abort(seconds(5)));
  const Status status = waiting.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(data, std::vector<float>(100'000, 1.0F));
}

TEST_F(OverNccl, a_hanging_abort_returns_false_within_its_deadline) {
  auto ranks = make(2);
  fake_nccl_hang_aborts(1, 1);
  float value = 1.0F;
  const Ticket ticket = ranks[0]->submit(AllReduce{&value, 1}).value();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(ranks[0]->abort(milliseconds(200)));
  EXPECT_FALSE(ranks[0]->abort(milliseconds(1))) << "and again";
  const Status status = ranks[0]->wait(ticket);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_LT(seconds_since(start), 5.0);
  fake_nccl_release();
}

TEST_F(OverNccl, a_communicator_that_hangs_in_destroy_is_joined_when_it_returns) {
  auto ranks = make(2);
  fake_nccl_hang_aborts(1, 1);
  float value = 1.0F;
  ASSERT_TRUE(ranks[0]->submit(AllReduce{&value, 1}).ok());
  const auto start = std::chrono::steady_clock::now();
  ranks[0].reset();
  EXPECT_LT(seconds_since(start), 15.0);
  EXPECT_EQ(NcclCommunicator::hanging(), 1U);
  fake_nccl_release();
}

TEST_F(OverNccl, aborts_that_hang_return_false_and_the_others_true) {
  fake_nccl_hang_aborts(3, 7);
  int hung = 0;
  for (int round = 0; round < 6; ++round) {
    auto ranks = make(2);
    float value = 1.0F;
    ASSERT_TRUE(ranks[0]->submit(AllReduce{&value, 1}).ok());
    for (auto& rank : ranks) hung += rank->abort(milliseconds(500)) ? 0 : 1;
    if (hung > 0) {
      fake_nccl_release();
      fake_nccl_hang_aborts(3, static_cast<unsigned>(round));
    }
    for (auto& rank : ranks) EXPECT_TRUE(rank->abort(seconds(10))) << "the library has returned";
  }
  EXPECT_GT(hung, 0);
  EXPECT_LT(hung, 12);
}

TEST_F(OverNccl, a_call_that_does_not_return_is_given_up_when_its_owner_aborts) {
  auto ranks = make(2);
  fake_cuda_hang_copies();
  std::vector<std::vector<float>> data(2, std::vector<float>(10, 1.0F));
  std::vector<Ticket> tickets;
  for (size_t rank = 0; rank < 2; ++rank)
    tickets.push_back(ranks[rank]->submit(AllReduce{data[rank].data(), 10}).value());
  await_hanging(2);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(ranks[0]->abort(milliseconds(100)));
  const Status status = ranks[0]->wait(tickets[0]);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("has not returned for 1 s"), std::string::npos) << status.error().message;
  EXPECT_LT(seconds_since(start), 10.0);
  data[0] = std::vector<float>();  // no thread writes there after abort
  fake_nccl_release();
  EXPECT_TRUE(ranks[0]->abort(seconds(10)));
}

TEST_F(OverNccl, a_call_that_does_not_return_is_a_stall) {
  RingOptions base;
  base.stall_deadline = milliseconds(200);
  auto ranks = make(2, base);
  fake_cuda_hang_copies();
  on_every_rank(2, [&](size_t rank) {
    float value = 1.0F;
    const Status status = run(*ranks[rank], AllReduce{&value, 1});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kDeadlineExceeded) << status.error().message;
    EXPECT_NE(status.error().message.find("has not returned for 5.2 s"), std::string::npos) << status.error().message;
  });
  fake_nccl_release();
}

TEST_F(OverNccl, neighbours_that_disagree_on_a_hand_on_fail_before_nccl) {
  auto ranks = make(2);
  on_every_rank(2, [&](size_t rank) {
    std::vector<float> data(10, 1.0F);
    // Rank 0 sends to no rank, so it has nothing to do and may be done; rank 1 waits for it.
    const Status status = run(*ranks[rank], HandOn{data.data(), 40, rank == 1, false});
    if (rank == 0 && status.ok()) return;
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kConflict) << status.error().message;
  });
}

TEST_F(OverNccl, ranks_with_other_chunks_do_not_link) {
  Parts parts(2);
  auto options = options_of(parts);
  auto other = std::make_shared<NcclSetup>(*options[1].nccl);
  other->chunk_bytes *= 2;
  options[1].nccl = other;
  const auto ranks = create_all(options);
  for (const auto& rank : ranks) {
    ASSERT_FALSE(rank.ok());
    EXPECT_EQ(rank.error().code, ErrorCode::kConflict) << rank.error().message;
    EXPECT_NE(rank.error().message.find("chunks of 65536 bytes"), std::string::npos) << rank.error().message;
  }
}

TEST_F(OverNccl, a_rank_that_does_not_come_is_named_when_the_deadline_has_passed) {
  Parts parts(3);
  auto options = options_of(parts);
  options.pop_back();
  for (RingOptions& one : options) one.init_deadline = milliseconds(500);
  const auto ranks = create_all(options);
  for (const auto& rank : ranks) {
    ASSERT_FALSE(rank.ok());
    EXPECT_EQ(rank.error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_NE(rank.error().message.find("rank 2"), std::string::npos) << rank.error().message;
  }
}

// A rank with control links and nothing else.
struct OnlyLinked {
  explicit OnlyLinked(RingOptions options) {
    thread = std::thread([this, options] { links.emplace(make_links(options, nullptr)); });
  }
  ~OnlyLinked() {
    if (thread.joinable()) thread.join();
  }
  std::optional<Result<Links>> links;
  std::thread thread;
};

TEST_F(OverNccl, a_rank_that_does_not_forward_the_id_is_named) {
  Parts parts(2);
  auto options = options_of(parts);
  OnlyLinked zero(options[0]);
  options[1].init_deadline = milliseconds(500);
  const auto one = make_communicator(options[1]);
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(one.error().message.find("rank 0 has not passed NCCL's id on"), std::string::npos) << one.error().message;
}

TEST_F(OverNccl, links_of_nccl_that_do_not_come_up_end_with_the_deadline_and_a_hint) {
  Parts parts(2);
  auto options = options_of(parts);
  OnlyLinked one(options[1]);
  options[0].init_deadline = milliseconds(500);
  const auto zero = make_communicator(options[0]);
  ASSERT_FALSE(zero.ok());
  EXPECT_EQ(zero.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(zero.error().message.find("NCCL_SOCKET_IFNAME"), std::string::npos) << zero.error().message;
}

TEST_F(OverNccl, a_rank_that_dies_while_nccl_links_is_suspected_at_once) {
  Parts parts(2);
  auto options = options_of(parts);
  OnlyLinked one(options[1]);
  auto zero = std::async(std::launch::async, [&] {
    int suspect = -1;
    auto made = make_communicator(options[0], &suspect);
    EXPECT_FALSE(made.ok());
    return suspect;
  });
  one.thread.join();
  ASSERT_TRUE(comes_true([] { return fake_nccl_communicators() == 1; })) << "it links over NCCL";
  const auto start = std::chrono::steady_clock::now();
  one.links.reset();
  EXPECT_EQ(zero.get(), 1);
  EXPECT_LT(seconds_since(start), 10.0) << "not the deadline of linking";
}

TEST_F(OverNccl, linking_ends_when_its_owner_says_so) {
  Parts parts(2);
  auto options = options_of(parts);
  OnlyLinked one(options[1]);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  options[0].cancel_fd = reading.get();
  auto zero = std::async(std::launch::async, [&] { return make_communicator(options[0]); });
  one.thread.join();
  ASSERT_TRUE(comes_true([] { return fake_nccl_communicators() == 1; })) << "it links over NCCL";
  writing.reset();
  const auto made = zero.get();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kCancelled) << made.error().message;
}

TEST_F(OverNccl, an_unusable_gpu_is_this_ranks_fault_and_the_others_are_told) {
  Parts parts(2);
  auto options = options_of(parts);
  auto none = std::make_shared<NcclSetup>(*options[1].nccl);
  none->device = 99;
  options[1].nccl = none;
  const auto ranks = create_all(options);
  ASSERT_FALSE(ranks[0].ok());
  EXPECT_EQ(ranks[0].error().code, ErrorCode::kUnavailable);
  ASSERT_FALSE(ranks[1].ok());
  EXPECT_EQ(ranks[1].error().code, ErrorCode::kInternal) << ranks[1].error().message;
  EXPECT_NE(ranks[1].error().message.find("GPU 99"), std::string::npos) << ranks[1].error().message;
}

TEST_F(OverNccl, a_rank_in_a_collective_waits_for_the_previous_rank) {
  auto ranks = make(3);
  std::vector<float> data(1000, 1.0F);
  ASSERT_TRUE(ranks[1]->submit(AllReduce{data.data(), data.size()}).ok());
  EXPECT_TRUE(comes_true([&] { return ranks[1]->activity().waits_for_bytes_of == 0; }));
  EXPECT_EQ(ranks[1]->activity().sequence, 1U);
  EXPECT_EQ(ranks[0]->activity(), Activity{}) << "it is in no collective, and so it is the one to look at";
}

TEST_F(OverNccl, bytes_do_not_travel_while_a_rank_waits_for_its_peer_to_begin) {
  auto ranks = make(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(size_t{1} << 20, 1.0F));
  const auto reduce = [&](size_t rank) {
    return ranks[rank]->submit(AllReduce{data[rank].data(), data[rank].size()}).value();
  };
  expect_bytes_travel_once_both_begin(ranks, reduce, [&] {
    EXPECT_TRUE(comes_true([&] { return ranks[0]->activity().waits_for_bytes_of == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the span that must not count
  });
}

TEST_F(OverNccl, a_generation_of_one_rank_needs_no_nccl) {
  RingOptions alone;
  alone.nccl = fake_setup();
  auto rank = make_communicator(alone);
  ASSERT_TRUE(rank.ok());
  EXPECT_EQ((*rank)->carrier(), "");
}

}  // namespace
}  // namespace lockstep::trainer::comm
