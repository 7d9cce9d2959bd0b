// One connection of the HTTP/2 client: TCP, TLS and an Http2Session, driven by the one thread that runs the io_context.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/kube/http2_session.h"

namespace lockstep::kube {

// The server of a URL "https://host:port/prefix".
struct Http2Server {
  std::string url;  // for messages
  std::string host;
  std::uint16_t port = 443;
  std::string prefix;       // "/prefix"; before every target
  std::string server_name;  // to verify and to ask for; the host if it is not configured
  bool insecure = false;    // its certificate is not verified
};

class Http2Connection : public std::enable_shared_from_this<Http2Connection> {
 public:
  struct End {
    enum class Kind { kWhole, kUnprocessed, kBroken, kNotHttp2 };
    Kind kind = Kind::kWhole;
    Error error{};  // of kBroken
  };
  using Ticket = std::uint64_t;

  // It closes after `rest` without a request.
  Http2Connection(boost::asio::io_context& io, Http2Server server, boost::asio::ssl::context tls, Duration rest);

  // Begins to connect. `closed` is called once, after the end of the last request.
  void open(std::function<void(const std::shared_ptr<Http2Connection>&)> closed);
  // Sends the request as soon as there is a connection. `request` and `receiver` stay where they are until `ended` is
  // called, once, perhaps before this returns, or until cancel().
  Ticket send(const Request& request, Http2Receiver& receiver, std::function<void(End)> ended);
  // Forgets the request; `ended` is not called. A connection that has been silent since `since` is believed dead: it
  // takes no more requests.
  void cancel(Ticket ticket, std::optional<MonotonicTime> since);
  // Lets the server send so many bytes more, which on_data() refused.
  void consumed(Ticket ticket, std::size_t bytes);
  // Takes no more requests, and closes after its last answer.
  void retire();
  void close(const Error& why);

  // Requests that have not ended.
  std::size_t load() const { return calls_.size(); }
  bool takes_more() const { return !retired_ && (!session_ || session_->takes_more()); }
  // The server would work on another request at once. `usual`: how many it takes, where it has not said so yet.
  bool has_room(std::size_t usual) const;
  // How many it takes; nullopt: it has not said so yet.
  std::optional<std::size_t> most_streams() const;

 private:
  struct Call {
    const Request* request = nullptr;
    Http2Receiver* receiver = nullptr;
    std::function<void(End)> ended;
    std::optional<std::int32_t> stream;  // empty: not connected yet
  };

  void resolve();
  void connect(const boost::asio::ip::tcp::resolver::results_type& endpoints);
  void shake_hands();
  void begin();
  void submit(Ticket ticket);
  void read();
  void write();
  void end(Ticket ticket, const End& how);
  // Closes a connection that has no use, at once or after a time.
  void rest();
  Error broken(const std::string& why) const;

  const Http2Server server_;
  const Duration rest_after_;
  boost::asio::ssl::context tls_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream_;
  boost::asio::steady_timer timer_;  // of the handshake, then of rest
  std::function<void(const std::shared_ptr<Http2Connection>&)> closed_;
  std::optional<Http2Session> session_;
  std::map<Ticket, Call> calls_;
  Ticket last_ticket_ = 0;
  std::array<char, 16384> input_{};
  std::string output_;
  bool writing_ = false;
  bool retired_ = false;
  std::optional<Error> gone_;  // closed, and why
  MonotonicTime heard_{};      // when bytes came last
};

}  // namespace lockstep::kube
