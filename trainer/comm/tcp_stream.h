// Byte streams over a connected, non-blocking TCP socket.
#pragma once

#include <cstdint>
#include <memory>

#include "operator/base/unique_fd.h"
#include "trainer/comm/stream.h"

namespace lockstep::trainer::comm {

class TcpSink final : public ByteSink {
 public:
  explicit TcpSink(UniqueFd fd) : fd_(std::move(fd)) {}
  IoResult write(std::span<const iovec> pieces) override;
  int poll_fd() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class TcpSource final : public ByteSource {
 public:
  explicit TcpSource(UniqueFd fd);
  IoResult read(std::span<std::byte> to) override;
  IoResult peek(std::span<const std::byte>& out) override;
  void consume(size_t bytes) override;
  int poll_fd() const override { return fd_.get(); }

 private:
  static constexpr size_t kBuffer = size_t{256} << 10;
  static constexpr size_t kAlign = 64;

  IoResult receive(std::byte* to, size_t bytes);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  UniqueFd fd_;
  std::unique_ptr<std::byte, Free> buffer_;  // kBuffer + kAlign bytes
  size_t begin_ = 0;                         // of the unconsumed bytes in buffer_
  size_t end_ = 0;
  std::uint64_t position_ = 0;  // consumed bytes of the stream
};

}  // namespace lockstep::trainer::comm
