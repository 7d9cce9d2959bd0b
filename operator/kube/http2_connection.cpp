#include "operator/kube/http2_connection.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <string_view>
#include <utility>

#include "operator/kube/tls_context.h"

namespace lockstep::kube {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kMostOutput = std::size_t{64} << 10;  // of one write
constexpr auto kConnectDeadline = std::chrono::seconds(10);
constexpr std::string_view kHttp2 = "h2";
constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";

bool speaks_http2(SSL* ssl) {
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl, &chosen, &size);
  return std::string_view(reinterpret_cast<const char*>(chosen), size) == kHttp2;
}

}  // namespace

Http2Connection::Http2Connection(asio::io_context& io, Http2Server server, asio::ssl::context tls, Duration rest)
    : server_(std::move(server)),
      rest_after_(rest),
      tls_(std::move(tls)),
      resolver_(io),
      stream_(io, tls_),
      timer_(io) {}

void Http2Connection::open(std::function<void(const std::shared_ptr<Http2Connection>&)> closed) {
  closed_ = std::move(closed);
  heard_ = std::chrono::steady_clock::now();
  timer_.expires_after(kConnectDeadline);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->session_) return;
    self->close(fail(ErrorCode::kUnavailable, self->server_.url + " does not answer: no connection in time"));
  });
  resolve();
}

void Http2Connection::resolve() {
  const std::string port = std::to_string(server_.port);
  error_code not_an_address;
  const auto address = asio::ip::make_address(server_.host, not_an_address);
  if (!not_an_address) {
    return connect(asio::ip::tcp::resolver::results_type::create({address, server_.port}, server_.host, port));
  }
  resolver_.async_resolve(server_.host, port, [self = shared_from_this()](error_code error, auto endpoints) {
    if (self->gone_) return;
    if (error) {
      return self->close(
          fail(ErrorCode::kUnavailable, self->server_.url + " does not answer: its name cannot be resolved"));
    }
    self->connect(endpoints);
  });
}

void Http2Connection::connect(const asio::ip::tcp::resolver::results_type& endpoints) {
  asio::async_connect(
      stream_.next_layer(), endpoints, [self = shared_from_this()](error_code error, const asio::ip::tcp::endpoint&) {
        if (self->gone_) return;
        if (error) {
          return self->close(fail(ErrorCode::kUnavailable,
                                  self->server_.url + " does not answer: connection refused, or no route to it"));
        }
        self->shake_hands();
      });
}

void Http2Connection::shake_hands() {
  error_code ignored;
  stream_.next_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.set_verify_mode(server_.insecure ? asio::ssl::verify_none : asio::ssl::verify_peer, ignored);
  stream_.set_verify_callback(asio::ssl::host_name_verification(server_.server_name), ignored);
  SSL_set_alpn_protos(stream_.native_handle(), kProtocols, sizeof kProtocols - 1);
  error_code not_an_address;
  asio::ip::make_address(server_.server_name, not_an_address);
  if (not_an_address) {
    std::string name = server_.server_name;  // SSL_set_tlsext_host_name(), which has a C cast
    SSL_ctrl(stream_.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
  }
  stream_.async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](error_code error) {
    if (self->gone_) return;
    if (error) {
      return self->close(
          fail(ErrorCode::kUnavailable,
               fmt::format("{} does not answer: {}", self->server_.url,
                           handshake_failure(static_cast<unsigned long>(static_cast<unsigned>(error.value()))))));
    }
    self->begin();
  });
}

void Http2Connection::begin() {
  timer_.cancel();
  if (!speaks_http2(stream_.native_handle())) {
    for (auto& [ticket, call] : std::exchange(calls_, {})) call.ended({.kind = End::Kind::kNotHttp2});
    return close(broken("it does not speak HTTP/2"));
  }
  const std::string port = server_.port == 443 ? "" : fmt::format(":{}", server_.port);
  session_.emplace(server_.host + port, server_.prefix);
  std::vector<Ticket> waiting;
  for (const auto& [ticket, call] : calls_) waiting.push_back(ticket);
  for (const Ticket ticket : waiting) submit(ticket);
  read();
  write();
  rest();
}

bool Http2Connection::has_room(std::size_t usual) const {
  return takes_more() && load() < most_streams().value_or(usual);
}

