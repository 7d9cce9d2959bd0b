#include "operator/rendezvous/connections.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lockstep::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kAcceptsAtOnce = 64;  // before the io thread does other work
constexpr auto kAcceptAgainAfter = std::chrono::milliseconds(20);

}  // namespace

Connections::Connections(asio::io_context& io, Session::Events events)
    : io_(io), events_(std::move(events)), acceptor_(io), accept_again_(io) {}

Result<std::string> Connections::listen(const std::string& ip, int port) {
  error_code error;
  const auto address = asio::ip::make_address(ip, error);
  if (error)
    return fail(ErrorCode::kInvalid, fmt::format("the coordinator's listen address {} is not an IP address", ip));
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
  // Asio would make descriptors that children inherit: an agent started by this process would keep them open.
  const int listener = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) {
    error = error_code(errno, boost::system::system_category());
  } else {
    acceptor_.assign(endpoint.protocol(), listener, error);
  }
  if (!error) acceptor_.non_blocking(true, error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("the coordinator cannot listen on {}:{}: {}", ip, port, error.message()));
  }
  const tcp::endpoint bound = acceptor_.local_endpoint();
  const std::string bound_ip = bound.address().to_string();
  accept();
  return fmt::format("{}:{}", bound.address().is_v6() ? fmt::format("[{}]", bound_ip) : bound_ip, bound.port());
}

void Connections::accept() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code error) {
    if (error) return;
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      if (!room_for_a_stranger()) return accept_later();
      const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        return accept_later();  // some will be closed soon
      }
      if (fd < 0) break;
      welcome(fd);
    }
    accept();
  });
}

void Connections::accept_later() {
  accept_again_.expires_after(kAcceptAgainAfter);
  accept_again_.async_wait([this](error_code stopped) {
    if (!stopped) accept();
  });
}

// Thousands of members that come at once wait in the kernel's queue until others have said who they are. A connection
// that only holds a place must not keep them out. The oldest one has had the most time, so it is closed.
bool Connections::room_for_a_stranger() {
  if (strangers_.size() < kMostStrangers) return true;
  if (std::chrono::steady_clock::now() - strangers_.front().since < kStrangerStays) return false;
  if (Session* oldest = find(strangers_.front().id)) oldest->close("it had not said who it is when others came");
  return strangers_.size() < kMostStrangers;
}

void Connections::welcome(int fd) {
  error_code error;
  tcp::socket socket(io_);
  socket.assign(acceptor_.local_endpoint().protocol(), fd, error);
  if (error) ::close(fd);
  if (error || sessions_.size() >= kMost) return;
  const SessionId id = ++last_session_;
  const auto session = std::make_shared<Session>(id, std::move(socket), *tls_, events_);
  sessions_[id] = session;
  stranger_at_[id] = strangers_.insert(strangers_.end(), {id, std::chrono::steady_clock::now()});
  session->start();
}

Session* Connections::find(SessionId id) {
  const auto at = sessions_.find(id);
  return at == sessions_.end() ? nullptr : at->second.get();
}

std::vector<std::shared_ptr<Session>> Connections::of_job(const std::string& uid) const {
  std::vector<std::shared_ptr<Session>> theirs;
  for (const auto& [id, session] : sessions_) {
    if (session->job_uid == uid) theirs.push_back(session);
  }
  return theirs;
}

void Connections::no_stranger(SessionId id) {
  if (const auto at = stranger_at_.find(id); at != stranger_at_.end()) {
    strangers_.erase(at->second);
    stranger_at_.erase(at);
  }
}

std::shared_ptr<Session> Connections::on_closed(Session& session) {
  no_stranger(session.id());
  std::shared_ptr<Session> alive = session.shared_from_this();
  sessions_.erase(session.id());
  return alive;
}

}  // namespace lockstep::rendezvous
