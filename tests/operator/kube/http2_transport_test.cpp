// Bulk requests over HTTP/2, against a peer that does what a test says.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "operator/kube/cpprest_transport.h"
#include "operator/kube/http2_transport.h"
#include "tests/operator/kube/certificate_authority.h"
#include "tests/operator/kube/client.h"
#include "tests/operator/kube/http2_fixture.h"
#include "tests/operator/kube/http2_peer.h"

namespace lockstep::kube::http2_transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::access_to;
using testing::Http2;
using testing::Http2Peer;
using testing::no_environment;
using testing::Peer;
using testing::post;
using testing::ScriptedServer;
using testing::TestAuthority;

// An identity whose certificate a test changes.
class ChangingIdentity final : public Identity {
 public:
  Result<std::string> token() override { return std::string(); }
  bool refused(const std::string&) override { return false; }
  ClientCertificate certificate() const override {
    const std::lock_guard guard(mutex_);
    return certificate_;
  }
  void set(const testing::CertificateAndKey& pair) {
    const std::lock_guard guard(mutex_);
    certificate_ = {pair.certificate_pem, pair.key_pem};
  }

 private:
  mutable std::mutex mutex_;
  ClientCertificate certificate_;
};

TEST_F(Http2, a_request_arrives_whole_and_so_does_its_answer) {
  Http2Peer::Seen seen;
  ScriptedServer server(
      [&seen](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto next = http2.next()) {
          seen = *next;
          http2.answer(seen.stream, 429, "wait", {{"retry-after", "7"}});
        }
      },
      context.get());
  auto access = trusted(server);
  access.server += "/clusters/a/";
  const auto transport = client(access);
  const auto response = transport->call(post());
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->body, "wait");
  EXPECT_DOUBLE_EQ(response->retry_after_seconds, 7);
  EXPECT_EQ(seen.headers[":method"], "POST");
  EXPECT_EQ(seen.headers[":path"], "/clusters/a/api/v1/namespaces/x/pods?fieldManager=a%20b");
  EXPECT_EQ(seen.headers[":authority"], server.url().substr(8));
  EXPECT_EQ(seen.headers["authorization"], "Bearer secret");
  EXPECT_EQ(seen.headers["content-type"], "application/json");
  EXPECT_EQ(seen.headers["accept"], post().accept);
  EXPECT_EQ(seen.body, post().body);
}

TEST_F(Http2, a_request_without_body_has_none) {
  ScriptedServer server([](Peer& peer) { echo(peer); }, context.get());
  const auto response = client(server)->call(post(""));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "");
}

// Larger than the windows with which both sides begin.
TEST_F(Http2, a_large_body_passes_in_both_directions) {
  ScriptedServer server([](Peer& peer) { echo(peer); }, context.get());
  const std::string body(std::size_t{3} << 20, 'x');
  const auto response = client(server)->call(post(body));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_TRUE(response->body == body);
}

int succeeded(Transport& transport, int calls) {
  std::atomic<int> created = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < calls; ++i) {
    threads.emplace_back([&] {
      const auto response = transport.call(post());
      if (response && response->status == 201) ++created;
    });
  }
  for (auto& thread : threads) thread.join();
  return created;
}

TEST_F(Http2, many_requests_are_under_way_at_once_on_one_connection) {
  constexpr int kCalls = 50;
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        std::vector<std::int32_t> streams;
        for (int i = 0; i < kCalls; ++i) streams.push_back(http2.next()->stream);
        for (const auto stream : streams) http2.answer(stream, 201, "{}");
        http2.wait_closed();
      },
      context.get());
  EXPECT_EQ(succeeded(*client(server), kCalls), kCalls);
  EXPECT_EQ(server.connections(), 1);
}

