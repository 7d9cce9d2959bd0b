#include "trainer/comm/validate.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

namespace {

// Of an all-reduce, whatever memory it is of.
Status validate_elements(const void* data, size_t count, DataType type) {
  if (count > 0 && data == nullptr) return fail(ErrorCode::kInvalid, "all-reduce of a null buffer");
  if (static_cast<unsigned>(type) > 3) return fail(ErrorCode::kInvalid, "all-reduce of an unknown type");
  if (count > (std::numeric_limits<size_t>::max() >> 1) / size_of(type)) {
    return fail(ErrorCode::kInvalid, fmt::format("all-reduce of {} elements is more than memory can hold", count));
  }
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(type) != 0) {
    return fail(ErrorCode::kInvalid,
                fmt::format("all-reduce of {} in a buffer that is not aligned for it", name_of(type)));
  }
  return {};
}

}  // namespace

Status validate(const DeviceSum& operation, int) {
  LOCKSTEP_CHECK_OK(validate_elements(operation.data, operation.count, operation.type));
  if (operation.after == nullptr) return fail(ErrorCode::kInvalid, "all-reduce of GPU memory without an event");
  return {};
}

Status validate(const AllReduce& operation, int) {
  LOCKSTEP_CHECK_OK(validate_elements(operation.data, operation.count, operation.type));
  if (static_cast<unsigned>(operation.reduction) > 2) {
    return fail(ErrorCode::kInvalid, "all-reduce with an unknown reduction");
  }
  const bool floating = operation.type == DataType::kFloat32 || operation.type == DataType::kFloat64;
  if (operation.reduction == Reduction::kBitOr && floating) {
    return fail(ErrorCode::kInvalid,
                fmt::format("bit-or of {}: only integers have bits to or", name_of(operation.type)));
  }
  return {};
}

Status validate(const Broadcast& operation, int size) {
  if (operation.bytes > 0 && operation.data == nullptr) return fail(ErrorCode::kInvalid, "broadcast of a null buffer");
  if (operation.root < 0 || operation.root >= size) {
    return fail(ErrorCode::kInvalid, fmt::format("broadcast from rank {} among {} ranks", operation.root, size));
  }
  return {};
}

Status validate(const HandOn& operation, int size) {
  if (operation.bytes > 0 && operation.data == nullptr) return fail(ErrorCode::kInvalid, "hand-on of a null buffer");
  if (size == 1 && (operation.receives || operation.sends)) {
    return fail(ErrorCode::kInvalid, "hand-on in a world of one rank");
  }
  return {};
}

Status validate(const RingOptions& options) {
  const auto bad = [](std::string text) { return fail(ErrorCode::kInvalid, std::move(text)); };
  if (options.size < 2) return bad(fmt::format("a ring has at least 2 ranks, not {}", options.size));
  if (options.rank < 0 || options.rank >= options.size) {
    return bad(fmt::format("rank {} is not below the size {}", options.rank, options.size));
  }
  const auto size = static_cast<size_t>(options.size);
  if (options.peers.size() != size) {
    return bad(fmt::format("{} peer addresses for {} ranks", options.peers.size(), options.size));
  }
  if (!options.members.empty() && options.members.size() != size) {
    return bad(fmt::format("{} member numbers for {} ranks", options.members.size(), options.size));
  }
  if (options.listen_fd < 0) return bad("no listening socket for the links of other ranks");
  return {};
}

}  // namespace lockstep::trainer::comm
