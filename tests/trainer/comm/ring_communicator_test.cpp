#include "trainer/comm/ring_communicator.h"

#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "tests/trainer/comm/test_ring.h"
#include "trainer/comm/reduce.h"
#include "trainer/comm/single_rank_communicator.h"

namespace lockstep::trainer::comm {
namespace {

// Element i of rank r as a small whole number, so that sums are exact in every type but uint8, which wraps.
std::int64_t element(size_t rank, size_t i, int salt) {
  return static_cast<std::int64_t>((rank * 31 + i * 7 + static_cast<size_t>(salt) * 13) % 101);
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<std::byte> filled_as(size_t rank, size_t count, int salt) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(element(rank, i, salt));
  return bytes_of(values);
}

std::vector<std::byte> filled(DataType type, size_t rank, size_t count, int salt) {
  switch (type) {
    case DataType::kFloat32:
      return filled_as<float>(rank, count, salt);
    case DataType::kFloat64:
      return filled_as<double>(rank, count, salt);
    case DataType::kInt64:
      return filled_as<std::int64_t>(rank, count, salt);
    case DataType::kUint8:
      return filled_as<std::uint8_t>(rank, count, salt);
  }
  return {};
}

template <typename T>
std::vector<std::byte> expected_as(Reduction reduction, size_t ranks, size_t count, int salt) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    std::int64_t result = element(0, i, salt);
    for (size_t rank = 1; rank < ranks; ++rank) {
      const std::int64_t other = element(rank, i, salt);
      if (reduction == Reduction::kSum) result += other;
      if (reduction == Reduction::kMax) result = std::max(result, other);
      if (reduction == Reduction::kBitOr) result |= other;
    }
    values[i] = static_cast<T>(result);
  }
  return bytes_of(values);
}

std::vector<std::byte> expected(DataType type, Reduction reduction, size_t ranks, size_t count, int salt) {
  switch (type) {
    case DataType::kFloat32:
      return expected_as<float>(reduction, ranks, count, salt);
    case DataType::kFloat64:
      return expected_as<double>(reduction, ranks, count, salt);
    case DataType::kInt64:
      return expected_as<std::int64_t>(reduction, ranks, count, salt);
    case DataType::kUint8:
      return expected_as<std::uint8_t>(reduction, ranks, count, salt);
  }
  return {};
}

// Carriers x rank counts; sizes, types and reductions inside, because making a ring is the slow part.
class Rings : public ::testing::TestWithParam<std::tuple<Carrier, int>> {};

TEST_P(Rings, an_all_reduce_of_every_type_size_and_reduction_equals_the_reference) {
  const auto [carrier, n] = GetParam();
  auto ranks = make_ring(n, carrier);
  ASSERT_EQ(ranks.size(), static_cast<size_t>(n));
  const std::vector<size_t> counts{0, 1, 2, 3, 7, 1000, 1025, 8193, 150'001 / kLess};
  on_every_rank(ranks.size(), [&](size_t rank) {
    int salt = 0;
    for (const size_t count : counts) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kInt64, DataType::kUint8}) {
        for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kBitOr}) {
          const bool floating = type == DataType::kFloat32 || type == DataType::kFloat64;
          if (reduction == Reduction::kBitOr && floating) continue;
          ++salt;
          auto data = filled(type, rank, count, salt);
          const Status status = run(*ranks[rank], AllReduce{data.data(), count, type, reduction});
          ASSERT_TRUE(status.ok()) << status.error().message;
          ASSERT_TRUE(data == expected(type, reduction, ranks.size(), count, salt))
              << "rank " << rank << " count " << count << " type " << static_cast<int>(type) << " reduction "
              << static_cast<int>(reduction);
        }
      }
    }
  });
}