std::optional<std::size_t> Http2Connection::most_streams() const {
  return session_ ? session_->most_streams() : std::nullopt;
}

Http2Connection::Ticket Http2Connection::send(const Request& request, Http2Receiver& receiver,
                                              std::function<void(End)> ended) {
  const Ticket ticket = ++last_ticket_;
  calls_[ticket] = {.request = &request, .receiver = &receiver, .ended = std::move(ended), .stream = std::nullopt};
  if (!session_) return ticket;
  timer_.cancel();
  submit(ticket);
  write();
  rest();
  return ticket;
}

void Http2Connection::submit(Ticket ticket) {
  Call& call = calls_.at(ticket);
  call.stream = session_->submit(*call.request, *call.receiver, [this, ticket](Http2Session::End how) {
    switch (how) {
      case Http2Session::End::kWhole:
        return end(ticket, {.kind = End::Kind::kWhole});
      case Http2Session::End::kUnprocessed:
        return end(ticket, {.kind = End::Kind::kUnprocessed});
      case Http2Session::End::kBroken:
        return end(ticket, {.kind = End::Kind::kBroken,
                            .error = gone_ ? *gone_ : broken("the server left a request without a whole answer")});
    }
  });
  if (!call.stream) end(ticket, {.kind = End::Kind::kUnprocessed});
}

void Http2Connection::end(Ticket ticket, const End& how) {
  auto call = calls_.extract(ticket);
  if (!call.empty()) call.mapped().ended(how);
}

void Http2Connection::cancel(Ticket ticket, std::optional<MonotonicTime> since) {
  const auto call = calls_.extract(ticket);
  if (call.empty()) return;
  if (call.mapped().stream) session_->cancel(*call.mapped().stream);
  if (since && heard_ <= *since) retired_ = true;
  write();
  rest();
}

void Http2Connection::consumed(Ticket ticket, std::size_t bytes) {
  const auto call = calls_.find(ticket);
  if (call == calls_.end() || !call->second.stream) return;
  session_->consumed(*call->second.stream, bytes);
  write();
}

void Http2Connection::retire() {
  retired_ = true;
  rest();
}

void Http2Connection::rest() {
  if (gone_ || !session_ || !calls_.empty()) return;
  if (retired_) return close(broken("it is no longer used"));
  timer_.expires_after(rest_after_);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->calls_.empty()) self->close(self->broken("it rests"));
  });
}

void Http2Connection::read() {
  stream_.async_read_some(asio::buffer(input_), [self = shared_from_this()](error_code error, std::size_t size) {
    if (self->gone_) return;
    if (error) return self->close(self->broken(error.message()));
    self->heard_ = std::chrono::steady_clock::now();
    if (!self->session_->receive({self->input_.data(), size})) {
      return self->close(self->broken("the server ended it, or does not keep to the protocol"));
    }
    self->write();
    self->rest();
    if (!self->gone_) self->read();
  });
}

void Http2Connection::write() {
  if (gone_ || writing_ || !session_) return;
  output_.clear();
  if (!session_->take_output(output_, kMostOutput)) return close(broken("there is no memory left"));
  if (output_.empty()) return;
  writing_ = true;
  asio::async_write(stream_, asio::buffer(output_), [self = shared_from_this()](error_code error, std::size_t) {
    self->writing_ = false;
    if (self->gone_) return;
    if (error) return self->close(self->broken(error.message()));
    if (self->session_->is_over()) return self->close(self->broken("the server does not keep to the protocol"));
    self->write();
    self->rest();
  });
}

void Http2Connection::close(const Error& why) {
  if (gone_) return;
  gone_ = why;
  retired_ = true;
  timer_.cancel();
  resolver_.cancel();
  error_code ignored;
  stream_.next_layer().close(ignored);
  if (session_) session_->give_up();
  // Those that came before there was a session.
  for (auto& [ticket, call] : std::exchange(calls_, {})) call.ended({.kind = End::Kind::kBroken, .error = why});
  closed_(shared_from_this());
}

Error Http2Connection::broken(const std::string& why) const {
  return fail(ErrorCode::kUnavailable, fmt::format("the connection to {} broke: {}", server_.url, why));
}

}  // namespace lockstep::kube