// Each connection takes two requests, and holds its first until all four are open.
TEST_F(Http2, more_than_one_connection_may_carry_are_spread_over_four) {
  constexpr int kCalls = 50, kAtOnce = 2, kConnections = 4;
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0;
  bool alone = true;
  ScriptedServer server(
      [&](Peer& peer) {
        Http2Peer http2(peer, kAtOnce);
        {
          const std::lock_guard guard(mutex);
          ++open;
          changed.notify_all();
        }
        while (const auto seen = http2.next()) {
          std::unique_lock lock(mutex);
          changed.wait_for(lock, seconds(20), [&] { return alone || open == kConnections; });
          lock.unlock();
          http2.answer(seen->stream, 201, "{}");
        }
      },
      context.get());
  const auto transport = client(server);
  EXPECT_EQ(succeeded(*transport, 1), 1);  // it knows how many the server takes
  {
    const std::lock_guard guard(mutex);
    alone = false;
  }
  EXPECT_EQ(succeeded(*transport, kCalls), kCalls);
  EXPECT_EQ(server.connections(), kConnections);
}

TEST_F(Http2, other_lanes_keep_their_own_connections) {
  std::atomic<int> http1 = 0;
  ScriptedServer server(
      [&http1](Peer& peer) {
        while (peer.read_request()) {
          ++http1;
          peer.answer(200, "{}");
        }
      },
      context.get());
  const auto transport = client(server);
  for (const Lane lane : {Lane::kCall, Lane::kLease}) {
    Request request;
    request.target = "/api";
    request.lane = lane;
    const auto response = transport->call(request);
    ASSERT_TRUE(response) << response.error().message;
  }
  EXPECT_EQ(http1, 2);
}

TEST_F(Http2, an_answer_without_end_is_refused_and_the_connection_stays) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        bool first = true;
        while (const auto seen = http2.next()) {
          http2.answer(seen->stream, 200, std::string(std::exchange(first, false) ? 1 << 20 : 10, ' '));
        }
      },
      context.get());
  const auto transport = client(server);
  Request request = post();
  request.max_body = 1 << 18;
  const auto refused = transport->call(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(transport->call(request));
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(Http2, a_late_answer_is_given_up_and_the_server_is_told) {
  std::atomic<std::uint32_t> code = 0;
  std::atomic<bool> arrived = false, told = false;
  ScriptedServer server(
      [&](Peer& peer) {
        Http2Peer http2(peer);
        const auto late = http2.next();
        arrived = true;
        arrived.notify_all();
        const auto other = http2.next();
        http2.answer(other->stream, 201, "{}");
        code = http2.wait_reset(late->stream).value_or(0);
        told = true;
        while (const auto seen = http2.next()) http2.answer(seen->stream, 201, "{}");
      },
      context.get());
  const auto transport = client(server);
  std::thread late([&transport] {
    Request request = post();
    request.deadline = seconds(2);
    const auto response = transport->call(request);
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_NE(response.error().message.find("POST /api/v1/namespaces/x/pods within 2 s"), std::string::npos)
        << response.error().message;
  });
  arrived.wait(false);
  EXPECT_TRUE(transport->call(post()));
  late.join();
  EXPECT_TRUE(transport->call(post())) << "the connection has answered meanwhile, so it is alive";
  EXPECT_TRUE(told);
  EXPECT_EQ(code, NGHTTP2_CANCEL);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(Http2, a_connection_that_fell_silent_gets_no_further_request) {
  ScriptedServer server(
      [](Peer& peer) {
        if (peer.number() > 0) return echo(peer);
        Http2Peer http2(peer);
        http2.answer(http2.next()->stream, 201, "{}");
        http2.next();
        http2.wait_closed();
      },
      context.get());
  const auto transport = client(server);
  ASSERT_TRUE(transport->call(post()));
  Request request = post();
  request.deadline = milliseconds(200);
  EXPECT_FALSE(transport->call(request));
  EXPECT_TRUE(transport->call(post()));
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(Http2, a_request_that_the_server_has_not_looked_at_is_sent_again) {
  std::atomic<int> requests = 0;
  ScriptedServer server(
      [&requests](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto seen = http2.next()) {
          ++requests;
          if (peer.number() == 0) {
            http2.go_away(0);  // as a server that is about to end
          } else if (requests == 2) {
            http2.reset(seen->stream, NGHTTP2_REFUSED_STREAM);
          } else {
            http2.answer(seen->stream, 201, "{}");
          }
        }
      },
      context.get());
  const auto response = client(server)->call(post());
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(requests, 3);
}

TEST_F(Http2, a_server_that_looks_at_nothing_is_unavailable_in_the_end) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto seen = http2.next()) http2.reset(seen->stream, NGHTTP2_REFUSED_STREAM);
      },
      context.get());
  const auto response = client(server)->call(post());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
}

