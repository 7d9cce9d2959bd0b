// Processes that survive, from the orders of their agents to connected links. Each is a thread here.
#include "trainer/elastic/regroup.h"
#include "operator/base/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/trainer/elastic/linked_agent.h"

namespace lockstep::trainer::elastic {
namespace {

using rendezvous::Join;
using rendezvous::StateVersion;
using std::chrono::milliseconds;
using std::chrono::seconds;

const StateVersion kVersion{1, 7, "0123456789abcdef"};

// One process: its place in the previous generation, its agent, and the call under test on a thread of its own.
struct Survivor {
  explicit Survivor(int rank) {
    listener.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback), 0);
    EXPECT_EQ(::listen(listener.get(), 16), 0);
    address = format_address(local_address(listener.get()).value());
    world.source = World::Source::kAgent;
    world.rank = rank;
    world.generation = 1;
    world.job_uid = "uid";
    world.listen_fd = listener.get();
    agent.link->on_regroup([this] { interruption->raise(); });
  }
  ~Survivor() {
    agent.agent.reset();  // ends a wait that the test has left behind
    if (outcome.valid()) outcome.wait();
    interruption->use(nullptr);
  }
  void start(Duration link_deadline = seconds(20)) {
    outcome = std::async(std::launch::async, [this, link_deadline] {
      return regroup(*agent.link, *interruption, agent.stop, world, kVersion, link_deadline);
    });
  }

  UniqueFd listener;
  std::string address;
  World world;
  std::unique_ptr<Interruption> interruption = Interruption::create().value();
  LinkedAgent agent;
  std::future<Result<Regrouped>> outcome;
};

Join join_of(std::int64_t generation, int rank, const std::vector<std::string>& peers) {
  return {.term = 1,
          .generation = generation,
          .rank = rank,
          .world_size = static_cast<int>(peers.size()),
          .peers = peers,
          .member_of_rank = {},
          .key = std::string(63, '1') + std::to_string(generation),
          .source = {0, kVersion, false},
          .restore = ""};
}

class Regrouping : public ::testing::Test {
 protected:
  std::vector<std::string> addresses() const { return {first_.address, second_.address}; }
  Survivor first_{0}, second_{1};
};

TEST_F(Regrouping, each_regroup_is_answered_with_the_version_and_the_join_with_links) {
  std::int64_t generation = 2;
  for (Survivor* one : {&first_, &second_}) one->start();
  for (Survivor* one : {&first_, &second_}) one->agent.regroup(1, generation);
  for (Survivor* one : {&first_, &second_}) {
    EXPECT_EQ(one->agent.hears().holding, (rendezvous::Holding{1, generation, kVersion}));
  }
  first_.agent.join(join_of(generation, 0, addresses()));
  second_.agent.join(join_of(generation, 1, addresses()));
  auto one = first_.outcome.get();
  auto two = second_.outcome.get();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->world.generation, 2);
  EXPECT_EQ(two->world.rank, 1);
  EXPECT_FALSE(first_.interruption->raised());
  std::int64_t words[2] = {3, 4};
  std::vector<comm::Ticket> tickets;
  for (auto* it : {&one, &two}) {
    std::int64_t* word = it == &one ? &words[0] : &words[1];
    tickets.push_back((*it)->communicator->submit(comm::AllReduce{word, 1, comm::DataType::kInt64}).value());
  }
  EXPECT_TRUE((*one).communicator->wait(tickets[0]).ok());
  EXPECT_TRUE((*two).communicator->wait(tickets[1]).ok());
  EXPECT_EQ(words[0], 7);
  first_.interruption->use(nullptr);
  second_.interruption->use(nullptr);
}

TEST_F(Regrouping, a_newer_regroup_ends_the_wait_for_a_missing_peer) {
  first_.start();
  first_.agent.regroup(1, 2);
  first_.agent.hears();
  first_.agent.join(join_of(2, 0, addresses()));
  EXPECT_EQ(first_.outcome.wait_for(milliseconds(100)), std::future_status::timeout) << "no peer to connect to";
  first_.agent.regroup(1, 3);
  EXPECT_EQ(first_.agent.hears().holding, (rendezvous::Holding{1, 3, kVersion})) << "and nothing is said of broken";
  first_.agent.join(join_of(3, 0, {first_.address}));
  auto outcome = first_.outcome.get();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(outcome->world.generation, 3);
  EXPECT_EQ(outcome->communicator->size(), 1);
  first_.interruption->use(nullptr);
}

TEST_F(Regrouping, links_that_time_out_are_broken_and_the_next_regroup_is_awaited) {
  first_.start(milliseconds(200));
  first_.agent.regroup(1, 2);
  first_.agent.hears();
  first_.agent.join(join_of(2, 0, addresses()));
  const auto said = first_.agent.hears();
  ASSERT_TRUE(said.broken.has_value());
  EXPECT_EQ(said.broken->generation, 2);
  EXPECT_EQ(said.broken->suspect_rank, 1);
  first_.agent.regroup(1, 3);
  EXPECT_EQ(first_.agent.hears().holding->generation, 3);
}

TEST_F(Regrouping, the_wish_to_stop_ends_the_wait) {
  first_.start();
  first_.agent.stop.request(StopReason::kSignal);
  EXPECT_EQ(first_.outcome.get().error().code, ErrorCode::kCancelled);
}

TEST_F(Regrouping, the_end_of_the_link_ends_the_wait) {
  first_.start();
  first_.agent.agent.reset();
  EXPECT_EQ(first_.outcome.get().error().code, ErrorCode::kUnavailable);
}

TEST_F(Regrouping, a_join_that_makes_no_sense_is_an_error_of_its_own) {
  first_.start();
  first_.agent.regroup(1, 2);
  first_.agent.hears();
  Join join = join_of(2, 0, addresses());
  join.key = "short";
  first_.agent.join(join);
  EXPECT_EQ(first_.outcome.get().error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace lockstep::trainer::elastic
