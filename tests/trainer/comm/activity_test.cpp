// The activity of a ring in which one rank does not take part.
#include <numeric>

#include "tests/trainer/comm/test_ring.h"

namespace lockstep::trainer::comm {
namespace {

constexpr size_t kCount = size_t{1} << 20;  // 8 MiB: more than sockets and shared memory take

std::vector<Activity> activities_of(const Ranks& ranks) {
  std::vector<Activity> seen;
  for (const auto& rank : ranks) seen.push_back(rank->activity());
  return seen;
}

// The activities once no number changes.
std::vector<Activity> at_rest(const Ranks& ranks) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<Activity> before = activities_of(ranks);
  for (auto since = begun; seconds_since(since) < 0.3 && seconds_since(begun) < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto now = activities_of(ranks);
    if (now != before) since = std::chrono::steady_clock::now();
    before = std::move(now);
  }
  return before;
}

class ActivityOf : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Transports, ActivityOf, testing::Values(false, true),
                         [](const auto& shared) { return shared.param ? "shared_memory" : "tcp"; });

TEST_P(ActivityOf, ranks_wait_along_the_ring_for_a_peer_that_takes_no_part) {
  std::vector<std::vector<double>> data(4, std::vector<double>(kCount, 1));
  const Ranks ranks = make_ring(4, GetParam());
  ASSERT_EQ(ranks.size(), 4U);
  const auto reduce = [&](size_t rank) {
    return ranks[rank]->submit(AllReduce{data[rank].data(), kCount, DataType::kFloat64});
  };
  std::vector<Ticket> tickets(4);
  for (const size_t rank : {0U, 1U, 3U}) tickets[rank] = reduce(rank).value();
  const std::vector<Activity> seen = at_rest(ranks);
  EXPECT_EQ(seen[2], Activity()) << "it has not begun";
  EXPECT_EQ(seen[3].waits_for_bytes_of, 2);
  EXPECT_EQ(seen[0].waits_for_bytes_of, 3);
  EXPECT_EQ(seen[1].waits_for_bytes_of, 0);
  EXPECT_EQ(seen[1].waits_for_room_at, 2) << "rank 2 takes nothing";
  for (const size_t rank : {0U, 1U, 3U}) {
    EXPECT_EQ(seen[rank].sequence, 1U);
    EXPECT_EQ(seen[rank].stage, Stage::kReduceScatter);
    EXPECT_GT(seen[rank].sent, 0U);
  }

  tickets[2] = reduce(2).value();
  for (size_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(ranks[rank]->wait(tickets[rank]).ok());
  EXPECT_EQ(data[1][kCount - 1], 4);
  for (size_t rank = 0; rank < 4; ++rank) {
    const Activity idle = ranks[rank]->activity();
    EXPECT_EQ(idle.sequence, 1U);
    EXPECT_EQ(idle.stage, Stage::kIdle);
    EXPECT_EQ(idle.waits_for_bytes_of, -1);
    EXPECT_EQ(idle.waits_for_room_at, -1);
    EXPECT_EQ(idle.sent, ranks[(rank + 1) % 4]->activity().received) << "all sent bytes have arrived";
  }
}

TEST_P(ActivityOf, a_rank_that_skips_a_collective_is_one_behind_and_waits_for_none) {
  std::vector<std::int64_t> words(3, 1);  // outlives the ring, which ends in the middle of a collective
  const Ranks ranks = make_ring(3, GetParam());
  ASSERT_EQ(ranks.size(), 3U);
  const auto submit = [&](size_t rank) {
    return ranks[rank]->submit(AllReduce{&words[rank], 1, DataType::kInt64}).value();
  };
  on_every_rank(3, [&](size_t rank) { ASSERT_TRUE(ranks[rank]->wait(submit(rank)).ok()); });
  submit(0);
  submit(2);
  const std::vector<Activity> seen = at_rest(ranks);
  EXPECT_EQ(seen[1].sequence, 1U);
  EXPECT_EQ(seen[1].stage, Stage::kIdle);
  for (const size_t rank : {0U, 2U}) {
    EXPECT_EQ(seen[rank].sequence, 2U);
    EXPECT_EQ(seen[rank].stage, Stage::kExchange);
  }
  EXPECT_EQ(seen[2].waits_for_bytes_of, 1);
  EXPECT_EQ(seen[0].waits_for_bytes_of, 2);
}

TEST_P(ActivityOf, bytes_do_not_travel_while_a_rank_waits_for_its_peer_to_begin) {
  const Ranks ranks = make_ring(2, GetParam());
  ASSERT_EQ(ranks.size(), 2U);
  std::vector<std::vector<double>> data(2, std::vector<double>(kCount, 1));
  const auto reduce = [&](size_t rank) {
    return ranks[rank]->submit(AllReduce{data[rank].data(), kCount, DataType::kFloat64}).value();
  };
  expect_bytes_travel_once_both_begin(ranks, reduce, [&] { at_rest(ranks); });  // 0.3 s
}

TEST_P(ActivityOf, activity_names_each_half_of_a_large_all_reduce) {
  const Ranks ranks = make_ring(2, GetParam());
  ASSERT_EQ(ranks.size(), 2U);
  std::vector<std::vector<double>> data(2, std::vector<double>(kCount));
  bool seen[5] = {};
  for (int round = 0; round < 200 && !(seen[1] && seen[2]); ++round) {
    std::vector<Ticket> tickets;
    for (size_t rank = 0; rank < 2; ++rank) {
      tickets.push_back(ranks[rank]->submit(AllReduce{data[rank].data(), kCount, DataType::kFloat64}).value());
    }
    for (Activity now; (now = ranks[0]->activity()).sequence < tickets[0].sequence || now.stage != Stage::kIdle;) {
      seen[static_cast<size_t>(now.stage)] = true;
    }
    for (size_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(ranks[rank]->wait(tickets[rank]).ok());
  }
  EXPECT_TRUE(seen[static_cast<size_t>(Stage::kReduceScatter)]);
  EXPECT_TRUE(seen[static_cast<size_t>(Stage::kAllGather)]);
  EXPECT_FALSE(seen[static_cast<size_t>(Stage::kBroadcast)] || seen[static_cast<size_t>(Stage::kExchange)]);
}

TEST(ActivityOfOne, a_world_of_one_waits_for_no_rank) {
  const Ranks ranks = make_ring(1);
  double number = 1;
  ASSERT_TRUE(run(*ranks[0], AllReduce{&number, 1, DataType::kFloat64}).ok());
  EXPECT_EQ(ranks[0]->activity(), Activity{.sequence = 1});
}

}  // namespace
}  // namespace lockstep::trainer::comm
