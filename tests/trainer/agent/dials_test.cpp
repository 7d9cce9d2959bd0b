#include "trainer/agent/dials.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace lockstep::trainer::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

// Listens on a port of its own and takes nobody.
struct Listener {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address;

  Listener() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    socklen_t length = sizeof own;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
    address = fmt::format("127.0.0.1:{}", ntohs(own.sin_port));
  }
};

// As the agent's loop does.
std::optional<Dials::Outcome> finish(Dials& dials) {
  for (const auto end = now() + seconds(5); now() < end;) {
    if (auto outcome = dials.step(now())) return outcome;
    std::vector<pollfd> polls;
    dials.add_polls(polls);
    ::poll(polls.data(), polls.size(), 50);
  }
  return std::nullopt;
}

TEST(Dials, all_that_listen_are_reached) {
  std::vector<Listener> listeners(100);
  std::vector<std::string> addresses;
  for (const Listener& listener : listeners) addresses.push_back(listener.address);
  Dials dials;
  dials.start(7, addresses);
  const auto outcome = finish(dials);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->generation, 7);
  EXPECT_EQ(outcome->problem, "");
  EXPECT_FALSE(dials.step(now())) << "said once";
  EXPECT_EQ(dials.deadline(), MonotonicTime::max());
}

TEST(Dials, the_one_where_nobody_listens_is_named) {
  Listener there;
  std::string gone;
  {
    Listener closed;
    gone = closed.address;
  }
  Dials dials;
  dials.start(7, {there.address, gone});
  const auto outcome = finish(dials);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->problem, gone + ": Connection refused");
}

TEST(Dials, an_address_that_does_not_answer_has_two_seconds) {
  Listener full;  // whose queue is full, so that the system leaves further ones unanswered
  std::vector<UniqueFd> queue;
  ASSERT_EQ(::listen(full.fd.get(), 0), 0);
  for (int i = 0; i < 3; ++i) {
    queue.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    socklen_t length = sizeof to;
    ::getsockname(full.fd.get(), reinterpret_cast<sockaddr*>(&to), &length);
    ::connect(queue.back().get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  Dials dials;
  dials.start(7, {full.address});
  const MonotonicTime begun = now();
  EXPECT_FALSE(dials.step(begun));
  EXPECT_EQ(dials.deadline(), begun + seconds(2));
  EXPECT_FALSE(dials.step(begun + milliseconds(1999)));
  const auto outcome = dials.step(begun + seconds(2));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->problem, full.address + ": no answer within 2 s");
}

TEST(Dials, what_is_no_numeric_address_is_named) {
  for (const char* address : {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "host:1", "[::1:1"}) {
    Dials dials;
    dials.start(7, {address});
    const auto outcome = dials.step(now());
    ASSERT_TRUE(outcome) << address;
    EXPECT_EQ(outcome->problem, fmt::format("{} is no numeric address", address));
  }
}

TEST(Dials, nothing_to_reach_is_reached) {
  Dials dials;
  dials.start(7, {});
  EXPECT_EQ(dials.step(now())->problem, "");
}

TEST(Dials, a_new_start_gives_up_the_one_before) {
  Listener there;
  Dials dials;
  dials.start(7, {"not an address"});
  dials.start(8, {there.address});
  const auto outcome = finish(dials);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->generation, 8);
  EXPECT_EQ(outcome->problem, "");
}

}  // namespace
}  // namespace lockstep::trainer::agent
