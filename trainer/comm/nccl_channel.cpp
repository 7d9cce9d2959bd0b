#include "trainer/comm/nccl_channel.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace lockstep::trainer::comm {
namespace {

constexpr auto kBetweenLooksAtTheEnd = std::chrono::milliseconds(1);  // NCCL signals no event, so it is polled

}  // namespace

Status NcclChannel::check(NcclResult result, const char* what) {
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return {};
  const char* detail = setup_.api.last_error(nullptr);
  const std::string more = detail != nullptr && *detail != '\0' ? fmt::format(" ({})", detail) : "";
  // An argument that NCCL refuses is a bug of this program; all else may be caused by a peer or the network.
  const ErrorCode code = result == NcclResult::kInvalidArgument ? ErrorCode::kInternal : ErrorCode::kUnavailable;
  return fail(code, fmt::format("{}: NCCL says '{}'{}", what, setup_.api.error_string(result), more));
}

Status NcclChannel::check(cuda::CudaError error, const char* what) {
  if (error == cuda::CudaError::kSuccess) return {};
  const ErrorCode code = error == cuda::CudaError::kMemoryAllocation ? ErrorCode::kExhausted : ErrorCode::kInternal;
  return fail(
      code, fmt::format("{} on GPU {}: CUDA says '{}'", what, setup_.device, setup_.api.cuda.get_error_string(error)));
}

Status NcclChannel::set_up() {
  const NcclApi& api = setup_.api;
  LOCKSTEP_CHECK_OK(check(api.cuda.set_device(setup_.device), "taking it"));
  LOCKSTEP_CHECK_OK(
      check(api.cuda.stream_create_with_flags(&stream_, cuda::kCudaStreamNonBlocking), "making a stream"));
  LOCKSTEP_CHECK_OK(check(api.cuda.event_create_with_flags(&event_, cuda::kCudaEventDisableTiming), "making an event"));
  void* memory = nullptr;
  LOCKSTEP_CHECK_OK(check(api.cuda.malloc_host(&memory, setup_.chunk_bytes), "taking pinned memory"));
  host_ = static_cast<std::byte*>(memory);
  for (std::byte*& buffer : device_) {
    LOCKSTEP_CHECK_OK(check(api.cuda.malloc(&memory, setup_.chunk_bytes), "taking memory"));
    buffer = static_cast<std::byte*>(memory);
  }
  return {};
}

Result<NcclUniqueId> NcclChannel::fresh_id() {
  NcclUniqueId id{};
  LOCKSTEP_CHECK_OK(check(setup_.api.get_unique_id(&id), "making an id"));
  return id;
}

Status NcclChannel::begin_init(const NcclUniqueId& id) {
  NcclConfig config;
  config.blocking = 0;
  return check(setup_.api.comm_init_rank_config(&comm_, size_, id, rank_, &config), "linking the ranks");
}

Result<bool> NcclChannel::settled() {
  NcclResult state = NcclResult::kSuccess;
  LOCKSTEP_CHECK_OK(check(setup_.api.comm_get_async_error(comm_, &state), "asking how it is"));
  LOCKSTEP_CHECK_OK(check(state, "between the ranks"));
  return state != NcclResult::kInProgress;
}

Status NcclChannel::await(cuda::CudaEvent* event) {
  return check(setup_.api.cuda.stream_wait_event(stream_, event, 0), "waiting for its work");
}

Result<bool> NcclChannel::happened(cuda::CudaEvent* event) {
  const cuda::CudaError error = setup_.api.cuda.event_query(event);
  if (error != cuda::CudaError::kNotReady) LOCKSTEP_CHECK_OK(check(error, "waiting for its work"));
  return error == cuda::CudaError::kSuccess;
}

