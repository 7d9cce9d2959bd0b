// A one-way stream of bytes between two neighbours, as the two ends see it. Nothing here blocks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace lockstep::trainer::comm {

struct IoResult {
  size_t bytes = 0;    // moved; 0 with !ended: nothing now, wait
  bool ended = false;  // the other side closed, or the link broke
  int error = 0;       // errno of a break; 0: closed in order
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Takes a prefix of the pieces, in order.
  virtual IoResult write(std::span<const iovec> pieces) = 0;
  // Becomes writable when there is room; -1: wait for a doorbell instead.
  virtual int poll_fd() const = 0;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Copies what has arrived.
  virtual IoResult read(std::span<std::byte> to) = 0;
  // Shows what has arrived (not always all of it), from the first unconsumed byte; `bytes` is its length. Its address
  // is as aligned as that position in the stream, up to 64 bytes. Valid until the next call. With `ended`, these bytes
  // are the last.
  virtual IoResult peek(std::span<const std::byte>& out) = 0;
  virtual void consume(size_t bytes) = 0;
  virtual int poll_fd() const = 0;
};

}  // namespace lockstep::trainer::comm
