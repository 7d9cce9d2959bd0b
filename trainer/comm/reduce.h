// The arithmetic of an all-reduce on one machine.
#pragma once

#include <cstddef>

#include "trainer/comm/communicator.h"

namespace lockstep::trainer::comm {

// into[i] = from[i] (op) into[i] for `count` elements; both aligned to their type, not overlapping. Integers wrap
// round. kMax of floats: NaN wins. kBitOr is for integers (the caller has checked).
void reduce(std::byte* into, const std::byte* from, size_t count, DataType type, Reduction reduction);

}  // namespace lockstep::trainer::comm