TEST_F(Http2, an_announced_end_lets_the_last_request_finish) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto seen = http2.next()) {
          http2.go_away(seen->stream);
          http2.answer(seen->stream, 201, "{}");
        }
      },
      context.get());
  const auto transport = client(server);
  for (int i = 1; i <= 3; ++i) {
    const auto response = transport->call(post());
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(server.connections(), i);
  }
}

TEST_F(Http2, a_post_that_the_server_may_have_acted_on_is_sent_once) {
  std::atomic<int> requests = 0;
  const auto broken_by = [&](const std::function<void(Http2Peer&, std::int32_t)>& breaks) {
    requests = 0;
    ScriptedServer server(
        [&](Peer& peer) {
          Http2Peer http2(peer);
          while (const auto seen = http2.next()) {
            ++requests;
            breaks(http2, seen->stream);
            return;  // the connection ends
          }
        },
        context.get());
    const auto response = client(server)->call(post());
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::kUnavailable) << response.error().message;
    EXPECT_EQ(requests, 1);
  };
  broken_by([](Http2Peer&, std::int32_t) {});
  broken_by([](Http2Peer& http2, std::int32_t stream) { http2.reset(stream, NGHTTP2_INTERNAL_ERROR); });
  broken_by([](Http2Peer& http2, std::int32_t stream) { http2.reset(stream, NGHTTP2_NO_ERROR); });
  broken_by([](Http2Peer& http2, std::int32_t stream) { http2.go_away(stream); });
}

// A server that knows HTTP/1.1 alone, and counts the handshakes that offered it more.
class Http1Server : public Http2 {
 protected:
  Http1Server() {
    SSL_CTX_set_alpn_select_cb(
        plain.get(),
        [](SSL*, const unsigned char**, unsigned char*, const unsigned char*, unsigned, void* counter) {
          ++*static_cast<std::atomic<int>*>(counter);
          return SSL_TLSEXT_ERR_NOACK;
        },
        &offers);
  }

  std::atomic<int> offers = 0, requests = 0;
  std::shared_ptr<SSL_CTX> plain = ours.server_context("IP:127.0.0.1");
  ScriptedServer server{[this](Peer& peer) {
                          while (peer.read_request()) {
                            ++requests;
                            peer.answer(201, "{}");
                          }
                        },
                        plain.get()};
};

TEST_F(Http1Server, gets_bulk_requests_and_is_offered_http_2_once) {
  const auto transport = client(server);
  for (int i = 0; i < 3; ++i) {
    const auto response = transport->call(post());
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 201);
  }
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(offers, 1);
}

TEST_F(Http1Server, is_offered_http_2_again_later) {
  const auto transport = client(server, {.http1_again = milliseconds(0)});
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(transport->call(post()));
    EXPECT_EQ(offers, i);
  }
}

TEST_F(Http2, plain_servers_and_proxies_are_left_to_http_1) {
  for (const auto& [url, proxy] :
       {std::pair{"http://127.0.0.1:1", ""}, {"https://127.0.0.1:1", "http://127.0.0.1:2"}}) {
    auto access = access_to(url);
    access.proxy = proxy;
    auto http1 = make_cpprest_transport(access, no_environment());
    ASSERT_TRUE(http1);
    const Transport* given = http1->get();
    const auto made = with_http2(std::move(*http1), access, no_environment());
    ASSERT_TRUE(made);
    EXPECT_EQ(made->get(), given);
  }
}

