#include "trainer/comm/tcp_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace lockstep::trainer::comm {

IoResult TcpSink::write(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // sendmsg does not write to it
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {.bytes = static_cast<size_t>(n)};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    return {.ended = true, .error = errno};
  }
}

void TcpSource::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kAlign});
}

TcpSource::TcpSource(UniqueFd fd)
    : fd_(std::move(fd)),
      buffer_(static_cast<std::byte*>(::operator new (kBuffer + kAlign, std::align_val_t{kAlign}))) {}

IoResult TcpSource::receive(std::byte* to, size_t bytes) {
  while (true) {
    const ssize_t n = ::recv(fd_.get(), to, bytes, MSG_DONTWAIT);
    if (n > 0) return {.bytes = static_cast<size_t>(n)};
    if (n == 0) return {.ended = true};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    return {.ended = true, .error = errno};
  }
}

IoResult TcpSource::read(std::span<std::byte> to) {
  if (to.empty()) return {};
  if (end_ > begin_) {
    const size_t n = std::min(to.size(), end_ - begin_);
    std::memcpy(to.data(), buffer_.get() + begin_, n);
    consume(n);
    return {.bytes = n};
  }
  const IoResult result = receive(to.data(), to.size());
  position_ += result.bytes;
  return result;
}

IoResult TcpSource::peek(std::span<const std::byte>& out) {
  IoResult result;
  if (end_ - begin_ < kAlign) {  // the rest of an element at most: move it to the front, and fill up
    // The place in the buffer keeps the alignment that the place in the stream has, so that elements stay aligned.
    const size_t front = position_ % kAlign;
    std::memmove(buffer_.get() + front, buffer_.get() + begin_, end_ - begin_);
    end_ = front + (end_ - begin_);
    begin_ = front;
    result = receive(buffer_.get() + end_, kBuffer + kAlign - end_);
    end_ += result.bytes;
  }
  out = {buffer_.get() + begin_, end_ - begin_};
  result.bytes = out.size();
  return result;
}

void TcpSource::consume(size_t bytes) {
  begin_ += bytes;
  position_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

}  // namespace lockstep::trainer::comm
