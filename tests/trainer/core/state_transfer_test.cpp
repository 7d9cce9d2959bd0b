// Transfers the state of one rank to the ranks that hold another, over a real ring.
#include "trainer/core/state_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/core/gang.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/data/generated.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

using comm::AllReduce;
using comm::Broadcast;
using comm::Communicator;
using comm::HandOn;
using core::Held;
using core::Transferred;
using core::Version;
using testing::Bytes;
using testing::bytes_of;
using testing::Rank;
using testing::Recipe;

constexpr core::TransferNotes kNotes{.first_held_out_loss = 2.5, .loss = 0.25};

// Large enough that a block is a while on its way.
Recipe large_mlp() {
  return {.graph = [] { return models::mlp({.batch = 4, .width = sanitizer::kOn ? 480 : 720, .layers = 3}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.rule = core::AdamW{}},
          .options = {.seed = 3, .micro_batches = 2},
          .deterministic = true};
}

// A batch so large that the activations need more memory than the state.
Recipe wide_batch() {
  Recipe recipe = large_mlp();
  recipe.graph = [] { return models::mlp({.batch = 512, .width = 32, .layers = 3}); };
  return recipe;
}

// Forwards every operation, and lets a test spoil it.
class Meddling final : public Communicator {
 public:
  explicit Meddling(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Result<comm::Ticket> submit(const AllReduce& operation) override { return inner_.submit(operation); }
  Result<comm::Ticket> submit(const Broadcast& operation) override { return inner_.submit(operation); }
  Result<comm::Ticket> submit(const HandOn& operation) override {
    ++blocks;
    if (blocks == dies_at) inner_.abort(std::chrono::seconds(10));
    auto ticket = inner_.submit(operation);
    if (operation.receives) {
      received += operation.bytes;
      places.emplace_back(static_cast<std::byte*>(operation.data), operation.bytes);
    }
    if (operation.sends) sent += operation.bytes;
    if (ticket && blocks == flips_at) spoiled_ = {ticket->sequence, static_cast<std::byte*>(operation.data)};
    return ticket;
  }
  Status wait(comm::Ticket ticket) override {
    Status status = inner_.wait(ticket);
    if (status && ticket.sequence == spoiled_.first) *spoiled_.second ^= std::byte{1};
    return status;
  }
  bool abort(Duration deadline) override { return inner_.abort(deadline); }
  int suspect() const override { return inner_.suspect(); }
  comm::Activity activity() const override { return inner_.activity(); }

  int blocks = 0;
  int dies_at = -1;   // this block is the end of the ring
  int flips_at = -1;  // a bit of this block changes on the way
  size_t sent = 0, received = 0;
  std::vector<std::span<std::byte>> places;  // where blocks were received

 private:
  Communicator& inner_;
  std::pair<std::uint64_t, std::byte*> spoiled_{0, nullptr};
};

// Three ranks whose states a test sets up, and the results of a transfer among them.
class StateTransfer : public ::testing::Test {
 protected:
  static constexpr size_t kRanks = 3;
  explicit StateTransfer(const Recipe& recipe = large_mlp()) : ring_(comm::make_in_process_ring(kRanks, true).value()) {
    for (auto& communicator : ring_) {
      meddling_.push_back(std::make_unique<Meddling>(*communicator));
      ranks_.push_back(std::make_unique<Rank>(recipe, *communicator));
      ranks_.back()->replica->use(*communicator, 4);
    }
  }
  core::State& state(size_t rank) { return ranks_[rank]->replica->state(); }
  // `steps` more on all ranks.
  void train(int steps) {
    on_every_rank([&](size_t rank) {
      for (int i = 0; i < steps; ++i) ASSERT_TRUE(ranks_[rank]->replica->step({}).ok());
    });
  }
  void on_every_rank(const std::function<void(size_t)>& body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < kRanks; ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<Result<Transferred>> transfer(int source, const Version& version, const std::set<size_t>& nothing = {}) {
    std::vector<Result<Transferred>> results(kRanks, Transferred{});
    on_every_rank([&](size_t rank) {
      auto notes = static_cast<int>(rank) == source ? kNotes : core::TransferNotes{};
      results[rank] = core::transfer_state(state(rank), *meddling_[rank], source, version, notes,
                                           nothing.count(rank) != 0 ? Held::kNothing : Held::kState,
                                           ranks_[rank]->replica->spare());
      if (!results[rank]) meddling_[rank]->abort(std::chrono::seconds(10));  // as its owner would
    });
    return results;
  }
  // The state of `rank`, to restore it later.
  struct Kept {
    Bytes bytes;
    std::int64_t committed_in = 0;
  };
  Kept keep(size_t rank) {
    EXPECT_TRUE(state(rank).fetch().ok());
    Kept kept{{}, state(rank).committed_in};
    for (const core::State::Block& block : state(rank).image()) {
      kept.bytes.insert(kept.bytes.end(), block.data, block.data + block.bytes);
    }
    return kept;
  }
  // Flips a bit of block `block` of the state's image.
  void flip(size_t rank, size_t block, size_t byte) {
    EXPECT_TRUE(state(rank).fetch().ok());
    state(rank).image()[block].data[byte] ^= std::byte{1};
    EXPECT_TRUE(state(rank).written().ok());
  }
  Bytes image_of(size_t rank) { return keep(rank).bytes; }
  // Trains two steps, and takes the rank back to the first. What it holds then.
  Kept fall_behind(size_t rank) {
    train(1);
    Kept behind = keep(rank);
    train(1);
    put_back(rank, behind);
    return behind;
  }
  void put_back(size_t rank, const Kept& kept) {
    EXPECT_TRUE(state(rank).install(kept.bytes.data(), kept.committed_in).ok());
  }

  std::vector<std::unique_ptr<Communicator>> ring_;
  std::vector<std::unique_ptr<Meddling>> meddling_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(StateTransfer, commit_says_which_generation_it_was) {
  EXPECT_EQ(state(0).version().committed_in, 0);
  train(2);
  EXPECT_EQ(state(0).version().committed_in, 4);
  EXPECT_EQ(state(0).version().step, 2);
  EXPECT_EQ(state(0).version(), state(1).version());
}

TEST_F(StateTransfer, ranks_that_hold_the_version_are_not_touched) {
  train(1);
  Bytes before = bytes_of(state(0));
  for (auto& result : transfer(1, state(1).version())) {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_FALSE(result->installed);
    EXPECT_EQ(result->notes.loss, kNotes.loss);
  }
  EXPECT_EQ(bytes_of(state(0)), before);
  for (auto& each : meddling_) EXPECT_EQ(each->sent + each->received, 0U);
}

TEST_F(StateTransfer, a_rank_that_is_a_step_behind_gets_the_newest) {
  Kept behind = fall_behind(2);
  ASSERT_EQ(state(2).step, 1);
  auto results = transfer(0, state(0).version());
  ASSERT_TRUE(results[2].ok()) << results[2].error().message;
  EXPECT_FALSE(results[1]->installed);
  EXPECT_TRUE(results[2]->installed);
  EXPECT_EQ(results[2]->notes.first_held_out_loss, kNotes.first_held_out_loss);
  EXPECT_EQ(bytes_of(state(2)), bytes_of(state(0)));
  EXPECT_EQ(state(2).version(), state(0).version());
}

class StateTransferOfWideBatches : public StateTransfer {
 protected:
  StateTransferOfWideBatches() : StateTransfer(wide_batch()) {}
};

TEST_F(StateTransferOfWideBatches, no_second_state_is_allocated_where_activations_leave_room) {
  const std::span<std::byte> spare = ranks_[2]->replica->spare();
  ASSERT_GE(spare.size(), state(2).bytes());
  fall_behind(2);
  auto results = transfer(0, state(0).version());
  ASSERT_TRUE(results[2].ok()) << results[2].error().message;
  EXPECT_EQ(bytes_of(state(2)), bytes_of(state(0)));
  EXPECT_EQ(meddling_[2]->received, state(2).bytes());
  const auto at = [](const std::byte* place) { return reinterpret_cast<std::uintptr_t>(place); };
  for (const std::span<std::byte> place : meddling_[2]->places) {
    EXPECT_GE(at(place.data()), at(spare.data()));
    EXPECT_LE(at(place.data()) + place.size(), at(spare.data()) + spare.size());
  }
  train(1);
  EXPECT_EQ(bytes_of(state(2)), bytes_of(state(0))) << "and trains on like the others";
}

TEST_F(StateTransferOfWideBatches, a_source_that_dies_in_the_middle_leaves_the_state_in_use_whole) {
  Kept behind = fall_behind(2);
  meddling_[0]->dies_at = 2;
  EXPECT_FALSE(transfer(0, state(0).version())[2].ok());
  EXPECT_EQ(image_of(2), behind.bytes);
}

TEST_F(StateTransfer, a_rank_that_has_just_started_gets_everything) {
  train(2);
  ranks_[0] = std::make_unique<Rank>(large_mlp(), *ring_[0]);
  auto results = transfer(2, state(2).version(), {0});
  ASSERT_TRUE(results[0].ok());
  EXPECT_TRUE(results[0]->installed);
  EXPECT_EQ(bytes_of(state(0)), bytes_of(state(1)));
  train(1);
  EXPECT_EQ(bytes_of(state(0)), bytes_of(state(1))) << "and trains on like the others";
}

TEST_F(StateTransfer, each_rank_receives_from_the_previous_one_and_no_other_link_is_used) {
  train(1);
  ranks_[1] = std::make_unique<Rank>(large_mlp(), *ring_[1]);
  auto results = transfer(2, state(2).version(), {1});  // the source is not the neighbour
  for (auto& result : results) ASSERT_TRUE(result.ok()) << result.error().message;
  const size_t bytes = state(0).bytes();
  EXPECT_EQ(meddling_[0]->sent, bytes);
  EXPECT_EQ(meddling_[1]->received, bytes);
  EXPECT_EQ(meddling_[1]->sent + meddling_[2]->sent + meddling_[0]->received + meddling_[2]->received, 0U);
  EXPECT_EQ(results[1]->notes.loss, kNotes.loss) << "of the source";
  EXPECT_EQ(bytes_of(state(1)), bytes_of(state(2)));
}

TEST_F(StateTransfer, those_that_have_just_started_pass_it_on_to_one_another) {
  train(1);
  for (size_t rank : {0U, 2U}) ranks_[rank] = std::make_unique<Rank>(large_mlp(), *ring_[rank]);
  auto results = transfer(1, state(1).version(), {0, 2});
  for (auto& result : results) ASSERT_TRUE(result.ok()) << result.error().message;
  for (size_t rank : {0U, 2U}) EXPECT_EQ(bytes_of(state(rank)), bytes_of(state(1)));
  EXPECT_EQ(state(0).version(), state(1).version());
}

TEST_F(StateTransfer, a_partly_received_state_is_not_the_version) {
  train(1);
  const Version version = state(0).version();
  ranks_[2] = std::make_unique<Rank>(large_mlp(), *ring_[2]);
  meddling_[2]->flips_at = 2;
  auto results = transfer(0, version, {2});
  ASSERT_FALSE(results[2].ok());
  EXPECT_EQ(results[2].error().code, ErrorCode::kInternal);
  EXPECT_NE(state(2).version().digest, version.digest);
}

TEST_F(StateTransfer, the_digest_that_a_commit_leaves_is_the_one_that_is_read) {
  for (int i = 0; i < 3; ++i) {
    train(1);
    const Version kept = state(0).version();
    state(0).changed();
    EXPECT_EQ(state(0).version(), kept);
  }
  const Version before = state(0).version();
  ASSERT_TRUE(state(0).fetch().ok());
  for (const core::StateTensor& tensor : state(0).tensors()) {
    if (tensor.bytes == 0) continue;
    tensor.data[tensor.bytes - 1] ^= std::byte{1};
    ASSERT_TRUE(state(0).written().ok());
    EXPECT_NE(state(0).version().digest, before.digest) << tensor.name;
    tensor.data[tensor.bytes - 1] ^= std::byte{1};
  }
  ASSERT_TRUE(state(0).written().ok());
  EXPECT_EQ(state(0).version(), before);
}

TEST_F(StateTransfer, another_state_of_the_same_step_is_overwritten) {
  train(1);
  flip(1, 0, 5);
  auto results = transfer(0, state(0).version());
  ASSERT_TRUE(results[1].ok());
  EXPECT_TRUE(results[1]->installed);
  EXPECT_EQ(bytes_of(state(1)), bytes_of(state(0)));
}

TEST_F(StateTransfer, an_equal_state_takes_the_generation_of_the_source) {
  train(1);
  state(1).committed_in = 2;
  auto results = transfer(0, state(0).version());
  ASSERT_TRUE(results[1].ok());
  EXPECT_TRUE(results[1]->installed);
  EXPECT_EQ(state(1).committed_in, 4);
}

TEST_F(StateTransfer, a_source_that_dies_in_the_middle_leaves_receivers_whole) {
  Kept behind = fall_behind(2);
  meddling_[0]->dies_at = 3;
  auto results = transfer(0, state(0).version());
  for (size_t rank : {1U, 2U}) {
    ASSERT_FALSE(results[rank].ok());
    EXPECT_EQ(results[rank].error().code, ErrorCode::kUnavailable) << results[rank].error().message;
  }
  EXPECT_EQ(image_of(2), behind.bytes);
  EXPECT_EQ(state(2).step, 1);
}

TEST_F(StateTransfer, a_state_that_changes_on_the_way_is_not_installed) {
  Kept behind = fall_behind(2);
  meddling_[2]->flips_at = 3;
  auto results = transfer(0, state(0).version());
  ASSERT_FALSE(results[2].ok());
  EXPECT_EQ(results[2].error().code, ErrorCode::kInternal);
  EXPECT_EQ(image_of(2), behind.bytes);
}

TEST_F(StateTransfer, a_source_without_the_announced_version_is_refused) {
  train(1);
  Version version = state(0).version();
  version.digest ^= 1;
  Bytes before = bytes_of(state(1));
  auto results = transfer(0, version);
  EXPECT_EQ(results[0].error().code, ErrorCode::kInternal);
  for (size_t rank : {1U, 2U}) EXPECT_EQ(results[rank].error().code, ErrorCode::kUnavailable) << "the source has ended";
  EXPECT_EQ(bytes_of(state(1)), before);
}

TEST_F(StateTransfer, ranks_agree_sees_one_bit) {
  train(1);
  std::vector<int> agree(kRanks, -1);
  auto ask = [&] { on_every_rank([&](size_t rank) { agree[rank] = ranks_[rank]->replica->ranks_agree().value(); }); };
  ask();
  EXPECT_EQ(agree, (std::vector<int>{1, 1, 1}));
  flip(2, 2, 0);
  ask();
  EXPECT_EQ(agree, (std::vector<int>{0, 0, 0}));
}

TEST_F(StateTransfer, a_step_after_a_failed_one_over_another_ring_is_bitwise_identical) {
  train(1);
  Kept before = keep(0);
  train(1);
  Bytes expected = bytes_of(state(0));
  for (size_t rank = 0; rank < kRanks; ++rank) put_back(rank, before);
  on_every_rank([&](size_t rank) {
    if (rank == 1) {
      ring_[1]->abort(std::chrono::seconds(10));  // while the others transfer
    } else {
      EXPECT_FALSE(ranks_[rank]->replica->step({}).ok());
      EXPECT_TRUE(ring_[rank]->abort(std::chrono::seconds(10)));
    }
  });
  EXPECT_EQ(image_of(0), before.bytes);
  auto next = comm::make_in_process_ring(kRanks, false).value();
  for (size_t rank = 0; rank < kRanks; ++rank) ranks_[rank]->replica->use(*next[rank], 5);
  train(1);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(bytes_of(state(rank)), expected);
    EXPECT_EQ(state(rank).committed_in, 5);
  }
  ring_ = std::move(next);  // outlives the ranks
}

}  // namespace
}  // namespace lockstep::trainer
