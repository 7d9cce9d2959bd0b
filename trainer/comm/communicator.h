// Collectives between the ranks of one generation, as an asynchronous seam: submit() hands an operation to the
// communicator's own thread and returns a ticket; wait() gives its result. Every rank submits the same operations in
// the same order. Each is checked against its peers' by sequence number, kind, type and count, so a skipped or
// different one fails at once. The result of an all-reduce is bitwise identical on all ranks.
//
// After an error or abort() the communicator is dead: every later submit and wait fails. Buffers of an aborted
// operation hold garbage, which the caller must not apply.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/comm/activity.h"

namespace lockstep::trainer::comm {

class DeviceReducer;

enum class DataType : std::uint8_t { kFloat32, kFloat64, kInt64, kUint8 };

size_t size_of(DataType type);  // bytes of one element

enum class Reduction : std::uint8_t { kSum, kMax, kBitOr };  // kBitOr: integers only

struct AllReduce {
  void* data = nullptr;  // in and out, `count` elements, owned by the caller until wait() has returned
  size_t count = 0;
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
};

struct Broadcast {
  void* data = nullptr;  // in at `root`, out elsewhere; owned by the caller until wait() has returned
  size_t bytes = 0;
  int root = 0;
};

// Passes bytes along the ring, only where they are needed. A rank that receives gets those of the previous rank, and a
// rank that sends gives its own to the next rank. One that does both forwards what it receives. Neighbours agree (the
// rank after a sender receives), and at least one rank does not receive.
struct HandOn {
  void* data = nullptr;  // out where it receives, else in; owned by the caller until wait() has returned
  size_t bytes = 0;
  bool receives = false;
  bool sends = false;
};

// Names a submitted operation; valid for one wait().
struct Ticket {
  std::uint64_t sequence = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Queues the operation and returns at once. One submitting thread.
  virtual Result<Ticket> submit(const AllReduce& operation) = 0;
  virtual Result<Ticket> submit(const Broadcast& operation) = 0;
  virtual Result<Ticket> submit(const HandOn& operation) = 0;

  // Returns when the operation is done on this rank, or with an error. Errors are kUnavailable (a peer went away: Error
  // names it), kDeadlineExceeded (no byte moved for the communicator's deadline) and kCancelled (aborted). Any thread.
  virtual Status wait(Ticket ticket) = 0;

  // Ends everything in flight within `deadline` and tells the peers, so that they do not suspect this rank. Any thread,
  // any number of times. True: clean; false: this process must be restarted.
  virtual bool abort(Duration deadline) = 0;

  // The rank whose link broke first as seen from here, -1 when none did.
  virtual int suspect() const = 0;

  // What carries the bytes to the next rank, for people; empty: there is no next rank. Any thread.
  virtual std::string_view carrier() const { return ""; }

  // Sums memory of GPUs in place (device_reducer.h); belongs to the communicator. Null: it moves memory of the host
  // alone.
  virtual DeviceReducer* device_reducer() { return nullptr; }

  // Its progress, and the rank that it waits for. Any thread, at any time; does not block.
  virtual Activity activity() const = 0;
};

}  // namespace lockstep::trainer::comm
