// Orders of the agent on the link: which of them count, and what they interrupt.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/elastic/linked_agent.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/elastic/interruption.h"

namespace lockstep::trainer::elastic {
namespace {

using Kind = rendezvous::AgentMessage::Kind;
using rendezvous::Join;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience(20);

Join join_of(std::int64_t term, std::int64_t generation) {
  return {.term = term,
          .generation = generation,
          .rank = 0,
          .world_size = 1,
          .peers = {"127.0.0.1:1"},
          .member_of_rank = {},
          .key = std::string(64, '1'),
          .source = {},
          .restore = ""};
}

class Orders : public ::testing::Test {
 protected:
  // The stop comes after all earlier messages, so by then the link has read them.
  void link_has_read_all() const {
    agent_.says(rendezvous::encode(rendezvous::AgentMessage{}));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!agent_.stop.requested() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
  Result<rendezvous::AgentMessage> at_once() { return agent_.link->next_order({}); }
  LinkedAgent agent_;
};

TEST_F(Orders, of_many_regroups_only_the_newest_is_given_out) {
  agent_.regroup(1, 2);
  agent_.regroup(1, 4);
  agent_.regroup(1, 3);
  agent_.regroup(2, 3);
  link_has_read_all();
  const auto order = at_once();
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->kind, Kind::kRegroup);
  EXPECT_EQ(order->regroup, (rendezvous::Regroup{2, 3}));
  EXPECT_FALSE(agent_.link->has_order());
}

TEST_F(Orders, a_regroup_that_was_given_out_already_is_not_given_out_again) {
  agent_.regroup(1, 2);
  ASSERT_TRUE(agent_.link->next_order(kPatience).ok());
  agent_.regroup(1, 2);
  link_has_read_all();
  EXPECT_EQ(at_once().error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(Orders, the_join_of_an_older_regroup_is_refused) {
  agent_.regroup(1, 2);
  agent_.regroup(1, 3);
  agent_.join(join_of(1, 2));
  link_has_read_all();
  EXPECT_EQ(at_once()->regroup.generation, 3);
  EXPECT_FALSE(at_once().ok());
  EXPECT_FALSE(agent_.stop.reason() == StopReason::kAgentLost);
}

TEST_F(Orders, a_join_without_a_regroup_is_refused) {
  agent_.join(join_of(1, 2));
  link_has_read_all();
  EXPECT_FALSE(at_once().ok());
}

TEST_F(Orders, a_join_counts_once) {
  agent_.regroup(1, 2);
  agent_.join(join_of(1, 2));
  agent_.join(join_of(1, 2));
  link_has_read_all();
  const auto order = at_once();
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->kind, Kind::kJoin);
  EXPECT_FALSE(at_once().ok());
}

TEST_F(Orders, a_newer_regroup_withdraws_a_join_that_was_not_read) {
  agent_.regroup(1, 2);
  agent_.join(join_of(1, 2));
  agent_.regroup(1, 3);
  link_has_read_all();
  EXPECT_EQ(at_once()->kind, Kind::kRegroup);
}

TEST_F(Orders, a_join_of_a_great_gang_fits) {
  Join join = join_of(1, 2);
  join.world_size = 8192;
  join.peers.assign(8192, "[2001:db8:1234:5678:9abc:def0:1234:5678]:65000");
  ASSERT_GT(rendezvous::encode(rendezvous::AgentMessage{.kind = Kind::kJoin, .regroup = {}, .join = join, .yields = 0})
                .size(),
            rendezvous::kMaxLinkLine);
  agent_.regroup(1, 2);
  ASSERT_TRUE(agent_.link->next_order(kPatience).ok());
  agent_.join(join);
  const auto order = agent_.link->next_order(kPatience);
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->join, join);
}

TEST_F(Orders, waiting_ends_with_its_deadline_and_with_the_link) {
  EXPECT_EQ(agent_.link->next_order(milliseconds(1)).error().code, ErrorCode::kDeadlineExceeded);
  agent_.says("nonsense\n");
  EXPECT_EQ(agent_.link->next_order(kPatience).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(agent_.stop.reason(), StopReason::kAgentLost);
}

TEST_F(Orders, a_regroup_interrupts_once_and_can_be_seen_then) {
  std::atomic<int> interrupts{0};
  std::atomic<bool> seen{false};
  agent_.link->on_regroup([&] {
    ++interrupts;
    seen = agent_.link->has_order();
  });
  agent_.regroup(1, 2);
  agent_.regroup(1, 2);
  agent_.join(join_of(1, 2));
  link_has_read_all();
  EXPECT_EQ(interrupts, 1);
  EXPECT_TRUE(seen);
}

TEST(Interruption, wakes_a_rank_that_waits_in_a_collective) {
  auto ring = comm::make_in_process_ring(2).value();
  auto interruption = Interruption::create().value();
  interruption->use(ring[0].get());
  std::int64_t word = 1;
  auto ticket = ring[0]->submit(comm::AllReduce{&word, 1, comm::DataType::kInt64, comm::Reduction::kSum});
  ASSERT_TRUE(ticket.ok());
  std::thread other([&] { interruption->raise(); });
  EXPECT_EQ(ring[0]->wait(*ticket).error().code, ErrorCode::kCancelled) << "rank 1 never takes part";
  other.join();
  EXPECT_TRUE(interruption->flag());
  interruption->use(nullptr);
}

TEST(Interruption, that_came_before_the_communicator_ends_it_at_once) {
  auto ring = comm::make_in_process_ring(2).value();
  auto interruption = Interruption::create().value();
  interruption->raise();
  interruption->use(ring[0].get());
  EXPECT_TRUE(ring[0]->abort(kPatience));
  interruption->use(nullptr);
  interruption->clear();
  EXPECT_FALSE(interruption->raised());
  interruption->use(ring[1].get());
  interruption->use(nullptr);
}

TEST(Interruption, raise_sets_the_flag_then_wakes_other_waiters) {
  auto interruption = Interruption::create().value();
  std::vector<bool> woken;  // the flag, at each call
  const auto wake = [&] { woken.push_back(interruption->flag().load()); };
  interruption->on_raise(wake);
  EXPECT_TRUE(woken.empty());
  interruption->raise();
  EXPECT_EQ(woken, (std::vector<bool>{true}));
  interruption->on_raise(wake);
  EXPECT_EQ(woken, (std::vector<bool>{true, true})) << "at once, after raise()";
  interruption->clear();
  interruption->on_raise({});
  interruption->raise();
  EXPECT_EQ(woken.size(), 2U);
}

TEST(Interruption, may_come_while_the_communicator_is_replaced) {
  auto interruption = Interruption::create().value();
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) interruption->raise();
  });
  for (int i = 0; i < 10; ++i) {
    auto ring = comm::make_in_process_ring(2).value();
    interruption->use(ring[0].get());
    EXPECT_TRUE(ring[0]->abort(kPatience));
    interruption->use(nullptr);
    interruption->clear();
  }
  done = true;
  other.join();
}

}  // namespace
}  // namespace lockstep::trainer::elastic
