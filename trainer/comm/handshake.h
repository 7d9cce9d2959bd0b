// The handshake of one connection: both ends prove that they hold the generation's key and are of the same job,
// generation and ring. A state machine over a non-blocking socket; the owner polls and calls advance().
#pragma once

#include <string>

#include "operator/base/clock.h"
#include "operator/base/unique_fd.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

// What this side says and expects.
struct HandshakeTerms {
  GenerationKey key{};
  Hello own;               // channel and nonce are filled per connection
  std::uint32_t peer = 0;  // the rank that must be at the other end
};

class Handshake {
 public:
  // As the client the socket may still be connecting. A server learns the channel from the client.
  Handshake(UniqueFd fd, Role role, const HandshakeTerms& terms, Channel channel, MonotonicTime deadline);

  int fd() const { return fd_.get(); }
  short events() const;  // for poll()
  void advance();        // reads and writes what is possible now
  MonotonicTime deadline() const { return deadline_; }

  bool done() const { return state_ == State::kDone; }
  bool failed() const { return state_ == State::kFailed; }
  const std::string& why() const { return why_; }             // of failed()
  Channel channel() const { return channel_; }                // of done()
  std::uint64_t peer_memory() const { return peer_memory_; }  // of done(): Hello::memory of the other end
  UniqueFd take() { return std::move(fd_); }                  // of done()

 private:
  enum class State { kHello, kProof, kAccept, kDone, kFailed };

  void queue(std::span<const std::byte> bytes);
  bool flush();               // false: failed
  bool gather(size_t bytes);  // true when in_ holds `bytes`; else wait (or failed)
  void client_step();
  void server_step();
  bool as_expected(const Hello& hello);
  void give_up(std::string why);

  UniqueFd fd_;
  Role role_;
  const HandshakeTerms& terms_;
  Channel channel_;
  MonotonicTime deadline_;
  State state_ = State::kHello;
  bool progressed_ = false;
  std::string why_;
  std::uint64_t peer_memory_ = 0;
  HelloBytes client_{};
  HelloBytes server_{};
  std::array<std::byte, kHelloBytes + kMacBytes> in_{};
  size_t in_used_ = 0;
  std::array<std::byte, kHelloBytes + kMacBytes> out_{};
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
};

}  // namespace lockstep::trainer::comm
