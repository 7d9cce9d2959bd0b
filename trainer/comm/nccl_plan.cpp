#include "trainer/comm/nccl_plan.h"

#include <algorithm>

namespace lockstep::trainer::comm {

NcclPlan::NcclPlan(const AllReduce& operation, std::uint64_t sequence, int, size_t chunk_bytes)
    : header_{OperationKind::kAllReduce, operation.type, operation.reduction, 0, sequence, operation.count},
      form_(form_of(operation.type, operation.reduction)),
      data_(static_cast<std::byte*>(operation.data)),
      per_step_(chunk_bytes / form_.wire_bytes),
      chunks_((operation.count + per_step_ - 1) / per_step_),
      steps_(chunks_) {}

NcclPlan::NcclPlan(const Broadcast& operation, std::uint64_t sequence, int rank, size_t chunk_bytes)
    : header_{OperationKind::kBroadcast, DataType::kUint8, Reduction::kSum, operation.root, sequence, operation.bytes},
      data_(static_cast<std::byte*>(operation.data)),
      per_step_(chunk_bytes),
      chunks_((operation.bytes + per_step_ - 1) / per_step_),
      steps_(chunks_),
      reads_(rank == operation.root),
      writes_(rank != operation.root) {}

// A rank that receives and sends forwards a chunk while the next one arrives, so it has one step more than chunks.
NcclPlan::NcclPlan(const HandOn& operation, std::uint64_t sequence, int, size_t chunk_bytes)
    : header_{OperationKind::kHandOn, DataType::kUint8, Reduction::kSum, 0, sequence, operation.bytes},
      data_(static_cast<std::byte*>(operation.data)),
      per_step_(chunk_bytes),
      chunks_(operation.receives || operation.sends ? (operation.bytes + per_step_ - 1) / per_step_ : 0),
      steps_(chunks_ > 0 && operation.receives && operation.sends ? chunks_ + 1 : chunks_),
      reads_(!operation.receives),
      writes_(operation.receives),
      receives_(operation.receives),
      sends_(operation.sends) {}

NcclPlan::NcclPlan(const DeviceSum& operation, std::uint64_t sequence, int, size_t)
    : header_{OperationKind::kDeviceSum, operation.type, Reduction::kSum, 0, sequence, operation.count},
      form_(form_of(operation.type, Reduction::kSum)),
      data_(static_cast<std::byte*>(operation.data)),
      per_step_(operation.count),
      chunks_(operation.count > 0 ? 1 : 0),
      steps_(chunks_),
      reads_(false),
      writes_(false),
      after_(operation.after) {}

size_t NcclPlan::chunk_of(size_t step) const {
  const size_t first = step * per_step_;
  return first < header_.count ? std::min<size_t>(per_step_, header_.count - first) : 0;
}

NcclStep NcclPlan::begin(std::byte* host) const {
  const size_t elements = chunk_of(next_);
  const size_t bytes = elements * form_.wire_bytes;
  NcclStep step;
  step.kind = header_.kind;
  step.slot = static_cast<int>(next_ % 2);
  step.type = form_.type;
  step.operation = form_.operation;
  step.count = elements * form_.wire_elements;
  step.root = header_.root;
  if (header_.kind == OperationKind::kDeviceSum) {
    step.in_place = data_;
    step.in_place_bytes = bytes;
    step.after = after_;
  }
  if (reads_) step.up = bytes;
  if (writes_) step.down = bytes;
  if (receives_) step.receive = bytes;
  if (sends_ && !receives_) {
    step.send = bytes;
    step.send_slot = step.slot;
  } else if (sends_ && next_ > 0) {
    step.send = chunk_of(next_ - 1);
    step.send_slot = 1 - step.slot;
  }
  if (step.up > 0) to_wire(form_, host, data_ + next_ * per_step_ * form_.element_bytes, elements);
  return step;
}

void NcclPlan::finish(const std::byte* host) {
  const size_t elements = chunk_of(next_);
  if (writes_ && elements > 0) from_wire(form_, data_ + next_ * per_step_ * form_.element_bytes, host, elements);
  ++next_;
}

}  // namespace lockstep::trainer::comm