Status NcclChannel::launch(const NcclStep& step) {
  const NcclApi& api = setup_.api;
  void* const buffer = step.in_place != nullptr ? step.in_place : device_[step.slot];
  if (step.up > 0) {
    LOCKSTEP_CHECK_OK(
        check(api.cuda.memcpy_async(buffer, host_, step.up, cuda::CudaCopy::kHostToDevice, stream_), "copying to it"));
  }
  switch (step.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kDeviceSum:
      return check(api.all_reduce(buffer, buffer, step.count, step.type, step.operation, comm_, stream_), "all-reduce");
    case OperationKind::kBroadcast:
      return check(api.broadcast(buffer, buffer, step.count, NcclType::kUint8, step.root, comm_, stream_), "broadcast");
    case OperationKind::kHandOn:
      break;
  }
  // In one group, so that a chunk is sent to the next rank while the following one arrives.
  LOCKSTEP_CHECK_OK(check(api.group_start(), "hand-on"));
  const int previous = (rank_ + size_ - 1) % size_;
  const int next = (rank_ + 1) % size_;
  Status status;
  if (step.receive > 0) {
    status = check(api.receive(buffer, step.receive, NcclType::kUint8, previous, comm_, stream_), "hand-on");
  }
  if (status.ok() && step.send > 0) {
    status = check(api.send(device_[step.send_slot], step.send, NcclType::kUint8, next, comm_, stream_), "hand-on");
  }
  const Status grouped = check(api.group_end(), "hand-on");  // a group that was begun is always ended
  return status.ok() ? grouped : status;
}

Status NcclChannel::bring_down(const NcclStep& step) {
  const NcclApi& api = setup_.api;
  if (step.down > 0) {
    LOCKSTEP_CHECK_OK(
        check(api.cuda.memcpy_async(host_, device_[step.slot], step.down, cuda::CudaCopy::kDeviceToHost, stream_),
              "copying from it"));
  }
  return check(api.cuda.event_record(event_, stream_), "marking the end of a step");
}

Result<bool> NcclChannel::done() {
  const cuda::CudaError error = setup_.api.cuda.event_query(event_);
  if (error != cuda::CudaError::kNotReady) LOCKSTEP_CHECK_OK(check(error, "a step"));
  LOCKSTEP_TRY(const bool settled_now, settled());
  return settled_now && error == cuda::CudaError::kSuccess;
}

void NcclChannel::end_communicator(bool clean, Duration grace) {
  const NcclApi& api = setup_.api;
  if (clean) {
    const auto until = std::chrono::steady_clock::now() + grace;
    NcclResult state = api.comm_finalize(comm_);
    while (state == NcclResult::kSuccess || state == NcclResult::kInProgress) {
      const NcclResult asked = api.comm_get_async_error(comm_, &state);
      if (asked != NcclResult::kSuccess) state = asked;
      if (state != NcclResult::kInProgress || std::chrono::steady_clock::now() >= until) break;
      std::this_thread::sleep_for(kBetweenLooksAtTheEnd);
    }
    clean = state == NcclResult::kSuccess;
  }
  // Errors of these calls have no remedy.
  static_cast<void>(clean ? api.comm_destroy(comm_) : api.comm_abort(comm_));
  comm_ = nullptr;
}

// A kernel that waits for an event of the caller begins only when that has happened. Aborted, it ends at once, but may
// still write. CUDA's only wait for a stream cannot be ended, so the thread looks again and again; its owner has the
// deadline.
void NcclChannel::drain() {
  while (setup_.api.cuda.stream_query(stream_) == cuda::CudaError::kNotReady) {
    std::this_thread::sleep_for(kBetweenLooksAtTheEnd);
  }
}

void NcclChannel::end(bool clean, Duration grace) {
  const NcclApi& api = setup_.api;
  if (comm_ != nullptr) end_communicator(clean, grace);
  if (stream_ != nullptr) {
    drain();
    static_cast<void>(api.cuda.stream_destroy(stream_));
  }
  if (event_ != nullptr) static_cast<void>(api.cuda.event_destroy(event_));
  for (std::byte* buffer : device_) {
    if (buffer != nullptr) static_cast<void>(api.cuda.free(buffer));
  }
  if (host_ != nullptr) static_cast<void>(api.cuda.free_host(host_));
}

}  // namespace lockstep::trainer::comm
