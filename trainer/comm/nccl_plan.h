// One operation cut into steps for NCCL. Where the caller's memory is the host's, and NCCL's is the GPU's, every step
// has three parts. It copies a chunk up from a pinned buffer of the host, has NCCL work on a buffer of the GPU, and
// copies that back. A sum of GPU memory is a single step, in place. Pure: says which step is next, and which of the
// caller's data belongs to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/comm/communicator.h"
#include "trainer/comm/device_reducer.h"
#include "trainer/comm/nccl_form.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

struct NcclStep {
  OperationKind kind = OperationKind::kAllReduce;
  size_t up = 0;    // bytes that go from the host's buffer into the GPU's buffer `slot` before
  size_t down = 0;  // bytes that come from there into the host's buffer after
  int slot = 0;     // 0 or 1

  void* in_place = nullptr;          // of a sum of GPU memory: the caller's memory, which takes the place of `slot`
  cuda::CudaEvent* after = nullptr;  // and the event that it waits for
  size_t in_place_bytes = 0;

  NcclType type = NcclType::kUint8;  // of an all-reduce or a sum, in place in `slot` or at `in_place`
  NcclOperation operation = NcclOperation::kSum;
  size_t count = 0;  // of an all-reduce or a sum: elements of `type`; of a broadcast: bytes, in place in `slot`
  int root = 0;      // of a broadcast

  size_t receive = 0;  // of a hand-on: bytes from the previous rank, into `slot`
  size_t send = 0;     // and bytes to the next rank, from `send_slot`, at the same time
  int send_slot = 0;
};

// All ranks cut the same operation in the same way if their chunks are equal.
class NcclPlan {
 public:
  NcclPlan(const AllReduce& operation, std::uint64_t sequence, int rank, size_t chunk_bytes);
  NcclPlan(const Broadcast& operation, std::uint64_t sequence, int rank, size_t chunk_bytes);
  NcclPlan(const HandOn& operation, std::uint64_t sequence, int rank, size_t chunk_bytes);
  NcclPlan(const DeviceSum& operation, std::uint64_t sequence, int rank, size_t chunk_bytes);

  bool done() const { return next_ == steps_; }
  // Before done(): the next step, with its bytes for the GPU written into `host`, which has chunk_bytes.
  NcclStep begin(std::byte* host) const;
  // Stores the result of the step that was begun; call it only after that step succeeded. Nothing else writes to the
  // caller's data.
  void finish(const std::byte* host);

  // What neighbours exchange before the first step, so that ranks with different operations fail.
  const OperationHeader& header() const { return header_; }
  bool receives() const { return receives_; }  // of a hand-on
  bool sends() const { return sends_; }

 private:
  size_t chunk_of(size_t step) const;  // its elements

  OperationHeader header_;
  NcclForm form_;
  std::byte* data_ = nullptr;
  size_t per_step_ = 1;  // elements
  size_t chunks_ = 0;
  size_t steps_ = 0;
  size_t next_ = 0;
  bool reads_ = true;   // the caller's data goes up
  bool writes_ = true;  // and is replaced by what comes down
  bool receives_ = false;
  bool sends_ = false;
  cuda::CudaEvent* after_ = nullptr;  // of a sum of GPU memory, which is at data_
};

}  // namespace lockstep::trainer::comm
