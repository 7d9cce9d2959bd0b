// HttpApi over the real transport against a peer that plays given bytes: what networks, proxies and dying servers do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "operator/base/metrics.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/http_api.h"
#include "tests/operator/kube/scripted_server.h"
#include "tests/operator/kube/test_certificates.h"

namespace lockstep::kube {

// A server that writes into a closed TLS connection must not end the test program.
const auto ignore_broken_pipes = std::signal(SIGPIPE, SIG_IGN);

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Peer;
using testing::ScriptedServer;
using testing::SeenRequest;
using testing::TestAuthority;

Environment no_environment() {
  return [](const std::string&) { return std::nullopt; };
}

ClusterAccess access_to(const std::string& url, IdentityFiles identity = {}) {
  ClusterAccess access;
  access.server = url;
  access.identity = file_identity(std::move(identity), SystemClock::instance());
  return access;
}

// An Api with short deadlines; its metrics.
struct Client {
  explicit Client(const ClusterAccess& access, HttpApiOptions options = quick()) {
    auto made = make_http_api(access, no_environment(), SystemClock::instance(), metrics, options);
    EXPECT_TRUE(made) << made.error().message;
    if (made) api = std::move(*made);
  }
  static HttpApiOptions quick() {
    HttpApiOptions options;
    options.call_deadline = seconds(5);
    options.lease_deadline = seconds(5);
    options.watch_idle_deadline = milliseconds(300);
    return options;
  }
  MetricsRegistry metrics;
  std::unique_ptr<Api> api;
};

std::string event(const std::string& type, const std::string& name, int version) {
  return fmt::format(R"({{"type":"{}","object":{{"kind":"Pod","metadata":{{"name":"{}","resourceVersion":"{}"}}}}}})",
                     type, name, version) +
         "\n";
}

struct Watched {
  Status ended;
  std::vector<std::string> names;
};
Watched watch(Api& api, std::stop_token stop = {}) {
  Watched watched;
  watched.ended = api.watch(
      kPods, {.resource_version = "1"},
      [&](WatchEvent seen) {
        watched.names.push_back(seen.object["metadata"]["name"]);
        return true;
      },
      std::move(stop));
  return watched;
}

// A server whose every connection sends `play` after a watch request.
ScriptedServer watch_server(std::function<void(Peer&)> play) {
  return ScriptedServer([play = std::move(play)](Peer& peer) {
    if (peer.read_request()) play(peer);
  });
}

TEST(Watch, a_chunk_is_neither_a_line_nor_an_event) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    const std::string first = event("ADDED", "a", 2);
    peer.chunk(first.substr(0, 10));
    peer.chunk(first.substr(10, 30));
    peer.chunk(first.substr(40));
    peer.chunk(event("MODIFIED", "b", 3) + event("DELETED", "c", 4));
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  const auto watched = watch(*client.api);
  EXPECT_TRUE(watched.ended) << watched.ended.error().message;
  EXPECT_EQ(watched.names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Watch, asks_for_bookmarks_and_starts_after_the_version) {
  std::mutex mutex;
  std::string target;
  auto server = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      target = request->target;
    }
    peer.begin_chunks();
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  EXPECT_TRUE(client.api->watch(
      kPods, {.name_space = "x", .label_selector = "a in (b,c)", .resource_version = "77", .timeout_seconds = 301},
      [](const WatchEvent&) { return true; }, {}));
  const std::lock_guard guard(mutex);
  EXPECT_EQ(target,
            "/api/v1/namespaces/x/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=301&resourceVersion=77&"
            "labelSelector=a%20in%20%28b%2Cc%29");
}

TEST(Watch, a_peer_that_falls_silent_is_given_up_after_the_idle_deadline) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.wait_closed();
  });
  Client client(access_to(server.url()));
  const auto start = steady_clock::now();
  const auto watched = watch(*client.api);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  EXPECT_LT(steady_clock::now() - start, seconds(3));
}

TEST(Watch, a_peer_that_never_answers_is_given_up_after_the_call_deadline) {
  auto server = watch_server([](Peer& peer) { peer.wait_closed(); });
  auto options = Client::quick();
  options.call_deadline = milliseconds(200);
  Client client(access_to(server.url()), options);
  const auto watched = watch(*client.api);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().code, ErrorCode::kDeadlineExceeded) << watched.ended.error().message;
}

