// One operation under way on one rank: which bytes it sends to the next rank and which it takes from the previous one.
//
// Every algorithm here is a list of pieces to send and a list of pieces to receive, with one rule. A rank may forward a
// byte as soon as it has received (and reduced) it, so
//     sent <= head_start + received.
// That pipelines at the grain of whatever the transport moves, with no barrier between the ring's steps.
//
//   all-reduce, large   2(n-1) segments each way: reduce-scatter, then all-gather
//   all-reduce, small   n-1 blocks each way: every rank gets every rank's block and adds them in order of rank
//   broadcast           a chain from the root round the ring
//   hand-on             the hops of such a chain that are needed
//
// In both all-reduces each element is added up in one fixed order, so the sums are bitwise identical on all ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/stream.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

struct Piece {
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool reduce = false;  // receiving: add to what is there instead of replacing it
};

struct Schedule {
  std::vector<Piece> send;
  std::vector<Piece> receive;
  size_t head_start = 0;  // bytes of `send` that are ready from the start
  size_t send_bytes = 0;
  size_t receive_bytes = 0;
};

// All-reduces of at most this many bytes take the way with half as many hops.
inline constexpr size_t kSmallAllReduceBytes = 8 << 10;
inline constexpr size_t kSmallAllReduceScratch = 128 << 10;  // and of at most this over all ranks
bool takes_small_way(size_t bytes, int size);

Schedule schedule_segments(std::byte* data, size_t count, size_t element_bytes, int rank, int size);
// `blocks` holds one block of `bytes` per rank; this rank's is filled.
Schedule schedule_blocks(std::byte* blocks, size_t bytes, int rank, int size);
Schedule schedule_chain(std::byte* data, size_t bytes, int root, int rank, int size);

Schedule schedule_link(const HandOn& operation);

class Transfer {
 public:
  enum class Problem {
    kNone,
    kSourceEnded,  // the previous rank's stream ended while bytes are needed
    kSinkEnded,    // the next rank's stream ended while bytes are left to send
    kMismatch,     // the previous rank runs another operation: theirs()
    kGarbage,      // its bytes are no operation
  };
  struct Moved {
    size_t bytes = 0;
    Problem problem = Problem::kNone;
    int error = 0;  // errno of an ended stream
  };

  Transfer(const AllReduce& operation, std::uint64_t sequence, int rank, int size);
  Transfer(const Broadcast& operation, std::uint64_t sequence, int rank, int size);
  Transfer(const HandOn& operation, std::uint64_t sequence, int rank, int size);

  // Moves what can be moved without waiting, at most about a megabyte each way. After a problem: no more calls.
  Moved pump(ByteSource& from, ByteSink& to);
  bool done() const { return received_ == receive_total_ && sent_ == send_total_; }
  // After done(): the last local work.
  void finish();

  // Bytes on the wire, headers and all.
  size_t sent() const { return sent_; }
  size_t received() const { return received_; }
  Stage stage() const;

  bool needs_bytes() const { return received_ < receive_total_; }
  bool has_bytes_to_send() const { return sent_ < sendable(); }

  const OperationHeader& header() const { return header_; }
  const OperationHeader& theirs() const { return theirs_; }

 private:
  void start(Schedule schedule);
  size_t sendable() const;
  Moved send(ByteSink& to);
  Moved receive(ByteSource& from);
  bool check_header();

  // On the wire: header, payload, zeros up to a multiple of 8 (so that the next operation's elements are aligned).
  OperationHeader header_;
  OperationHeaderBytes header_bytes_{};
  OperationHeader theirs_;
  OperationHeaderBytes their_bytes_{};
  Schedule schedule_;
  size_t send_total_ = 0;     // bytes on the wire
  size_t receive_total_ = 0;  // bytes on the wire
  size_t sent_ = 0;
  size_t received_ = 0;
  size_t send_piece_ = 0;  // the piece that the next byte is of, and the bytes of it that are done
  size_t send_piece_done_ = 0;
  size_t receive_piece_ = 0;
  size_t receive_piece_done_ = 0;

  AllReduce small_;                     // of the small way: where the result goes
  std::vector<std::uint64_t> scratch_;  // of the small way: the blocks, aligned for every type
  size_t block_bytes_ = 0;              // of the small way: 0 on the others
  int size_ = 1;
};

}  // namespace lockstep::trainer::comm
