// From addresses to links: connects a rank with its two neighbours and agrees with each on shared memory or TCP.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "operator/base/unique_fd.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/comm/shared_memory.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

// The control link with one neighbour.
struct ControlLink {
  int peer = -1;
  UniqueFd fd;
  FrameReader reader;
  std::string out;     // bytes that the socket would not take yet
  bool left = false;   // the peer said bye
  bool ended = false;  // nothing more comes

  // Appends and tries to send. False: the link is broken.
  bool send(FrameType type, std::string_view payload = {});
  bool flush();
  // Reads what is there; sets `ended` at the end of the stream or a break. Then take frames from `reader`.
  void receive();
  // Ends the link after the last frame was sent. Unread bytes of the peer do not keep that frame from arriving.
  void close();
};

struct Links {
  ControlLink previous;
  ControlLink next;
  UniqueFd data_previous;  // closed where shared memory carries the bytes
  UniqueFd data_next;
  std::unique_ptr<Segment> own;
  std::unique_ptr<Segment> previous_segment;  // where the edge is shared memory; may be the same rank as next
  std::unique_ptr<Segment> next_segment;
};

// Sends ABORT to both neighbours but `except`, and waits at most 0.1 s for a connection whose buffer is full.
void tell_neighbours(Links& links, const AbortCause& cause, const ControlLink* except);

// kInvalid, kDeadlineExceeded or kExhausted as RingCommunicator::create says. Takes options.listen_fd.
Result<Links> make_links(const RingOptions& options, int* suspect);

}  // namespace lockstep::trainer::comm
