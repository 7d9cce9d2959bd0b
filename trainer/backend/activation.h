// What a kernel does to each of its results, where an activation is a part of it.
#pragma once

#include <cstdint>

namespace lockstep::trainer::backend {

enum class Activation : std::uint8_t { kNone, kRelu, kRelu6 };

}  // namespace lockstep::trainer::backend
