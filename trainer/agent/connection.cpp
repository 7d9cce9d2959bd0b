#include "trainer/agent/connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "operator/base/number.h"

namespace lockstep::trainer::agent {
namespace {

constexpr std::size_t kMaxQueued = 1024 * 1024;
constexpr Duration kConnectWithin = std::chrono::seconds(2);
constexpr Duration kHandshakeWithin = std::chrono::seconds(5);
constexpr int kUnansweredMs = 3000;  // heartbeats go out all the time: a peer that acknowledges none is gone

std::string last_tls_error(SSL* ssl, int result) {
  const long verify = SSL_get_verify_result(ssl);
  if (verify != X509_V_OK) return X509_verify_cert_error_string(verify);
  const int system_error = errno;
  char text[256] = "";
  if (const unsigned long code = ERR_peek_last_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  if (text[0] != '\0') return text;
  return SSL_get_error(ssl, result) == SSL_ERROR_SYSCALL && system_error != 0 ? std::strerror(system_error)
                                                                              : "the coordinator closed the connection";
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::make(const std::string& address, const std::string& ca_pem) {
  std::unique_ptr<Connection> made(new Connection());
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  unsigned char binary[16];
  const bool numeric = inet_pton(AF_INET, host.c_str(), binary) == 1 || inet_pton(AF_INET6, host.c_str(), binary) == 1;
  int port = 0;
  if (colon != std::string::npos) {
    port = parse_number<int>(std::string_view(address).substr(colon + 1), 1, 65535).value_or(0);
  }
  if (!numeric || port == 0) {
    return fail(ErrorCode::kInvalid, fmt::format("the coordinator's address \"{}\" is not a numeric ip:port", address));
  }
  made->host_ = host;
  made->port_ = port;

  made->context_.reset(SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(
      BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size())), BIO_free_all);
  int authorities = 0;
  while (X509* certificate = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(made->context_.get()), certificate) == 1) ++authorities;
    X509_free(certificate);
  }
  ERR_clear_error();
  if (authorities == 0)
    return fail(ErrorCode::kInvalid, "the coordinator's certificate authority is not a certificate");
  SSL_CTX_set_min_proto_version(made->context_.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(made->context_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(made->context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return made;
}

Connection::~Connection() {
  if (phase_ == Phase::kOpen) SSL_shutdown(ssl_.get());
}

short Connection::events() const {
  switch (phase_) {
    case Phase::kWaiting:
      return 0;
    case Phase::kConnecting:
      return POLLOUT;
    case Phase::kHandshaking:
      return want_;
    case Phase::kOpen:
      break;
  }
  return static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT));
}

MonotonicTime Connection::deadline() const {
  if (phase_ == Phase::kOpen) return overflow_ ? MonotonicTime{} : MonotonicTime::max();
  return at_;
}

void Connection::drop(MonotonicTime now, Happened& happened, const std::string& why) {
  happened.closed = phase_ == Phase::kOpen;
  happened.why = why;
  close(now);
}

void Connection::close(MonotonicTime now) {
  if (phase_ == Phase::kWaiting) return;
  ssl_.reset();
  fd_.reset();
  out_.clear();
  overflow_ = false;
  phase_ = Phase::kWaiting;
  at_ = now + backoff_.next();
}

Connection::Happened Connection::step(MonotonicTime now) {
  Happened happened;
  if (phase_ != Phase::kOpen && phase_ != Phase::kWaiting && now >= at_) {
    drop(now, happened, fmt::format("no answer from {}:{}", host_, port_));
    return happened;
  }
  if (phase_ == Phase::kWaiting && now >= at_) connect(now, happened);
  if (phase_ == Phase::kConnecting) {
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, 0) == 1) {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) {
        drop(now, happened, fmt::format("{}:{}: {}", host_, port_, std::strerror(error)));
        return happened;
      }
      ssl_.reset(SSL_new(context_.get()));
      // As SSL_set_tlsext_host_name(), without its C cast.
      char name[] = "lockstep-coordinator";
      static_assert(std::string_view(rendezvous::kCoordinatorServerName) == "lockstep-coordinator");
      if (!ssl_ || SSL_set_fd(ssl_.get(), fd_.get()) != 1 ||
          SSL_set1_host(ssl_.get(), rendezvous::kCoordinatorServerName) != 1 ||
          SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) != 1) {
        drop(now, happened, "no memory for TLS");
        return happened;
      }
      phase_ = Phase::kHandshaking;
      at_ = now + kHandshakeWithin;
    }
  }
  if (phase_ == Phase::kHandshaking) handshake(now, happened);
  if (phase_ == Phase::kOpen && !happened.opened) exchange(now, happened);
  return happened;
}

void Connection::connect(MonotonicTime now, Happened& happened) {
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (host_.find(':') == std::string::npos) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port_));
    inet_pton(AF_INET, host_.c_str(), &v4.sin_addr);
    std::memcpy(&storage, &v4, length = sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port_));
    inet_pton(AF_INET6, host_.c_str(), &v6.sin6_addr);
    std::memcpy(&storage, &v6, length = sizeof v6);
  }
  fd_ = UniqueFd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  phase_ = Phase::kConnecting;
  at_ = now + kConnectWithin;
  reader_ = rendezvous::FrameReader();
  messages_ = rendezvous::CoordinatorReader();
  if (!fd_) return drop(now, happened, std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMs, sizeof kUnansweredMs);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS) {
    drop(now, happened, fmt::format("{}:{}: {}", host_, port_, std::strerror(errno)));
  }
}

void Connection::handshake(MonotonicTime now, Happened& happened) {
  const int result = SSL_connect(ssl_.get());
  if (result == 1) {
    phase_ = Phase::kOpen;
    happened.opened = true;
    return;
  }
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      want_ = POLLIN;
      return;
    case SSL_ERROR_WANT_WRITE:
      want_ = POLLOUT;
      return;
    default:
      drop(now, happened, "TLS with the coordinator: " + last_tls_error(ssl_.get(), result));
  }
}

void Connection::exchange(MonotonicTime now, Happened& happened) {
  if (overflow_) return drop(now, happened, "the coordinator reads nothing");
  while (!out_.empty()) {
    const int written = SSL_write(ssl_.get(), out_.data(), static_cast<int>(out_.size()));
    if (written > 0) {
      out_.erase(0, static_cast<std::size_t>(written));
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), written);
    if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) break;
    return drop(now, happened, last_tls_error(ssl_.get(), written));
  }
  char buffer[16 * 1024];
  for (int round = 0; round < 32; ++round) {  // a flood must not keep the loop from its other work
    const int length = SSL_read(ssl_.get(), buffer, sizeof buffer);
    if (length <= 0) {
      const int error = SSL_get_error(ssl_.get(), length);
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
      return drop(now, happened, last_tls_error(ssl_.get(), length));
    }
    reader_.feed({buffer, static_cast<std::size_t>(length)});
    while (true) {
      Result<std::optional<std::string>> frame = reader_.next();
      if (!frame) return drop(now, happened, frame.error().message);
      if (!*frame) break;
      auto message = messages_.decode(**frame);
      if (!message) return drop(now, happened, message.error().message);
      if (*message) happened.messages.push_back(std::move(**message));
    }
  }
}

void Connection::send(const rendezvous::AgentToCoordinator& message) {
  if (phase_ != Phase::kOpen) return;
  const Result<std::string> frame = rendezvous::encode_frame(message);
  if (!frame || out_.size() + frame->size() > kMaxQueued) {
    overflow_ = true;
    return;
  }
  out_ += *frame;
}

}  // namespace lockstep::trainer::agent
