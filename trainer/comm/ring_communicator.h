// The communicator of the CPU: a ring of ranks, each linked to its two neighbours. Bytes travel one way round, over
// shared memory between ranks of one machine and over TCP elsewhere; each edge also has a small TCP control link both
// ways for aborts, orderly leaving and wake-ups. One thread per communicator moves everything.
//
// Guarantees
//   * The result of an all-reduce is bitwise identical on all ranks, whatever mix of transports carries it.
//   * Connects only to peers that hold the generation's key and name the same job, generation and ring. Any other
//     connection is closed, and costs one descriptor for at most `handshake_deadline`.
//   * A rank that dies, leaves, or submits another operation than its neighbour makes every rank fail. That takes
//     milliseconds if the kernel reports it, otherwise at most `stall_deadline`.
//   * Only a neighbour whose link ended without BYE or ABORT is a suspect().
// Caveat: at least one neighbour of a dead rank suspects it. The others may first receive an abort, whose message names
// the rank, and then suspect none themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer::comm {

using GenerationKey = std::array<std::byte, 32>;

struct RingOptions {
  int rank = 0;
  int size = 1;
  std::vector<std::string> peers;  // numeric "ip:port" or "[ip6]:port" by rank: where each rank listens
  int listen_fd = -1;  // bound and listening TCP socket of this rank; the communicator takes it and closes it
  std::string job_uid;
  std::int64_t generation = 0;
  GenerationKey key{};       // the MAC key of this generation's links
  std::vector<int> members;  // by rank: ranks with equal numbers share a pod, and so memory; empty: no ranks do
  std::uint64_t memory = 0;  // memory_id(shared_memory_dir): ranks with equal ones share memory too; 0: with none
  Duration init_deadline = std::chrono::seconds(20);      // for all links to be connected
  Duration handshake_deadline = std::chrono::seconds(2);  // for one accepted connection to prove itself
  Duration stall_deadline =
      std::chrono::seconds(30);                  // an operation in flight with no byte moved for so long has failed
  size_t shared_memory_bytes = size_t{1} << 20;  // ring buffer of one shared-memory edge; rounded up to a power of two
  std::string shared_memory_dir = "/dev/shm";
  int cancel_fd = -1;  // readable: linking ends with kCancelled; stays the caller's. -1: cannot be cancelled
  std::shared_ptr<const NcclSetup> nccl;  // make_communicator: elements travel over NCCL; nothing: over a ring
};

// How the bytes to a neighbour travel.
enum class Transport { kTcp, kSharedMemory };

class RingCommunicator final : public Communicator {
 public:
  // Connects this rank with its neighbours. Returns when both links are up, or with an error. Errors are kInvalid (the
  // options contradict each other), kDeadlineExceeded (names the missing neighbour and the reason, if known);
  // kUnavailable (a neighbour went away meanwhile), kCancelled (options.cancel_fd) or kExhausted (descriptors, memory).
  // `suspect`, if given, is set to the missing neighbour's rank, else to -1. options.size is at least 2. All ranks of
  // the generation call this at about the same time. Blocks the calling thread.
  static Result<std::unique_ptr<RingCommunicator>> create(RingOptions options, int* suspect = nullptr);

  // Tells the neighbours: BYE if nothing is in flight, otherwise an abort. Joins the thread.
  ~RingCommunicator() override;

  int rank() const override;
  int size() const override;
  Result<Ticket> submit(const AllReduce& operation) override;
  Result<Ticket> submit(const Broadcast& operation) override;
  Result<Ticket> submit(const HandOn& operation) override;
  Status wait(Ticket ticket) override;
  bool abort(Duration deadline) override;
  int suspect() const override;
  std::string_view carrier() const override;
  Activity activity() const override;

  // How bytes reach the next rank, rank() + 1. Any thread.
  Transport transport_to_next() const;

 private:
  class Impl;
  explicit RingCommunicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A communicator for the options: SingleRankCommunicator if size is 1 (listen_fd is closed), else one over NCCL if
// options.nccl is given, else a ring.
Result<std::unique_ptr<Communicator>> make_communicator(RingOptions options, int* suspect = nullptr);

// N ranks of one ring inside this process, over real sockets of the loopback interface, in rank order; for tests and
// measurements. `shared` puts all ranks into one member, so that edges use shared memory. `base` gives deadlines, and
// NCCL if elements travel over it: rank i then has GPU i.
Result<std::vector<std::unique_ptr<Communicator>>> make_in_process_ring(int n, bool shared = false,
                                                                        const RingOptions& base = {});

}  // namespace lockstep::trainer::comm