TEST_P(Rings, a_broadcast_reaches_every_rank_from_every_root) {
  const auto [carrier, n] = GetParam();
  auto ranks = make_ring(n, carrier);
  on_every_rank(ranks.size(), [&](size_t rank) {
    for (int root = 0; root < n; ++root) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, 1'000'001 / kLess}) {
        auto data = filled(DataType::kUint8, rank, bytes, root);
        const Status status = run(*ranks[rank], Broadcast{data.data(), bytes, root});
        ASSERT_TRUE(status.ok()) << status.error().message;
        ASSERT_TRUE(data == filled(DataType::kUint8, static_cast<size_t>(root), bytes, root));
      }
    }
  });
}

TEST_P(Rings, bytes_are_handed_on_only_to_those_that_receive) {
  const auto [carrier, n] = GetParam();
  auto ranks = make_ring(n, carrier);
  on_every_rank(ranks.size(), [&](size_t rank) {
    for (unsigned who = 0; who + 1 < 1U << ranks.size(); ++who) {  // a bit for each that receives; not all do
      const auto receives = [&](size_t each) { return (who >> each % ranks.size() & 1U) != 0; };
      for (const size_t bytes : {size_t{0}, size_t{5}, 300'001 / kLess}) {
        size_t from = rank;
        while (receives(from)) from = (from + ranks.size() - 1) % ranks.size();
        auto data = filled(DataType::kUint8, rank, bytes, static_cast<int>(who));
        const Status status = run(*ranks[rank], HandOn{data.data(), bytes, receives(rank), receives(rank + 1)});
        ASSERT_TRUE(status.ok()) << status.error().message;
        ASSERT_TRUE(data == filled(DataType::kUint8, from, bytes, static_cast<int>(who)))
            << "rank " << rank << " who " << who;
      }
    }
  });
}

TEST_P(Rings, sums_that_round_are_bitwise_identical_on_all_ranks) {
  const auto [carrier, n] = GetParam();
  auto ranks = make_ring(n, carrier);
  for (const size_t count : {size_t{100}, size_t{50'001}}) {  // the small way and the large one
    std::vector<std::vector<float>> data(ranks.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::mt19937 random(static_cast<unsigned>(rank + 1));
      std::normal_distribution<float> normal(0.0F, 1e3F);
      data[rank].resize(count);
      for (float& value : data[rank]) value = normal(random);
    }
    on_every_rank(ranks.size(), [&](size_t rank) {
      const Status status = run(*ranks[rank], AllReduce{data[rank].data(), count});
      ASSERT_TRUE(status.ok()) << status.error().message;
    });
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      EXPECT_EQ(std::memcmp(data[0].data(), data[rank].data(), count * sizeof(float)), 0) << "rank " << rank;
    }
  }
}

TEST_P(Rings, random_sequences_of_operations_queued_ahead_all_come_out_right) {
  const auto [carrier, n] = GetParam();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  auto ranks = make_ring(n, carrier);
  struct Step {
    bool broadcast;
    size_t count;
    DataType type;
    Reduction reduction;
    int root;
  };
  std::mt19937 random(seed);
  std::vector<Step> steps;
  for (int i = 0; i < 40 / static_cast<int>(kLess) + 10; ++i) {
    Step step{};
    step.broadcast = random() % 3 == 0;
    step.count = random() % (random() % 4 == 0 ? 120'000 / kLess : 2'000);
    step.type = DataType{static_cast<std::uint8_t>(random() % 4)};
    const bool floating = step.type == DataType::kFloat32 || step.type == DataType::kFloat64;
    step.reduction = Reduction{static_cast<std::uint8_t>(random() % (floating ? 2 : 3))};
    step.root = static_cast<int>(random() % static_cast<unsigned>(n));
    steps.push_back(step);
  }
  on_every_rank(ranks.size(), [&](size_t rank) {
    std::vector<std::vector<std::byte>> data;
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      data.push_back(filled(step.type, rank, step.count, static_cast<int>(i)));
      auto ticket = step.broadcast
                        ? ranks[rank]->submit(Broadcast{data[i].data(), data[i].size(), step.root})
                        : ranks[rank]->submit(AllReduce{data[i].data(), step.count, step.type, step.reduction});
      ASSERT_TRUE(ticket.ok()) << ticket.error().message;
      tickets.push_back(*ticket);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const Status status = ranks[rank]->wait(tickets[i]);
      ASSERT_TRUE(status.ok()) << status.error().message;
      const auto salt = static_cast<int>(i);
      const auto right = step.broadcast ? filled(step.type, static_cast<size_t>(step.root), step.count, salt)
                                        : expected(step.type, step.reduction, ranks.size(), step.count, salt);
      ASSERT_TRUE(data[i] == right) << "seed " << seed << " step " << i;
    }
  });
}

std::string ring_name(const ::testing::TestParamInfo<std::tuple<Carrier, int>>& info) {
  return name_of(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(carriers, Rings,
                         ::testing::Combine(::testing::ValuesIn(kCarriers), ::testing::Values(1, 2, 3, 4, 5)),
                         ring_name);

TEST(RingCommunicator, edges_inside_a_member_use_shared_memory_and_others_tcp) {
  auto ranks = make_ring(3, true);
  for (const auto& rank : ranks) {
    EXPECT_EQ(dynamic_cast<RingCommunicator&>(*rank).transport_to_next(), Transport::kSharedMemory);
  }
  auto apart = make_ring(2, false);
  EXPECT_EQ(dynamic_cast<RingCommunicator&>(*apart[0]).transport_to_next(), Transport::kTcp);
}

TEST(RingCommunicator, falls_back_to_tcp_where_shared_memory_cannot_be_made) {
  RingOptions base;
  base.shared_memory_dir = "/proc/self/no-such-folder";
  auto ranks = make_ring(2, true, base);
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(dynamic_cast<RingCommunicator&>(*ranks[0]).transport_to_next(), Transport::kTcp);
  std::vector<float> ones(2, 1.0F);
  on_every_rank(2, [&](size_t rank) {
    float value = 1.0F;
    EXPECT_TRUE(run(*ranks[rank], AllReduce{&value, 1}).ok());
    EXPECT_EQ(value, 2.0F);
  });
}

TEST(RingCommunicator, nan_wins_a_maximum_whichever_side_it_is_on) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float a[2] = {nan, 1.0F};
  const float b[2] = {1.0F, nan};
  reduce(reinterpret_cast<std::byte*>(a), reinterpret_cast<const std::byte*>(b), 2, DataType::kFloat32,
         Reduction::kMax);
  EXPECT_TRUE(std::isnan(a[0]));
  EXPECT_TRUE(std::isnan(a[1]));
}

TEST(RingCommunicator, refuses_invalid_operations_and_continues) {
  auto ranks = make_ring(2);
  float value = 1.0F;
  EXPECT_EQ(ranks[0]->submit(AllReduce{nullptr, 4}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ranks[0]->submit(AllReduce{&value, 1, DataType::kFloat32, Reduction::kBitOr}).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(ranks[0]->submit(AllReduce{&value, ~size_t{0}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ranks[0]->submit(Broadcast{&value, 4, 2}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ranks[0]->wait(Ticket{9}).error().code, ErrorCode::kInvalid);
  on_every_rank(2, [&](size_t rank) {
    float one = 1.0F;
    EXPECT_TRUE(run(*ranks[rank], AllReduce{&one, 1}).ok());
    EXPECT_EQ(one, 2.0F);
  });
}

TEST(SingleRankCommunicator, leaves_data_as_it_is_until_it_is_aborted) {
  SingleRankCommunicator alone;
  float value = 3.0F;
  EXPECT_TRUE(run(alone, AllReduce{&value, 1}).ok());
  EXPECT_EQ(value, 3.0F);
  EXPECT_TRUE(alone.abort(std::chrono::seconds(1)));
  EXPECT_EQ(alone.submit(AllReduce{&value, 1}).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::trainer::comm
