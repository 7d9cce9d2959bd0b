// The agent's TLS connection to the coordinator, without a thread: the agent's loop polls its descriptor. It reconnects
// without end, with a short backoff. Addresses are numeric, so a static binary needs no resolver.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/backoff.h"
#include "operator/base/clock.h"
#include "operator/base/unique_fd.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::trainer::agent {

class Connection {
 public:
  // `address` is "ip:port" or "[ip]:port"; `ca_pem` is the authority that the coordinator's certificate needs. kInvalid
  // if either is malformed.
  static Result<std::unique_ptr<Connection>> make(const std::string& address, const std::string& ca_pem);
  ~Connection();

  // What happened in a call; the caller tells the state machine.
  struct Happened {
    bool opened = false;  // the handshake is done
    bool closed = false;  // an open connection ended
    std::vector<rendezvous::CoordinatorToAgent> messages;
    std::string why;  // of a close or a failed try, for the log
  };

  // Descriptor and poll events to wait for; -1 while it waits to try again.
  int fd() const { return fd_.get(); }
  short events() const;
  // The time of the next step() without an event.
  MonotonicTime deadline() const;
  // Call it when poll() reports an event and when the deadline has passed.
  Happened step(MonotonicTime now);
  // Queues a message. A coordinator that reads nothing for too long is disconnected.
  void send(const rendezvous::AgentToCoordinator& message);
  // Ends the connection; the next try comes after the backoff.
  void close(MonotonicTime now);
  // The coordinator has welcomed the agent: the next backoff starts small.
  void welcomed() { backoff_.reset(); }

 private:
  enum class Phase { kWaiting, kConnecting, kHandshaking, kOpen };
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };

  Connection() = default;
  void connect(MonotonicTime now, Happened& happened);
  void handshake(MonotonicTime now, Happened& happened);
  void exchange(MonotonicTime now, Happened& happened);
  void drop(MonotonicTime now, Happened& happened, const std::string& why);

  std::string host_;
  int port_ = 0;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  UniqueFd fd_;
  Phase phase_ = Phase::kWaiting;
  MonotonicTime at_{};  // of the next try, or the deadline of this one
  short want_ = 0;
  std::string out_;
  bool overflow_ = false;
  rendezvous::FrameReader reader_;
  rendezvous::CoordinatorReader messages_;
  Backoff backoff_{{std::chrono::milliseconds(100), std::chrono::seconds(1), 0.5}};
};

}  // namespace lockstep::trainer::agent
