#include "operator/ops/http_server.h"

#include <fmt/format.h>

#include <utility>  // Boost 1.74's coroutine headers use std::exchange without it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <optional>
#include <thread>

#include "operator/base/log.h"

namespace lockstep::ops {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kMaxHeader = 8 * 1024;
constexpr std::uint64_t kMaxBody = 1024;  // a GET has no body

// Errors of accept() that say nothing about the next call: descriptors may be free again by then.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

struct Shared {
  HttpServerOptions options;
  HttpHandlers handlers;
  int connections = 0;  // on the server's thread
};

Result<std::string> answer_of(const std::function<Status()>& handler) {
  const Status status = handler ? handler() : Status();
  if (!status) return status.error();
  return std::string("ok\n");
}

http::response<http::string_body> answer(const http::request<http::string_body>& request, Shared& shared) {
  http::response<http::string_body> response;
  response.version(request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  const auto reply = [&](http::status status, std::string body) {
    response.result(status);
    response.body() = std::move(body);
  };
  try {
    const std::string target(request.target().substr(0, request.target().find('?')));
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      reply(http::status::method_not_allowed, "only GET and HEAD\n");
    } else if (target == "/metrics") {
      response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      reply(http::status::ok, shared.handlers.metrics ? shared.handlers.metrics() : "");
    } else if (target == "/healthz" || target == "/readyz") {
      const auto result = answer_of(target == "/healthz" ? shared.handlers.healthy : shared.handlers.ready);
      if (result) {
        reply(http::status::ok, *result);
      } else {
        reply(http::status::service_unavailable, result.error().message + "\n");
      }
    } else {
      reply(http::status::not_found, "there are /metrics, /healthz and /readyz\n");
    }
  } catch (const std::exception& error) {
    reply(http::status::internal_server_error, fmt::format("{}\n", error.what()));
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

// One connection; the pending handlers own it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) { ++shared_.connections; }
  ~Session() { --shared_.connections; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    parser_->body_limit(kMaxBody);
    stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(shared_.options.request_deadline));
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->write();
    });
  }

 private:
  void write() {
    const auto request = parser_->release();
    response_ = answer(request, shared_);
    stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(shared_.options.request_deadline));
    http::async_write(stream_, *response_, [self = shared_from_this()](error_code error, std::size_t) {
      if (!error && self->response_->keep_alive()) {
        self->read();
        return;
      }
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  beast::flat_buffer buffer_{kMaxHeader + kMaxBody};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
};

}  // namespace

struct HttpServer::State {
  Shared shared;  // before the context: sessions that it destroys still count in it
  boost::asio::io_context context{1};
  tcp::acceptor acceptor{context};
  boost::asio::steady_timer pause{context};
  int port = 0;
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](error_code error, tcp::socket socket) {
      if (error == boost::asio::error::operation_aborted) return;
      if (error) {
        log::warn("the metrics server cannot accept", {{"error", error.message()}});
        pause.expires_after(kAcceptPause);
        pause.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      if (shared.connections < shared.options.most_connections) {
        std::make_shared<Session>(std::move(socket), shared)->read();
      }
      accept();
    });
  }
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->context.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

int HttpServer::port() const {
  return state_->port;
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandlers handlers) {
  auto state = std::make_unique<State>();
  state->shared = {options, std::move(handlers)};
  error_code error;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error) return fail(ErrorCode::kInvalid, fmt::format("'{}' is no IP address", options.address));
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(options.port));
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot listen on {}:{}: {}", options.address, options.port, error.message()));
  }
  state->port = state->acceptor.local_endpoint().port();
  state->accept();
  State* running = state.get();
  state->thread = std::thread([running] {
    while (!running->context.stopped()) {
      try {
        running->context.run();
      } catch (const std::exception& failure) {
        log::error("the metrics server met an exception", {{"error", failure.what()}});
      }
    }
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

}  // namespace lockstep::ops
