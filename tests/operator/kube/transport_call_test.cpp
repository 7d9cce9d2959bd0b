// Calls of the real transport against a peer that plays given bytes: dying servers, deadlines, proxies and TLS.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "operator/kube/cpprest_transport.h"
#include "operator/kube/tls_context.h"
#include "tests/operator/kube/certificate_authority.h"
#include "tests/operator/kube/client.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::access_to;
using testing::Client;
using testing::no_environment;
using testing::Peer;
using testing::ScriptedServer;
using testing::SeenRequest;
using testing::TestAuthority;

TEST(Call, a_post_whose_connection_dies_is_sent_once) {
  std::atomic<int> posts = 0;
  std::atomic<bool> pooled = false;
  auto server = ScriptedServer([&](Peer& peer) {
    bool first = true;
    while (auto request = peer.read_request()) {
      if (request->method == "POST") {
        ++posts;
        pooled = !first;
        return;  // the server may have acted, and closes without an answer
      }
      first = false;
      peer.answer(200, R"({"metadata":{"name":"x"}})");
    }
  });
  Client client(access_to(server.url()));
  // The library puts a connection back into its pool a moment after the answer: repeats until a POST finds one there.
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
    while (peer.chunk(" ")) std::this_thread::sleep_for(milliseconds(20));  // it drips
  });
  auto options = Client::quick();
  options.call_deadline = milliseconds(300);
  Client client(access_to(server.url()), options);
  const auto start = steady_clock::now();
  const auto read = client.api->get(kPods, "x", "x");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kDeadlineExceeded) << read.error().message;
  EXPECT_LT(steady_clock::now() - start, seconds(10));
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
  options.call_deadline = seconds(5);
  Client client(access_to(server.url()), options);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 40; ++i) callers.emplace_back([&] { static_cast<void>(client.api->get(kPods, "x", "x")); });
  std::this_thread::sleep_for(milliseconds(100));  // for most of them to wait for their turn, which no event shows
  const auto start = steady_clock::now();
  const auto lease = client.api->get(kLeases, "x", "l");
  EXPECT_TRUE(lease) << lease.error().message;
  EXPECT_LT(steady_clock::now() - start, seconds(4));
}

TEST(Call, a_missing_server_gives_one_clear_sentence) {
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

// The last of these that reads the machine's authorities: its setting stays for the process.
TEST_F(Tls, without_a_configured_ca_the_machine_s_authorities_count_when_spared) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const std::string file = fmt::format("{}/lockstep-system-{}", folder, getpid());
  std::ofstream(file) << ours.certificate_pem();
  ASSERT_EQ(::setenv("SSL_CERT_FILE", file.c_str(), 1), 0);
  spare_system_authorities();
  EXPECT_STREQ(::getenv("SSL_CERT_FILE"), "/dev/null") << "the library reads it for each connection";
  EXPECT_EQ(spared_environment().at("SSL_CERT_FILE"), file) << "for programs that this one starts";
  const auto context = ours.server_context("IP:127.0.0.1");
  auto server = serve(context.get());
  auto access = access_to(server.url());
  EXPECT_EQ(error_of(access).message, "");
  access.ca_pem = TestAuthority("theirs").certificate_pem();
  EXPECT_NE(error_of(access).message, "") << "a configured CA is the only one";
  ::unsetenv("SSL_CERT_FILE");
  ::unsetenv("SSL_CERT_DIR");
  std::filesystem::remove(file);
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

TEST(Call, a_lease_and_a_status_never_wait_for_thousands_of_creates) {
  constexpr int kCreates = 4096, kThreads = 64;
  auto server = ScriptedServer([](Peer& peer) {
    while (auto request = peer.read_request()) {
      if (request->method == "POST") ::usleep(20'000);
      peer.answer(200, R"({"metadata":{"name":"x","resourceVersion":"1"}})");
    }
  });
  Client client(access_to(server.url()));
  std::atomic<int> left = kCreates, made = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (left-- > 0) made += client.api->create(kPods, "x", Json{{"kind", "Pod"}}, {.bulk = true}) ? 1 : 0;
    });
  }
  steady_clock::duration slowest{};
  int renewed = 0;
  const Json object{{"metadata", {{"name", "x"}}}};
  while (left > 0) {
    const auto begin = steady_clock::now();
    ASSERT_TRUE(client.api->replace(kLeases, "x", "lease", object));
    ASSERT_TRUE(client.api->replace(kTrainingJobs, "x", "job", object, "status"));
    slowest = std::max(slowest, steady_clock::now() - begin);
    ++renewed;
    std::this_thread::sleep_for(milliseconds(10));
  }
  threads.clear();
  EXPECT_EQ(made, kCreates);
  EXPECT_GT(renewed, 10);
  EXPECT_LT(slowest, seconds(2)) << "of the ten that a leader has";
}

std::ptrdiff_t count_threads() {
  using Entries = std::filesystem::directory_iterator;
  return std::distance(Entries("/proc/self/task"), Entries());
}
std::ptrdiff_t g_threads_before = 0;

// A thread that was joined is listed a moment longer, and no event says when it is not: polls the list.
bool threads_are_gone() {
  for (int i = 0; i < 2000 && count_threads() > g_threads_before; ++i) ::usleep(1000);
  return count_threads() <= g_threads_before;
}

TEST(Exit, the_librarys_threads_end_before_the_objects_that_they_use) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // OpenSSL must not have been used in that process
  EXPECT_EXIT(
      {
        std::thread([] {}).join();  // a sanitizer's own thread begins with the first
        g_threads_before = count_threads();
        const auto transport = make_cpprest_transport(access_to("https://127.0.0.1:1"), no_environment());
        if (!transport || count_threads() <= g_threads_before) _exit(2);
        OPENSSL_atexit([] { _exit(threads_are_gone() ? 0 : 3); });
        std::exit(4);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Tls, a_client_certificate_that_is_none_is_said_before_anything_is_sent) {
  auto access = access_to("https://127.0.0.1:1", {.certificate_pem = "nonsense", .key_pem = "nonsense"});
  const auto made = make_cpprest_transport(access, no_environment());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace lockstep::kube
