// The communicator over NCCL: elements travel between GPUs as NCCL moves them, and everything that NCCL does not do is
// done beside it. Each rank keeps the small control links with its two neighbours that the ring has (links.h): whoever
// is linked has proved that it is of this job, generation and key, over these links the ranks get the id with which
// NCCL links them, and they tell who died, who aborted and who left, of which NCCL says nothing.
//
// The caller's memory is the host's. Elements pass through buffers of this rank's, one chunk after the other, so no GPU
// ever writes into memory of the caller: a library that hangs keeps only what is its own.
//
// Guarantees
//   * All that comm::Communicator promises, NaN in a maximum and bit-or too (nccl_form.h).
//   * Each generation has an id of its own, which rank 0 makes and no second one ever uses.
//   * An operation counts as done only when its work is done and NCCL knows of no error. Kernels that ended early
//     because something broke left garbage, and are never taken for done.
//   * Before NCCL is told of an operation it is compared with that of the rank before, since NCCL itself would hang or
//     mix up the two.
//   * Nobody waits for NCCL or CUDA beyond a deadline: a thread of the communicator's own calls them, and may hang.
// Suspects are as in ring_communicator.h: a neighbour whose control link ended without a word.
//
// A call into a library cannot be ended from outside, nor the thread that is in it. A communicator whose end hangs
// (abort() has returned false) is therefore kept when it is destroyed, thread and all, by a list of this process, and
// is joined from there should the library return after all. Nothing of it refers to memory of others.
#pragma once

#include <memory>

#include "trainer/comm/communicator.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

class NcclRank;

class NcclCommunicator final : public Communicator {
 public:
  // As RingCommunicator::create, and with the same errors; options.nccl is given. Returns when all ranks are linked
  // over NCCL as well; `init_deadline` is for both together. Besides: kConflict (the ranks have other releases of NCCL
  // or other chunks), kExhausted (memory of the GPU) and kInternal (the library hangs or the GPU cannot be used: this
  // process must be restarted). Blocks the calling thread.
  static Result<std::unique_ptr<NcclCommunicator>> create(RingOptions options, int* suspect = nullptr);

  // Leaves in order when nothing is in flight, else aborts. Joins the thread; one that hangs for kMostToEnd is kept as
  // said above.
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
  Activity activity() const override;

  // How many communicators of this process were destroyed and hang still. Joins those that do not any more. Any thread.
  static size_t hanging();

 private:
  explicit NcclCommunicator(std::unique_ptr<NcclRank> rank);
  std::unique_ptr<NcclRank> rank_;
};

}  // namespace lockstep::trainer::comm