TEST(Watch, lines_that_are_no_events_are_counted_and_skipped) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk("this is no JSON\n");
    peer.chunk("{\"type\":\"ADDED\"}\n");
    peer.chunk("{\"type\":\"SURPRISE\",\"object\":{\"metadata\":{}}}\n");
    peer.chunk("[1,2,3]\n\n");
    peer.chunk(std::string(1000, '[') + "\n");
    peer.chunk(event("ADDED", "a", 2));
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  const auto watched = watch(*client.api);
  EXPECT_TRUE(watched.ended) << watched.ended.error().message;
  EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  EXPECT_NE(client.metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 5"), std::string::npos)
      << client.metrics.text();
}

TEST(Watch, gone_comes_as_a_status_code_or_as_an_event) {
  const std::string status = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"})";
  auto refused = watch_server([&](Peer& peer) { peer.answer(410, status); });
  auto in_stream = watch_server([&](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.chunk("{\"type\":\"ERROR\",\"object\":" + status + "}\n");
    peer.wait_closed();
  });
  for (ScriptedServer* server : {&refused, &in_stream}) {
    Client client(access_to(server->url()));
    const auto watched = watch(*client.api);
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kGone);
    EXPECT_EQ(watched.ended.error().message, "too old resource version");
  }
}

TEST(Watch, a_connection_that_dies_inside_a_chunk_is_a_failure_and_a_clean_end_is_none) {
  auto dying = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.write("100\r\nhalf a chu");
  });
  auto reset = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    std::this_thread::sleep_for(milliseconds(50));  // a reset overtakes what was not read yet
    peer.reset();
  });
  for (ScriptedServer* server : {&dying, &reset}) {
    Client client(access_to(server->url()));
    const auto watched = watch(*client.api);
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kUnavailable) << watched.ended.error().message;
    EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  }
}

TEST(Watch, a_chunk_of_impossible_size_is_a_failure_and_nothing_worse) {
  for (const char* size : {"-1\r\n", "-7fffffff\r\n", "zz\r\n", "7fffffffffffffff\r\n"}) {
    auto server = watch_server([size](Peer& peer) {
      peer.begin_chunks();
      peer.chunk(event("ADDED", "a", 2));
      peer.write(std::string(size) + "x\r\n");
      peer.wait_closed();
    });
    Client client(access_to(server.url()));
    const auto watched = watch(*client.api);
    EXPECT_FALSE(watched.ended) << size;
    EXPECT_EQ(watched.names, std::vector<std::string>{"a"}) << size;
  }
}

TEST(Watch, a_slow_consumer_slows_the_server_down) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    const std::string big = event("ADDED", std::string(60'000, 'n'), 2);
    for (int i = 0; i < 4000 && peer.chunk(big); ++i) {
    }
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  int seen = 0;
  const Status ended = client.api->watch(kPods, {},
                                         [&](const WatchEvent&) {
                                           if (++seen > 1) return false;
                                           long before = -1;
                                           for (long now = server.written(); now != before;
                                                now = server.written()) {  // until the server is stuck
                                             before = now;
                                             std::this_thread::sleep_for(milliseconds(100));
                                           }
                                           return true;
                                         },
                                         {});
  EXPECT_TRUE(ended) << ended.error().message;
  // What the kernel's socket buffers hold, out of 240 MB.
  EXPECT_LT(server.written(), 32L << 20);
}

TEST(Watch, ends_at_once_when_told_to_stop_before_and_after_the_headers) {
  for (const bool headers : {false, true}) {
    auto server = watch_server([headers](Peer& peer) {
      if (headers) peer.begin_chunks();
      peer.wait_closed();
    });
    auto options = Client::quick();
    options.watch_idle_deadline = seconds(30);
    Client client(access_to(server.url()), options);
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(milliseconds(100));
      stop.request_stop();
    });
    const auto start = steady_clock::now();
    const auto watched = watch(*client.api, stop.get_token());
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kCancelled);
    EXPECT_LT(steady_clock::now() - start, seconds(2));
  }
}

TEST(Watch, a_consumer_that_has_enough_closes_the_connection) {
  std::atomic<bool> closed = false;
  auto server = watch_server([&](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2) + event("ADDED", "b", 3));
    closed = peer.wait_closed(seconds(5));
  });
  Client client(access_to(server.url()));
  int seen = 0;
  EXPECT_TRUE(client.api->watch(kPods, {}, [&](const WatchEvent&) { return ++seen < 1; }, {}));
  EXPECT_EQ(seen, 1);
  for (int i = 0; i < 200 && !closed; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(closed);
}

