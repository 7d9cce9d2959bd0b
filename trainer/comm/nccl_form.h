// How an all-reduce is put to NCCL so that its result is what comm::Communicator promises. NCCL's types and operations
// differ from ours in two places:
//   * NCCL has no bit-or. Every bit travels as a byte of 0 or 1, and the maximum of those is the bit-or. That is eight
//     times the bytes, but right for any number of ranks, and only words of flags are or-ed.
//   * NCCL's maximum of floats leaves NaN out, and ours lets NaN win. Floats travel as integers in the same order, with
//     NaN above all others. That also makes the result independent of the order in which NCCL compares.
// Sums travel as they are; those of int64 travel as unsigned numbers, whose sums wrap to the same 64-bit pattern.
#pragma once

#include <cstddef>

#include "trainer/comm/communicator.h"
#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer::comm {

struct NcclForm {
  enum class Change { kNone, kOrdered32, kOrdered64, kBits };
  Change change = Change::kNone;
  NcclType type = NcclType::kUint8;
  NcclOperation operation = NcclOperation::kSum;
  size_t element_bytes = 1;  // of ours, in memory
  size_t wire_elements = 1;  // of NCCL's, for one of ours
  size_t wire_bytes = 1;     // of those together
};

// The operation is one that validate() lets pass.
NcclForm form_of(DataType type, Reduction reduction);

// `count` elements of ours; the buffers do not overlap and are aligned for their types.
void to_wire(const NcclForm& form, std::byte* wire, const std::byte* data, size_t count);
void from_wire(const NcclForm& form, std::byte* data, const std::byte* wire, size_t count);

}  // namespace lockstep::trainer::comm
