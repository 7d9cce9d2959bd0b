// The communicator over NCCL. NCCL moves elements between GPUs; this class does all that NCCL does not. Each rank keeps
// the small control links to its two neighbours that the ring has (links.h). Over them a peer proves that it is of this
// job, generation and key, and the ranks distribute the id with which NCCL connects them. They also say which rank
// died, aborted or left, which NCCL does not.
//
// Where the caller's memory is the host's, elements pass through buffers of this rank, chunk by chunk. No GPU writes
// into memory of the caller: a library that hangs keeps only these buffers. Sums of GPU memory (device_reducer.h) are
// in place. A library that hangs keeps that memory too, so abort() returns true only when no kernel of NCCL is left on
// the GPU.
//
// Guarantees
//   * All that comm::Communicator promises, NaN in a maximum and bit-or too (nccl_form.h).
//   * Each generation has an id of its own, which rank 0 creates and no other generation ever uses.
//   * An operation is done only when its kernels have ended and NCCL reports no error. Kernels that an error ended
//     early leave garbage, and never count as done.
//   * Each rank compares an operation with that of the previous rank before NCCL sees it. NCCL itself would hang or mix
//     up the two.
//   * No caller waits for NCCL or CUDA beyond a deadline: a thread of the communicator calls them, and may hang.
// Suspects are as in ring_communicator.h: a neighbour whose control link ended without a frame that says why.
//
// A call into a library cannot be ended from outside, nor can its thread. If the end of a communicator hangs (abort()
// has returned false), its destructor hands it, thread included, to a list of this process. The list joins the thread
// if the library returns after all. The communicator then refers to no memory of others, except that of a sum in place.
#pragma once

#include <memory>

#include "trainer/comm/communicator.h"
#include "trainer/comm/device_reducer.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

class NcclRank;

class NcclCommunicator final : public Communicator, public DeviceReducer {
 public:
  // As RingCommunicator::create, and with the same errors; options.nccl is given. Returns when all ranks are connected
  // over NCCL as well; `init_deadline` is for both together. Besides: kConflict (the ranks have different releases of
  // NCCL or different chunks) and kExhausted (memory of the GPU). kInternal: the library hangs or the GPU cannot be
  // used, and this process must be restarted. Blocks the calling thread.
  static Result<std::unique_ptr<NcclCommunicator>> create(RingOptions options, int* suspect = nullptr);

  // Leaves in order if nothing is in flight, otherwise aborts. Joins the thread; one that hangs for kMostToEnd goes to
  // the list above.
  ~NcclCommunicator() override;
  static constexpr auto kMostToEnd = std::chrono::seconds(5);

  int rank() const override;
  int size() const override;
  Result<Ticket> submit(const AllReduce& operation) override;
  Result<Ticket> submit(const Broadcast& operation) override;
  Result<Ticket> submit(const HandOn& operation) override;
  Status wait(Ticket ticket) override;
  // True when NCCL has ended too. False: it hangs, and so does a thread of this process.
  bool abort(Duration deadline) override;
  int suspect() const override;
  std::string_view carrier() const override { return "NCCL"; }
  DeviceReducer* device_reducer() override { return this; }
  bool reaches(int gpu) const override;  // of its own alone
  Result<Ticket> sum(const DeviceSum& operation) override;
  Activity activity() const override;

  // How many destroyed communicators of this process still hang. Joins those whose library has returned. Any thread.
  static size_t hanging();

 private:
  explicit NcclCommunicator(std::unique_ptr<NcclRank> rank);
  std::unique_ptr<NcclRank> rank_;
};

}  // namespace lockstep::trainer::comm