TEST(Watch, many_blocked_consumers_hold_up_neither_each_other_nor_calls) {
  auto server = ScriptedServer([](Peer& peer) {
    while (auto request = peer.read_request()) {
      if (request->target.find("watch=1") == std::string::npos) {
        peer.answer(200, R"({"metadata":{"name":"x"}})");
        continue;
      }
      peer.begin_chunks();
      for (int i = 0; i < 100; ++i) peer.chunk(event("ADDED", "a", 2));
      peer.wait_closed();
    }
  });
  Client client(access_to(server.url()));
  std::atomic<int> inside = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  std::vector<std::jthread> watchers;
  for (int i = 0; i < 12; ++i) {
    watchers.emplace_back([&] {
      static_cast<void>(client.api->watch(kPods, {},
                                          [&](const WatchEvent&) {
                                            ++inside;
                                            std::unique_lock lock(mutex);
                                            changed.wait_for(lock, seconds(10), [&] { return go; });
                                            return false;
                                          },
                                          {}));
    });
  }
  for (int i = 0; i < 500 && inside < 12; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(inside, 12);
  const auto read = client.api->get(kPods, "x", "x");
  EXPECT_TRUE(read) << read.error().message;
  const std::lock_guard guard(mutex);
  go = true;
  changed.notify_all();
}

TEST(Call, a_post_whose_connection_dies_is_sent_once) {
  std::atomic<int> posts = 0;
  std::atomic<bool> pooled = false;
  auto server = ScriptedServer([&](Peer& peer) {
    bool first = true;
    while (auto request = peer.read_request()) {
      if (request->method == "POST") {
        ++posts;
        pooled = !first;
        return;  // the server may have acted, and dies without a word
      }
      first = false;
      peer.answer(200, R"({"metadata":{"name":"x"}})");
    }
  });
  Client client(access_to(server.url()));
  // The library puts a connection back into its pool a moment after the answer: until a POST has found one there.
  for (int tries = 1; tries <= 50 && !pooled; ++tries) {
    ASSERT_TRUE(client.api->get(kPods, "x", "x"));
    const auto made = client.api->create(kPods, "x", {{"kind", "Pod"}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kUnavailable) << made.error().message;
    ASSERT_EQ(posts, tries);
  }
  EXPECT_TRUE(pooled);
}

TEST(Call, a_server_that_asks_to_wait_is_too_many_requests_with_its_seconds) {
  auto server = ScriptedServer([](Peer& peer) {
    while (peer.read_request()) {
      peer.answer(429, R"({"kind":"Status","code":429,"message":"slow down"})", "Retry-After: 7\r\n");
    }
  });
  Client client(access_to(server.url()));
  const auto made = client.api->create(kLeases, "x", {{"kind", "Lease"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(made.error().message, "slow down");
  EXPECT_DOUBLE_EQ(made.error().retry_after_seconds, 7.0);
}

TEST(Call, a_refused_token_is_read_again_and_the_request_repeated_once) {
  const std::string file =
      fmt::format("{}/lockstep-token-{}", std::filesystem::temp_directory_path().string(), getpid());
  std::ofstream(file) << "old\n";
  std::atomic<int> requests = 0;
  auto server = ScriptedServer([&](Peer& peer) {
    while (auto request = peer.read_request()) {
      ++requests;
      if (request->header("Authorization") == "Bearer new") {
        peer.answer(201, R"({"metadata":{"name":"x"}})");
      } else {
        peer.answer(401, R"({"kind":"Status","code":401,"message":"Unauthorized"})");
      }
    }
  });
  Client client(access_to(server.url(), {.token_file = file}));
  const auto refused = client.api->create(kPods, "x", {{"kind", "Pod"}});
  ASSERT_FALSE(refused);  // the file holds nothing newer
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(requests, 1);
  std::ofstream(file) << "new\n";
  const auto made = client.api->create(kPods, "x", {{"kind", "Pod"}});
  EXPECT_TRUE(made) << made.error().message;
  EXPECT_EQ(requests, 3);
  EXPECT_TRUE(client.api->get(kPods, "x", "x"));
  EXPECT_EQ(requests, 4);
  std::filesystem::remove(file);
}

TEST(Call, a_server_that_drips_is_given_up_after_the_total_deadline) {
  auto server = ScriptedServer([](Peer& peer) {
    peer.read_request();
    peer.begin_chunks();
    while (peer.chunk(" ")) std::this_thread::sleep_for(milliseconds(20));
  });
  auto options = Client::quick();
  options.call_deadline = milliseconds(300);
  Client client(access_to(server.url()), options);
  const auto start = steady_clock::now();
  const auto read = client.api->get(kPods, "x", "x");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kDeadlineExceeded) << read.error().message;
  EXPECT_LT(steady_clock::now() - start, seconds(3));
}

TEST(Call, an_answer_without_end_is_refused) {
  auto server = ScriptedServer([](Peer& peer) {
    peer.read_request();
    peer.begin_chunks();
    const std::string block(1 << 16, ' ');
    while (peer.chunk(block)) {
    }
  });
  auto transport = make_cpprest_transport(access_to(server.url()), no_environment());
  ASSERT_TRUE(transport);
  Request request;
  request.target = "/api";
  request.max_body = 1 << 20;
  const auto response = (*transport)->call(request);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kExhausted);
}

TEST(Call, garbage_instead_of_http_is_unavailable) {
  for (const char* bytes :
       {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "", "HTTP/1.1 200 OK\r\n\r\nnot JSON"}) {
    auto server = ScriptedServer([bytes](Peer& peer) {
      peer.read_request();
      peer.write(bytes);
    });
    Client client(access_to(server.url()));
    const auto read = client.api->get(kPods, "x", "x");
    ASSERT_FALSE(read) << bytes;
    EXPECT_EQ(read.error().code, ErrorCode::kUnavailable) << bytes << ": " << read.error().message;
  }
}

TEST(Call, a_lease_does_not_wait_for_calls_that_hang) {
  auto server = ScriptedServer([](Peer& peer) {
    while (auto request = peer.read_request()) {
      if (request->target.find("leases") == std::string::npos) {
        peer.wait_closed();
        return;
      }
      peer.answer(200, R"({"metadata":{"name":"l"}})");
    }
  });
  auto options = Client::quick();
  options.call_deadline = seconds(2);
  Client client(access_to(server.url()), options);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 40; ++i) callers.emplace_back([&] { static_cast<void>(client.api->get(kPods, "x", "x")); });
  std::this_thread::sleep_for(milliseconds(100));
  const auto start = steady_clock::now();
  const auto lease = client.api->get(kLeases, "x", "l");
  EXPECT_TRUE(lease) << lease.error().message;
  EXPECT_LT(steady_clock::now() - start, seconds(1));
}

TEST(Call, a_server_that_is_not_there_gives_one_clear_sentence) {
  int port = 0;
  {
    port = ScriptedServer([](Peer&) {}).port();
  }
  Client nobody(access_to(fmt::format("http://127.0.0.1:{}", port)));
  const auto refused = nobody.api->get(kPods, "x", "x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message,
            fmt::format("http://127.0.0.1:{} does not answer: connection refused, or no route to it", port));
}

TEST(Call, a_plain_proxy_gets_the_whole_url_and_its_credentials) {
  std::mutex mutex;
  SeenRequest seen;
  auto proxy = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      seen = *request;
    }
    peer.answer(200, R"({"metadata":{"name":"x"}})");
  });
  auto access = access_to("http://api.example:8080/prefix");
  access.proxy = fmt::format("http://user:pass@127.0.0.1:{}", proxy.port());
  Client client(access);
  EXPECT_TRUE(client.api->get(kPods, "x", "x"));
  const std::lock_guard guard(mutex);
  EXPECT_EQ(seen.target, "http://api.example:8080/prefix/api/v1/namespaces/x/pods/x");
  EXPECT_EQ(seen.header("Proxy-Authorization"), "Basic dXNlcjpwYXNz");
}

