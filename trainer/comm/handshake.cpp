#include "trainer/comm/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::trainer::comm {

Handshake::Handshake(UniqueFd fd, Role role, const HandshakeTerms& terms, Channel channel, MonotonicTime deadline)
    : fd_(std::move(fd)), role_(role), terms_(terms), channel_(channel), deadline_(deadline) {
  if (role_ == Role::kClient) {
    Hello hello = terms_.own;
    hello.channel = channel_;
    hello.nonce = fresh_nonce();
    client_ = encode(hello);
    queue(client_);
  }
}

short Handshake::events() const {
  if (done() || failed()) return 0;
  return static_cast<short>(out_begin_ < out_end_ ? POLLOUT : POLLIN);
}

void Handshake::queue(std::span<const std::byte> bytes) {
  std::memcpy(out_.data() + out_end_, bytes.data(), bytes.size());
  out_end_ += bytes.size();
}

void Handshake::give_up(std::string why) {
  state_ = State::kFailed;
  why_ = std::move(why);
  fd_.reset();
}

bool Handshake::flush() {
  while (out_begin_ < out_end_) {
    const ssize_t n = ::send(fd_.get(), out_.data() + out_begin_, out_end_ - out_begin_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      out_begin_ += static_cast<size_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return true;
    } else {
      give_up(std::strerror(errno));
      return false;
    }
  }
  out_begin_ = out_end_ = 0;
  return true;
}

bool Handshake::gather(size_t bytes) {
  while (in_used_ < bytes) {
    const ssize_t n = ::recv(fd_.get(), in_.data() + in_used_, bytes - in_used_, MSG_DONTWAIT);
    if (n > 0) {
      in_used_ += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    // A server closes without a reply if anything does not fit.
    give_up(n == 0 ? "it closed the connection (another job, generation or key, or it is ending)"
                   : std::strerror(errno));
    return false;
  }
  return true;
}

bool Handshake::as_expected(const Hello& hello) {
  const Hello& own = terms_.own;
  if (hello.job != own.job)
    give_up("it is of another job");
  else if (hello.generation != own.generation)
    give_up("it is of another generation");
  else if (hello.size != own.size)
    give_up("it counts another number of ranks");
  else if (hello.rank != terms_.peer)
    give_up("it is another rank");
  peer_memory_ = hello.memory;
  return !failed();
}

void Handshake::advance() {
  do {
    progressed_ = false;
    if (done() || failed() || !flush() || out_begin_ < out_end_) return;
    role_ == Role::kClient ? client_step() : server_step();
  } while (progressed_);
}

void Handshake::client_step() {
  if (state_ == State::kHello) {
    if (!gather(kHelloBytes + kMacBytes)) return;
    std::memcpy(server_.data(), in_.data(), kHelloBytes);
    in_used_ = 0;
    const auto hello = decode_hello(server_);
    if (!hello || hello->channel != channel_) return give_up("it does not speak this protocol");
    if (!equal_in_constant_time(hello_mac(terms_.key, Role::kServer, client_, server_),
                                std::span(in_).subspan(kHelloBytes))) {
      return give_up("it holds another key");
    }
    if (!as_expected(*hello)) return;
    queue(hello_mac(terms_.key, Role::kClient, client_, server_));
    state_ = State::kAccept;
    progressed_ = true;
  } else if (state_ == State::kAccept) {
    if (!gather(1)) return;
    if (in_[0] != kAccepted) return give_up("it does not speak this protocol");
    state_ = State::kDone;
  }
}

void Handshake::server_step() {
  if (state_ == State::kHello) {
    if (!gather(kHelloBytes)) return;
    std::memcpy(client_.data(), in_.data(), kHelloBytes);
    in_used_ = 0;
    const auto hello = decode_hello(client_);
    if (!hello) return give_up("it does not speak this protocol");
    if (!as_expected(*hello)) return;
    channel_ = hello->channel;
    Hello own = terms_.own;
    own.channel = channel_;
    own.nonce = fresh_nonce();
    server_ = encode(own);
    queue(server_);
    queue(hello_mac(terms_.key, Role::kServer, client_, server_));
    state_ = State::kProof;
    progressed_ = true;
  } else if (state_ == State::kProof) {
    if (!gather(kMacBytes)) return;
    if (!equal_in_constant_time(hello_mac(terms_.key, Role::kClient, client_, server_),
                                std::span(in_).first(kMacBytes))) {
      return give_up("it holds another key");
    }
    queue(std::span(&kAccepted, 1));
    state_ = State::kAccept;
    progressed_ = true;
  } else if (state_ == State::kAccept) {  // the queue is empty: the byte was sent
    state_ = State::kDone;
  }
}

}  // namespace lockstep::trainer::comm
