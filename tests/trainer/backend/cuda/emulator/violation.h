// The end of a process whose kernel broke a rule.
#pragma once

#include <string>

namespace lockstep::trainer::cuda::emulator {

// Writes "emulated kernel, block B, thread T: `sentence`" to stderr and aborts. Outside of a kernel it names neither.
[[noreturn]] void violation(const std::string& sentence);

}  // namespace lockstep::trainer::cuda::emulator