TEST(Call, https_goes_through_a_proxy_by_connect) {
  std::mutex mutex;
  SeenRequest seen;
  auto proxy = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      seen = *request;
    }
    peer.write("HTTP/1.1 502 Bad Gateway\r\n\r\n");
  });
  auto access = access_to("https://api.example:6443");
  access.proxy = fmt::format("http://127.0.0.1:{}", proxy.port());
  Client client(access);
  const auto read = client.api->get(kPods, "x", "x");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("through the proxy"), std::string::npos) << read.error().message;
  const std::lock_guard guard(mutex);
  EXPECT_EQ(seen.method + " " + seen.target, "CONNECT api.example:6443");
}

class Tls : public ::testing::Test {
 protected:
  static ScriptedServer serve(SSL_CTX* context) {
    return ScriptedServer(
        [](Peer& peer) {
          while (peer.read_request()) peer.answer(200, R"({"metadata":{"name":"x"}})");
        },
        context);
  }
  static Error error_of(const ClusterAccess& access) {
    Client client(access);
    const auto read = client.api->get(kPods, "x", "x");
    return read ? Error{} : read.error();
  }
  TestAuthority ours{"ours"};
};

TEST_F(Tls, a_server_of_our_ca_with_our_host_name_is_accepted) {
  const auto context = ours.server_context("IP:127.0.0.1,DNS:localhost");
  auto server = serve(context.get());
  for (const char* host : {"127.0.0.1", "localhost"}) {
    auto access = access_to(server.url(host));
    access.ca_pem = ours.certificate_pem();
    Client client(access);
    const auto read = client.api->get(kPods, "x", "x");
    EXPECT_TRUE(read) << read.error().message;
  }
}

