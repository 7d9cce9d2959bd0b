#include "trainer/comm/transfer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/trainer/comm/test_ring.h"

namespace lockstep::trainer::comm {
namespace {

// A stream between two ranks in memory that moves a random few bytes at a time, as a busy network might.
class Trickle final : public ByteSink, public ByteSource {
 public:
  explicit Trickle(std::mt19937& random) : random_(random), memory_(kBytes / 8) {}

  IoResult write(std::span<const iovec> pieces) override {
    size_t room = std::min(kBytes - written_, grain());
    IoResult result;
    for (const iovec& piece : pieces) {
      const size_t n = std::min(room, piece.iov_len);
      if (n > 0) std::memcpy(bytes() + written_, piece.iov_base, n);
      written_ += n;
      room -= n;
      result.bytes += n;
      if (n < piece.iov_len) break;
    }
    return result;
  }
  IoResult read(std::span<std::byte> to) override {
    std::span<const std::byte> there;
    peek(there);
    const size_t n = std::min({there.size(), to.size(), grain()});
    if (n > 0) std::memcpy(to.data(), there.data(), n);
    consume(n);
    return {.bytes = n, .ended = n == 0 && ended};
  }
  IoResult peek(std::span<const std::byte>& out) override {
    // At least 64 bytes when they are there, so that an element is always whole.
    const size_t n = std::min(written_ - read_, std::max<size_t>(64, grain()));
    out = {bytes() + read_, n};
    return {.bytes = n, .ended = n == 0 && ended};
  }
  void consume(size_t n) override { read_ += n; }
  int poll_fd() const override { return -1; }

  bool ended = false;

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  std::byte* bytes() { return static_cast<std::byte*>(static_cast<void*>(memory_.data())); }
  size_t grain() { return random_() % 4 == 0 ? 0 : random_() % 3000; }

  std::mt19937& random_;
  std::vector<std::uint64_t> memory_;
  size_t written_ = 0;
  size_t read_ = 0;
};

struct Ring {
  Ring(int n, std::mt19937& random) {
    for (int i = 0; i < n; ++i) edges.push_back(std::make_unique<Trickle>(random));  // edge i: from rank i to the next
  }
  // Pumps all ranks in random order until all are done. False: they make no further progress.
  bool run(std::vector<Transfer>& transfers, std::mt19937& random) {
    const size_t n = transfers.size();
    for (int turn = 0; turn < 1'000'000; ++turn) {
      const size_t rank = random() % n;
      if (!transfers[rank].done()) {
        const auto moved = transfers[rank].pump(*edges[(rank + n - 1) % n], *edges[rank]);
        if (moved.problem != Transfer::Problem::kNone) return false;
      }
      size_t done = 0;
      for (const Transfer& transfer : transfers) done += transfer.done() ? 1 : 0;
      if (done == n) break;
    }
    for (Transfer& transfer : transfers) {
      if (!transfer.done()) return false;
      transfer.finish();
    }
    return true;
  }
  std::vector<std::unique_ptr<Trickle>> edges;
};

TEST(Transfer, comes_to_the_right_sum_whatever_the_grain_of_the_streams) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 60 / static_cast<int>(kLess); ++round) {
    const int n = 2 + static_cast<int>(random() % 6);
    const size_t count = random() % 2 == 0 ? random() % 64 : random() % 6000;
    std::vector<std::vector<std::int64_t>> data(static_cast<size_t>(n), std::vector<std::int64_t>(count));
    std::vector<std::int64_t> sum(count);
    for (auto& values : data) {
      for (size_t i = 0; i < count; ++i) sum[i] += values[i] = static_cast<std::int64_t>(random());
    }
    Ring ring(n, random);
    std::vector<Transfer> transfers;
    for (int rank = 0; rank < n; ++rank) {
      transfers.emplace_back(
          AllReduce{data[static_cast<size_t>(rank)].data(), count, DataType::kInt64, Reduction::kSum}, 1, rank, n);
    }
    ASSERT_TRUE(ring.run(transfers, random)) << "n " << n << " count " << count;
    for (const auto& values : data) ASSERT_EQ(values, sum) << "n " << n << " count " << count;
  }
}

TEST(Transfer, the_small_and_the_large_way_meet_at_their_border) {
  EXPECT_TRUE(takes_small_way(kSmallAllReduceBytes, 4));
  EXPECT_FALSE(takes_small_way(kSmallAllReduceBytes + 1, 4));
  EXPECT_FALSE(takes_small_way(kSmallAllReduceBytes, 1000)) << "scratch memory grows with the ranks";
}

TEST(Transfer, a_neighbours_other_operation_is_a_mismatch_before_its_bytes_count) {
  std::mt19937 random(1);
  std::vector<float> mine(100, 1.0F);
  std::vector<float> theirs(200, 2.0F);
  Trickle to_me(random);
  Trickle from_me(random);
  Transfer me(AllReduce{mine.data(), mine.size()}, 4, 0, 2);
  Transfer other(AllReduce{theirs.data(), theirs.size()}, 4, 1, 2);
  Transfer::Moved moved;
  for (int i = 0; i < 1000 && moved.problem == Transfer::Problem::kNone; ++i) {
    Trickle nothing(random);
    (void)other.pump(nothing, to_me);
    moved = me.pump(to_me, from_me);
  }
  EXPECT_EQ(moved.problem, Transfer::Problem::kMismatch);
  EXPECT_EQ(me.theirs().count, 200U);
  EXPECT_EQ(mine, std::vector<float>(100, 1.0F));
}

TEST(Transfer, the_end_of_the_stream_in_the_middle_is_a_problem) {
  std::mt19937 random(2);
  std::vector<float> mine(100, 1.0F);
  Trickle to_me(random);
  Trickle from_me(random);
  Transfer me(AllReduce{mine.data(), mine.size()}, 1, 0, 2);
  to_me.ended = true;
  EXPECT_EQ(me.pump(to_me, from_me).problem, Transfer::Problem::kSourceEnded);
}

}  // namespace
}  // namespace lockstep::trainer::comm
