#include "trainer/comm/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

namespace lockstep::trainer::comm {
namespace {

HandshakeTerms terms(std::uint32_t rank, std::uint32_t peer) {
  HandshakeTerms result;
  result.key.fill(std::byte{7});
  result.own.rank = rank;
  result.own.size = 4;
  result.own.generation = 5;
  result.own.job = sha256("job");
  result.peer = peer;
  return result;
}

struct Pair {
  HandshakeTerms client_terms = terms(1, 2);
  HandshakeTerms server_terms = terms(2, 1);
  std::optional<Handshake> client;
  std::optional<Handshake> server;

  void run() {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const auto far = std::chrono::steady_clock::now() + std::chrono::hours(1);
    client.emplace(UniqueFd(ends[0]), Role::kClient, client_terms, Channel::kData, far);
    server.emplace(UniqueFd(ends[1]), Role::kServer, server_terms, Channel::kControl, far);
    for (int i = 0; i < 10; ++i) {
      client->advance();
      server->advance();
    }
  }
};

TEST(Handshake, two_ranks_of_one_generation_agree_and_the_server_learns_the_channel) {
  Pair pair;
  pair.run();
  EXPECT_TRUE(pair.client->done());
  ASSERT_TRUE(pair.server->done());
  EXPECT_EQ(pair.server->channel(), Channel::kData);
}

TEST(Handshake, each_side_learns_which_memory_the_other_sees) {
  Pair pair;
  pair.client_terms.own.memory = 11;
  pair.server_terms.own.memory = 12;
  pair.run();
  ASSERT_TRUE(pair.client->done() && pair.server->done());
  EXPECT_EQ(pair.client->peer_memory(), 12u);
  EXPECT_EQ(pair.server->peer_memory(), 11u);
}

TEST(Handshake, both_sides_refuse_a_peer_that_differs_in_any_field) {
  const std::vector<std::pair<const char*, std::function<void(HandshakeTerms&)>>> changes{
      {"key", [](HandshakeTerms& t) { t.key[0] = std::byte{1}; }},
      {"job", [](HandshakeTerms& t) { t.own.job = sha256("other"); }},
      {"generation", [](HandshakeTerms& t) { t.own.generation = 4; }},
      {"size", [](HandshakeTerms& t) { t.own.size = 5; }},
      {"rank", [](HandshakeTerms& t) { t.own.rank = 3; }},
  };
  for (const auto& [what, change] : changes) {
    Pair client_differs;
    change(client_differs.client_terms);
    client_differs.run();
    EXPECT_TRUE(client_differs.client->failed()) << what;
    EXPECT_TRUE(client_differs.server->failed()) << what;
    Pair server_differs;
    change(server_differs.server_terms);
    server_differs.run();
    EXPECT_TRUE(server_differs.client->failed()) << what;
    EXPECT_FALSE(server_differs.server->done()) << what;
  }
}

TEST(Handshake, a_server_survives_random_bytes_in_any_pieces) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const HandshakeTerms own = terms(2, 1);
  for (int round = 0; round < 200; ++round) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd stranger(ends[0]);
    Handshake server(UniqueFd(ends[1]), Role::kServer, own, Channel::kControl, {});
    // Half of them begin like a real client, whose proof they cannot have.
    std::string bytes(200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (round % 2 == 0) {
      Hello hello = terms(1, 2).own;
      const HelloBytes real = encode(hello);
      bytes.replace(0, real.size(), reinterpret_cast<const char*>(real.data()), real.size());
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(bytes.size() - at, 1 + random() % 90);
      if (::send(stranger.get(), bytes.data() + at, n, MSG_NOSIGNAL) < 0) break;  // closed on us
      server.advance();
      at += n;
    }
    EXPECT_TRUE(server.failed());
  }
}

}  // namespace
}  // namespace lockstep::trainer::comm
