// One TLS connection of an agent, on the server's io thread. Frames go in and out, bounded in bytes and in time until
// its sender is known. What frames mean is the server's business.
//
// OpenSSL reads and writes the socket itself, and Asio only says when. Asio's own TLS stream keeps 34 KiB of buffers
// for each connection, which thousands of idle agents would hold all day.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {

class Session : public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t kMaxQueued = 1024 * 1024;  // bytes of its own that an agent may leave unread
  static constexpr auto kJoinWithin = std::chrono::seconds(10);
  static constexpr auto kHandshakeWithin = std::chrono::seconds(5);

  struct Events {
    std::function<void(Session&, const AgentToCoordinator&)> on_message;
    std::function<void(Session&)> on_closed;  // once, also when we closed it
    Duration read_within{};                   // for an agent to make room for what it is sent next; then it is closed
  };

  Session(SessionId id, boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& tls, const Events& events);

  // Handshake, then messages; `on_closed` when that does not come to a HELLO in time.
  void start();
  // It has said who it is, and that is being checked: no deadline until then.
  void wait_for_check() { deadline_.expires_at(boost::asio::steady_timer::time_point::max()); }
  // Its sender is known, and speaks that protocol: no deadline, and frames of full size.
  void accept(int protocol);
  // Queues a message. It is written once the caller is done.
  void send(const CoordinatorToAgent& message);
  // Closes once what was sent is written, or after a second. No more messages are handed on.
  void finish();
  // Closes now; `why` is for the log.
  void close(const std::string& why);

  SessionId id() const { return id_; }
  // Of a closed one: why.
  const std::string& why() const { return why_; }
  // What the server keeps with it: the job that it joined, or asks to join, and the pod that it is of, for the log.
  std::string job_uid;
  std::string pod;
  bool joined = false;
  bool said_hello = false;

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  // Closes, and says `why`, when neither accept() nor another deadline comes first.
  void set_deadline(std::chrono::milliseconds within, const char* why);
  // Calls `go_on` once the socket is ready for what OpenSSL asked for; false when `result` is an error, and closes.
  bool wait(int result, void (Session::*go_on)());
  void handshake();
  void read();
  void take_frames();
  void write_later();
  void write();

  const SessionId id_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  boost::asio::steady_timer deadline_, unread_;
  const Events& events_;
  FrameReader frames_{kMaxFirstFrame};
  CoordinatorWriter writer_;
  std::deque<Chunk> queue_;
  std::size_t written_ = 0;  // bytes of the first chunk
  std::size_t queued_ = 0;   // bytes that no other session shares
  bool open_ = false, writing_ = false, finishing_ = false, closed_ = false;
  std::string why_;
};

}  // namespace lockstep::rendezvous