TEST_F(Tls, a_server_of_another_ca_or_for_another_name_is_refused) {
  const TestAuthority theirs("theirs");
  const auto foreign = theirs.server_context("IP:127.0.0.1");
  const auto misnamed = ours.server_context("IP:127.0.0.2,DNS:example.org");
  for (SSL_CTX* context : {foreign.get(), misnamed.get()}) {
    auto server = serve(context);
    auto access = access_to(server.url());
    access.ca_pem = ours.certificate_pem();
    const Error error = error_of(access);
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_NE(error.message.find("its certificate was not accepted"), std::string::npos) << error.message;
  }
}

TEST_F(Tls, a_server_that_speaks_no_tls_gives_a_sentence) {
  auto server = ScriptedServer([](Peer& peer) { peer.write("HTTP/1.0 400 Bad Request\r\n\r\n"); });
  auto access = access_to(fmt::format("https://127.0.0.1:{}", server.port()));
  access.ca_pem = ours.certificate_pem();
  const Error error = error_of(access);
  EXPECT_NE(error.message.find("TLS handshake failed"), std::string::npos) << error.message;
}

TEST_F(Tls, another_name_to_verify_and_no_verification_at_all_work_when_asked_for) {
  const auto misnamed = ours.server_context("DNS:the-api");
  auto server = serve(misnamed.get());
  auto access = access_to(server.url());
  access.ca_pem = ours.certificate_pem();
  access.server_name = "the-api";
  EXPECT_EQ(error_of(access).message, "");
  access.server_name = "another";
  EXPECT_NE(error_of(access).message, "");
  access.server_name = "";
  access.insecure = true;
  EXPECT_EQ(error_of(access).message, "");
}

TEST_F(Tls, the_client_certificate_is_shown) {
  const auto context = ours.server_context("IP:127.0.0.1", true);
  auto server = serve(context.get());
  const auto mine = ours.issue("DNS:me");
  auto access = access_to(server.url(), {.certificate_pem = mine.certificate_pem, .key_pem = mine.key_pem});
  access.ca_pem = ours.certificate_pem();
  EXPECT_EQ(error_of(access).message, "");
  auto nobody = access_to(server.url());
  nobody.ca_pem = ours.certificate_pem();
  EXPECT_NE(error_of(nobody).message, "");
}

TEST_F(Tls, the_ca_file_is_read_again_for_a_new_connection) {
  const std::string file = fmt::format("{}/lockstep-ca-{}", std::filesystem::temp_directory_path().string(), getpid());
  const TestAuthority next("next");
  std::ofstream(file) << next.certificate_pem();
  const auto context = ours.server_context("IP:127.0.0.1");
  auto server = serve(context.get());
  auto access = access_to(server.url());
  access.ca_file = file;
  Client client(access);
  EXPECT_FALSE(client.api->get(kPods, "x", "x"));
  std::ofstream(file) << ours.certificate_pem();
  const auto read = client.api->get(kPods, "x", "x");
  EXPECT_TRUE(read) << read.error().message;
  std::filesystem::remove(file);
}

TEST_F(Tls, a_client_certificate_that_is_none_is_said_before_anything_is_sent) {
  auto access = access_to("https://127.0.0.1:1", {.certificate_pem = "nonsense", .key_pem = "nonsense"});
  const auto made = make_cpprest_transport(access, no_environment());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
}

TEST(Log, comes_as_it_is_written) {
  std::mutex mutex;
  std::string target;
  auto server = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      target = request->target;
    }
    peer.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer.chunk("one\ntwo");
    peer.chunk("\nthree\n");
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  std::string text;
  const Status ended = client.api->read_log("x", "p", {.container = "trainer", .follow = true, .tail_lines = 10},
                                            [&](std::string_view piece) {
                                              text += piece;
                                              return true;
                                            },
                                            {});
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(text, "one\ntwo\nthree\n");
  const std::lock_guard guard(mutex);
  EXPECT_EQ(target, "/api/v1/namespaces/x/pods/p/log?container=trainer&follow=true&tailLines=10");
}

}  // namespace
}  // namespace lockstep::kube
