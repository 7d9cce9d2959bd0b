// The connections of a coordinator: listens, accepts, and keeps strangers, whose sender is not known yet, from taking
// the places of members. Belongs to one thread, which runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "operator/rendezvous/session.h"

namespace lockstep::rendezvous {

class Connections {
 public:
  static constexpr std::size_t kMost = 20'000;
  static constexpr std::size_t kMostStrangers = 1'024;
  // A stranger has its place for so long at least; then the oldest goes when others come.
  static constexpr auto kStrangerStays = std::chrono::seconds(1);

  // `events` are called by the sessions, and have to tell on_closed() of each that ends.
  Connections(boost::asio::io_context& io, Session::Events events);

  // Serves with `tls` who is accepted from now on.
  void use(std::shared_ptr<boost::asio::ssl::context> tls) { tls_ = std::move(tls); }
  // Binds, and accepts once `io` runs; `ip:port` that it listens on. kInvalid for what is no IP address, kUnavailable
  // when the port is taken. Call use() before.
  Result<std::string> listen(const std::string& ip, int port);

  // Null when it has ended.
  Session* find(SessionId id);
  std::vector<std::shared_ptr<Session>> of_job(const std::string& uid) const;
  // Its sender is known, or is being asked for: it no longer counts as a stranger.
  void no_stranger(SessionId id);
  // Forgets one that has ended, and hands it out for the last time.
  std::shared_ptr<Session> on_closed(Session& session);

 private:
  struct Stranger {
    SessionId id = 0;
    std::chrono::steady_clock::time_point since{};
  };
  void accept();
  void accept_later();
  bool room_for_a_stranger();
  void welcome(int fd);

  boost::asio::io_context& io_;
  const Session::Events events_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer accept_again_;
  std::unordered_map<SessionId, std::shared_ptr<Session>> sessions_;
  std::list<Stranger> strangers_;  // oldest first
  std::unordered_map<SessionId, std::list<Stranger>::iterator> stranger_at_;
  SessionId last_session_ = 0;
};

}  // namespace lockstep::rendezvous
