#include "operator/rendezvous/session.h"

#include <openssl/err.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "operator/base/log.h"

namespace lockstep::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kNever = asio::steady_timer::time_point::max();

bool expired(const asio::steady_timer& timer) {
  return timer.expiry() <= asio::steady_timer::clock_type::now();
}

constexpr int kSocketBuffer = 256 * 1024;  // bytes; a frame of the largest size
constexpr std::size_t kTurn = 64 * 1024;   // bytes that one connection writes before others have theirs
constexpr int kReadsAtOnce = 16;           // the same for reading, in TLS records
constexpr const char* kUnread = "its agent does not read what it is sent";

std::string tls_error(int kind) {
  const int number = errno;
  const unsigned long code = ERR_peek_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  if (reason != nullptr) return reason;
  if (kind == SSL_ERROR_SYSCALL && number != 0) return std::strerror(number);
  return "its agent has closed it";
}

}  // namespace

Session::Session(SessionId id, tcp::socket socket, asio::ssl::context& tls, const Events& events)
    : id_(id),
      socket_(std::move(socket)),
      ssl_(SSL_new(tls.native_handle())),
      deadline_(socket_.get_executor()),
      unread_(socket_.get_executor()),
      events_(events) {}

void Session::start() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  // The kernel would let each buffer grow to some megabytes, on our account.
  socket_.set_option(asio::socket_base::send_buffer_size(kSocketBuffer), ignored);
  socket_.set_option(asio::socket_base::receive_buffer_size(kSocketBuffer), ignored);
  if (!ssl_ || SSL_set_fd(ssl_.get(), socket_.native_handle()) != 1) return close("no memory for TLS");
  SSL_set_read_ahead(ssl_.get(), 1);  // a record with one call of the kernel
  SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  set_deadline(kHandshakeWithin, "no TLS handshake in time");
  handshake();
}

void Session::set_deadline(std::chrono::milliseconds within, const char* why) {
  deadline_.expires_after(within);
  deadline_.async_wait([self = shared_from_this(), why](error_code error) {
    // Cancelling does not call back a handler that is queued already: the timer says whether it is still meant.
    if (!error && expired(self->deadline_)) self->close(why);
  });
}

bool Session::wait(int result, void (Session::*go_on)()) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE) {
    close(tls_error(kind));
    return false;
  }
  socket_.async_wait(kind == SSL_ERROR_WANT_READ ? tcp::socket::wait_read : tcp::socket::wait_write,
                     [self = shared_from_this(), go_on](error_code error) {
                       if (error) return self->close(error.message());
                       if (!self->closed_) ((*self).*go_on)();
                     });
  return true;
}

void Session::handshake() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_accept(ssl_.get());
  if (result != 1) {
    wait(result, &Session::handshake);
    return;
  }
  open_ = true;
  set_deadline(kJoinWithin - kHandshakeWithin, "it did not say who it is in time");
  read();
}

void Session::accept(int protocol) {
  if (finishing_) return;
  deadline_.expires_at(kNever);
  frames_.allow(kMaxFrame);
  writer_ = CoordinatorWriter(protocol);
}

void Session::read() {
  static thread_local char buffer[16 * 1024];
  for (int round = 0; round < kReadsAtOnce; ++round) {
    ERR_clear_error();
    errno = 0;
    const int length = SSL_read(ssl_.get(), buffer, sizeof buffer);
    if (length <= 0) {
      wait(length, &Session::read);
      return;
    }
    frames_.feed({buffer, static_cast<std::size_t>(length)});
    take_frames();
    if (closed_) return;
    if (SSL_has_pending(ssl_.get()) == 0) break;
  }
  // What has come meanwhile is read at once; others have their turn first.
  if (SSL_has_pending(ssl_.get()) != 0) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (!self->closed_) self->read();
    });
    return;
  }
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error) return self->close(error.message());
    if (!self->closed_) self->read();
  });
}

void Session::take_frames() {
  while (!closed_) {
    const Result<std::optional<std::string>> frame = frames_.next();
    if (!frame) return close(frame.error().message);
    if (!*frame) return;
    if (finishing_) continue;
    const Result<AgentToCoordinator> message = decode_from_agent(**frame);
    if (!message) {
      // Of a stranger that may be anything; of a member it is a defect of ours.
      if (joined)
        log::error("a member's message is not understood: is its agent of this version?",
                   {{"pod", pod}, {"why", message.error().message}});
      return close(message.error().message);
    }
    events_.on_message(*this, *message);
  }
}

void Session::send(const CoordinatorToAgent& message) {
  if (closed_ || finishing_) return;
  Result<std::vector<Chunk>> chunks = writer_.encode(message);
  if (chunks) {
    for (const Chunk& chunk : *chunks) queued_ += chunk.shared ? 0 : chunk.bytes->size();
  }
  if (!chunks || queued_ > kMaxQueued) {
    const std::string why = chunks ? kUnread : chunks.error().message;
    // Not from inside the caller's loop over sessions.
    asio::post(socket_.get_executor(), [self = shared_from_this(), why] { self->close(why); });
    return;
  }
  queue_.insert(queue_.end(), chunks->begin(), chunks->end());
  write_later();
}

void Session::write_later() {
  if (writing_ || closed_ || !open_) return;
  writing_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->closed_) self->write();
  });
}

void Session::write() {
  std::size_t turn = 0;
  while (!queue_.empty() && turn < kTurn) {
    const std::string& bytes = *queue_.front().bytes;
    const std::size_t length = std::min(bytes.size() - written_, kTurn);
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write(ssl_.get(), bytes.data() + written_, static_cast<int>(length));
    if (result <= 0) {
      if (!wait(result, &Session::write)) return;
      unread_.expires_after(events_.read_within);
      unread_.async_wait([self = shared_from_this()](error_code error) {
        if (!error && expired(self->unread_)) self->close(kUnread);
      });
      return;
    }
    unread_.expires_at(kNever);
    turn += static_cast<std::size_t>(result);
    written_ += static_cast<std::size_t>(result);
    if (written_ < bytes.size()) continue;
    queued_ -= queue_.front().shared ? 0 : bytes.size();
    queue_.pop_front();
    written_ = 0;
  }
  writing_ = false;
  if (!queue_.empty()) return write_later();
  // Our end is closed first: closing it all with something unread would take back what was just written.
  error_code ignored;
  if (finishing_) socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void Session::finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  set_deadline(std::chrono::seconds(1), "it did not read its last messages in time");
  write_later();
}

void Session::close(const std::string& why) {
  if (std::exchange(closed_, true)) return;
  why_ = why;
  deadline_.cancel();
  unread_.cancel();
  error_code ignored;
  socket_.close(ignored);
  events_.on_closed(*this);
}

}  // namespace lockstep::rendezvous
