// What one rank holds of NCCL and of its GPU. It has a communicator that does not block, a stream, an event and the
// buffers that every step passes through. Never waits for the GPU: each call starts or queries something, and the owner
// calls again. One thread. Any call may still hang in the library, which the owner has to expect.
//
// The buffers are allocated once, because cudaMalloc and cudaFree wait for the GPU, which may itself wait for a dead
// rank. The host's buffer is pinned, because a copy from or to other memory waits for the stream.
#pragma once

#include <cstddef>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/comm/nccl_api.h"
#include "trainer/comm/nccl_plan.h"

namespace lockstep::trainer::comm {

class NcclChannel {
 public:
  NcclChannel(const NcclSetup& setup, int rank, int size) : setup_(setup), rank_(rank), size_(size) {}
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  // Takes the GPU for this thread, and a stream, an event and the buffers from it. kExhausted: no memory.
  Status set_up();
  // An id that no communicator has had.
  Result<NcclUniqueId> fresh_id();
  // Begins to connect this rank with the others that have the id. settled() says when that is done.
  Status begin_init(const NcclUniqueId& id);
  // Whether NCCL has completed its last call. kUnavailable: the communicator is dead.
  Result<bool> settled();

  std::byte* host() { return host_; }
  // Has what is launched from here on wait for the event, on the GPU.
  Status await(cuda::CudaEvent* event);
  // Whether the GPU has done all work that the event was last recorded behind. Does not wait.
  Result<bool> happened(cuda::CudaEvent* event);
  // The step's copy up and NCCL's part. Before the copy down settled() has to be true. NCCL may put its kernel into the
  // stream after its call returns, and a copy put there earlier would run before the kernel.
  Status launch(const NcclStep& step);
  Status bring_down(const NcclStep& step);
  // Whether the step has succeeded. The event alone proves nothing: NCCL's kernels also end when the communicator is
  // aborted or broken, and leave garbage. So this asks the communicator after the event.
  Result<bool> done();

  // Ends the communicator, waits until no kernel of NCCL is left on the GPU, and releases what set_up() allocated. It
  // is the last call. `clean`: nothing is in flight and nothing failed, so peers have up to `grace` to receive what was
  // sent to them. Without `clean` the communicator is aborted. After any failure only an abort is right: the other ways
  // to end a communicator wait for its peers.
  void end(bool clean, Duration grace);

 private:
  void end_communicator(bool clean, Duration grace);
  void drain();
  Status check(NcclResult result, const char* what);
  Status check(cuda::CudaError error, const char* what);

  const NcclSetup setup_;
  const int rank_;
  const int size_;
  NcclComm* comm_ = nullptr;
  CudaStream* stream_ = nullptr;
  cuda::CudaEvent* event_ = nullptr;
  std::byte* host_ = nullptr;                  // chunk_bytes, pinned
  std::byte* device_[2] = {nullptr, nullptr};  // chunk_bytes each
};

}  // namespace lockstep::trainer::comm
