#include "operator/rendezvous/session.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string_view>

#include "operator/base/log.h"

namespace lockstep::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
constexpr int kSocketBuffer = 256 * 1024;  // bytes; a frame of the largest size
}  // namespace

Session::Session(SessionId id, asio::ip::tcp::socket socket, asio::ssl::context& tls, const Events& events)
    : id_(id),
      stream_(std::move(socket), tls),
      deadline_(stream_.get_executor()),
      unread_(stream_.get_executor()),
      events_(events) {}

void Session::start() {
  error_code ignored;
  stream_.lowest_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.lowest_layer().set_option(asio::socket_base::keep_alive(true), ignored);
  // The kernel would let each buffer grow to some megabytes, on our account.
  stream_.lowest_layer().set_option(asio::socket_base::send_buffer_size(kSocketBuffer), ignored);
  stream_.lowest_layer().set_option(asio::socket_base::receive_buffer_size(kSocketBuffer), ignored);
  set_deadline(kHandshakeWithin, "no TLS handshake in time");
  stream_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](error_code error) {
    if (error || self->closed_) return self->close(error.message());
    self->set_deadline(kJoinWithin - kHandshakeWithin, "it did not say who it is in time");
    self->read_length();
  });
}

void Session::set_deadline(std::chrono::milliseconds within, const char* why) {
  deadline_.expires_after(within);
  deadline_.async_wait([self = shared_from_this(), why](error_code error) {
    if (!error) self->close(why);
  });
}

void Session::accept(int protocol) {
  if (finishing_) return;
  deadline_.cancel();
  most_ = kMaxFrame;
  writer_ = CoordinatorWriter(protocol);
}

void Session::read_length() {
  asio::async_read(stream_, asio::buffer(length_), [self = shared_from_this()](error_code error, std::size_t) {
    if (error || self->closed_) return self->close(error.message());
    const Result<std::size_t> length = decode_length(std::string_view(self->length_, 4), self->most_);
    if (!length) return self->close(length.error().message);
    self->read_body(*length);
  });
}

void Session::read_body(std::size_t length) {
  body_.resize(length);
  asio::async_read(stream_, asio::buffer(body_), [self = shared_from_this()](error_code error, std::size_t) {
    if (error || self->closed_) return self->close(error.message());
    if (!self->finishing_) {
      const Result<AgentToCoordinator> message = decode_from_agent(self->body_);
      if (!message) {
        // Of a stranger that may be anything; of a member it is a defect of ours.
        if (self->joined)
          log::error("a member's message is not understood: is its agent of this version?",
                     {{"pod", self->pod}, {"why", message.error().message}});
        return self->close(message.error().message);
      }
      self->events_.on_message(*self, *message);
    }
    if (self->body_.capacity() > kMaxFirstFrame) self->body_ = std::string();
    if (!self->closed_) self->read_length();
  });
}

void Session::send(const CoordinatorToAgent& message) {
  if (closed_ || finishing_) return;
  Result<std::vector<Chunk>> chunks = writer_.encode(message);
  if (chunks) {
    for (const Chunk& chunk : *chunks) queued_ += chunk.shared ? 0 : chunk.bytes->size();
  }
  if (!chunks || queued_ > kMaxQueued) {
    const std::string why = chunks ? "its agent does not read what it is sent" : chunks.error().message;
    // Not from inside the caller's loop over sessions.
    asio::post(stream_.get_executor(), [self = shared_from_this(), why] { self->close(why); });
    return;
  }
  queue_.insert(queue_.end(), chunks->begin(), chunks->end());
  write_next();
}

void Session::write_next() {
  if (writing_ || closed_) return;
  if (queue_.empty()) {
    // Our end is closed first: closing it all with something unread would take back what was just written.
    error_code ignored;
    if (finishing_) stream_.lowest_layer().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    return;
  }
  writing_ = true;
  unread_.expires_after(events_.read_within);
  unread_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->close("its agent does not read what it is sent");
  });
  const auto written = [self = shared_from_this()](error_code error, std::size_t) {
    self->writing_ = false;
    self->unread_.cancel();
    if (error || self->closed_) return self->close(error.message());
    const Chunk& chunk = self->queue_.front();
    self->queued_ -= chunk.shared ? 0 : chunk.bytes->size();
    self->queue_.pop_front();
    self->write_next();
  };
  asio::async_write(stream_, asio::buffer(*queue_.front().bytes), written);
}

void Session::finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  set_deadline(std::chrono::seconds(1), "it did not read its last messages in time");
  write_next();
}

void Session::close(const std::string& why) {
  if (std::exchange(closed_, true)) return;
  why_ = why;
  deadline_.cancel();
  unread_.cancel();
  error_code ignored;
  stream_.lowest_layer().close(ignored);
  events_.on_closed(*this);
}

}  // namespace lockstep::rendezvous
