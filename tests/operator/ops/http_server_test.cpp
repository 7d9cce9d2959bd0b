#include "operator/ops/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lockstep::ops {
namespace {

using std::chrono::milliseconds;

int connected(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;)
    text.append(bytes, static_cast<std::size_t>(got));
  close(fd);
  return text;
}

std::string ask(int port, const std::string& target, const std::string& method = "GET") {
  const int fd = connected(port);
  const std::string request = method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  return read_all(fd);
}

class HttpServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpServer> start(HttpServerOptions options = {}) {
    options.address = "127.0.0.1";
    options.port = 0;
    auto server = HttpServer::start(options, {[] { return std::string("a_metric 1\n"); },
                                              [this]() -> Status {
                                                if (healthy) return {};
                                                return fail(ErrorCode::kInternal, "a worker is stuck");
                                              },
                                              [this]() -> Status {
                                                if (ready) return {};
                                                return fail(ErrorCode::kUnavailable, "pods are not listed yet");
                                              }});
    EXPECT_TRUE(server) << server.error().message;
    return server ? std::move(*server) : nullptr;
  }
  std::atomic<bool> healthy = true, ready = false;
};

TEST_F(HttpServerTest, serves_metrics_health_and_readiness) {
  const auto server = start();
  const std::string metrics = ask(server->port(), "/metrics?x=y");
  EXPECT_NE(metrics.find("200 OK"), std::string::npos);
  EXPECT_NE(metrics.find("version=0.0.4"), std::string::npos);
  EXPECT_NE(metrics.find("\r\n\r\na_metric 1\n"), std::string::npos);
  EXPECT_NE(ask(server->port(), "/healthz").find("200 OK"), std::string::npos);
  const std::string waiting = ask(server->port(), "/readyz");
  EXPECT_NE(waiting.find("503"), std::string::npos);
  EXPECT_NE(waiting.find("pods are not listed yet"), std::string::npos);
  ready = true;
  healthy = false;
  EXPECT_NE(ask(server->port(), "/readyz").find("200 OK"), std::string::npos);
  EXPECT_NE(ask(server->port(), "/healthz").find("503"), std::string::npos);
}

TEST_F(HttpServerTest, refuses_what_it_does_not_serve) {
  const auto server = start();
  EXPECT_NE(ask(server->port(), "/").find("404"), std::string::npos);
  EXPECT_NE(ask(server->port(), "/metrics", "DELETE").find("405"), std::string::npos);
  EXPECT_EQ(ask(server->port(), "/healthz", "HEAD").find("ok"), std::string::npos);
}

TEST_F(HttpServerTest, several_requests_go_over_one_connection) {
  const auto server = start();
  const int fd = connected(server->port());
  const std::string two =
      "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(send(fd, two.data(), two.size(), MSG_NOSIGNAL), static_cast<ssize_t>(two.size()));
  const std::string answers = read_all(fd);
  EXPECT_NE(answers.find("200 OK"), std::string::npos);
  EXPECT_NE(answers.find("404"), std::string::npos);
}

TEST_F(HttpServerTest, a_request_without_end_is_cut_off) {
  const auto server = start();
  const int fd = connected(server->port());
  const std::string line(1000, 'h');
  std::string request = "GET /metrics HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i) request += "X-" + line + ": y\r\n";
  static_cast<void>(send(fd, request.data(), request.size(), MSG_NOSIGNAL));
  EXPECT_EQ(read_all(fd).find("200"), std::string::npos);
}

TEST_F(HttpServerTest, a_peer_that_says_nothing_is_dropped_at_the_deadline) {
  const auto server = start({.request_deadline = milliseconds(100)});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(read_all(connected(server->port())), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(HttpServerTest, too_many_connections_are_closed_and_the_server_lives_on) {
  const auto server = start({.most_connections = 3, .request_deadline = milliseconds(300)});
  std::vector<int> idle;
  for (int i = 0; i < 3; ++i) idle.push_back(connected(server->port()));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(read_all(connected(server->port())), "");
  for (const int fd : idle) EXPECT_EQ(read_all(fd), "");
  EXPECT_NE(ask(server->port(), "/healthz").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, a_handler_that_throws_is_an_internal_error) {
  auto server = HttpServer::start({.address = "127.0.0.1", .port = 0},
                                  {[]() -> std::string { throw std::runtime_error("no metrics today"); }, {}, {}});
  ASSERT_TRUE(server);
  EXPECT_NE(ask((*server)->port(), "/metrics").find("500"), std::string::npos);
  EXPECT_NE(ask((*server)->port(), "/healthz").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, a_port_in_use_is_said) {
  const auto server = start();
  const auto second = HttpServer::start({.address = "127.0.0.1", .port = server->port()}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("cannot listen on 127.0.0.1:"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::ops