TEST_F(Http2, a_connection_without_requests_is_closed_after_a_time) {
  std::atomic<bool> closed = false;
  ScriptedServer server(
      [&closed](Peer& peer) {
        echo(peer);
        closed = true;
        closed.notify_all();
      },
      context.get());
  const auto transport = client(server, {.rest = milliseconds(50)});
  ASSERT_TRUE(transport->call(post()));
  closed.wait(false);
  EXPECT_TRUE(transport->call(post()));
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(Http2, a_missing_server_gives_one_clear_sentence) {
  auto access = access_to("https://127.0.0.1:1");
  const auto refused = client(access)->call(post());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message, "https://127.0.0.1:1 does not answer: connection refused, or no route to it");
}

TEST_F(Http2, garbage_after_the_handshake_is_unavailable) {
  for (const char* bytes : {"HTTP/1.1 200 OK\r\n\r\n", "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    ScriptedServer server(
        [bytes](Peer& peer) {
          peer.read_some();
          peer.write(bytes);
          if (*bytes != '\0') peer.wait_closed();  // the client closes, and waits for no deadline
        },
        context.get());
    const auto response = client(server)->call(post());
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::kUnavailable) << response.error().message;
  }
}

TEST_F(Http2, a_server_of_another_ca_or_for_another_name_is_refused) {
  const TestAuthority theirs("theirs");
  const auto foreign = theirs.server_context("IP:127.0.0.1");
  const auto misnamed = ours.server_context("IP:127.0.0.2,DNS:the-api");
  for (SSL_CTX* wrong : {foreign.get(), misnamed.get()}) {
    testing::offer_http2(wrong);
    ScriptedServer server([](Peer& peer) { echo(peer); }, wrong);
    const auto response = client(server)->call(post());
    ASSERT_FALSE(response);
    EXPECT_NE(response.error().message.find("its certificate was not accepted"), std::string::npos)
        << response.error().message;
    auto careless = access_to(server.url());
    careless.insecure = true;
    EXPECT_TRUE(client(careless)->call(post()));
  }
  ScriptedServer server([](Peer& peer) { echo(peer); }, misnamed.get());
  auto access = trusted(server);
  access.server_name = "the-api";
  EXPECT_TRUE(client(access)->call(post()));
}

TEST_F(Http2, a_ca_without_a_certificate_is_said) {
  ScriptedServer server([](Peer& peer) { echo(peer); }, context.get());
  auto access = access_to(server.url());
  access.ca_file = "/dev/null";
  const auto response = client(access)->call(post());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(response.error().message.find("there is no CA certificate in /dev/null"), std::string::npos)
      << response.error().message;
}

TEST_F(Http2, the_client_certificate_is_shown_and_a_new_one_on_a_new_connection) {
  const auto asking = ours.server_context("IP:127.0.0.1", true);
  testing::offer_http2(asking.get());
  ScriptedServer server([](Peer& peer) { echo(peer); }, asking.get());
  auto access = trusted(server);
  const auto identity = std::make_shared<ChangingIdentity>();
  identity->set(ours.issue("DNS:me"));
  access.identity = identity;
  const auto transport = client(access);
  ASSERT_TRUE(transport->call(post()));
  ASSERT_TRUE(transport->call(post()));
  EXPECT_EQ(server.connections(), 1);
  identity->set(ours.issue("DNS:me"));
  ASSERT_TRUE(transport->call(post()));
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(Http2, a_name_of_the_server_is_looked_up) {
  const auto named = ours.server_context("DNS:localhost");
  testing::offer_http2(named.get());
  ScriptedServer server([](Peer& peer) { echo(peer); }, named.get());
  auto access = access_to(server.url("localhost"));
  access.ca_pem = ours.certificate_pem();
  const auto response = client(access)->call(post());
  EXPECT_TRUE(response) << response.error().message;
}

}  // namespace
}  // namespace lockstep::kube::http2_transport
