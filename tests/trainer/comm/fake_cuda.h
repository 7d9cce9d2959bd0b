// Part of the fake (fake_nccl.h): streams and memory, as far as its NCCL needs them.
#pragma once

#include <cstddef>
#include <functional>

#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer::comm::fake {

// Puts work into a stream; false: there is no such stream.
bool put(CudaStream* stream, std::function<void()> work);
// Whether all these bytes are memory of one allocation on the device.
bool on_device(const void* memory, size_t bytes);
void count_misuse(const char* what);
// Returns once fake_nccl_release() was called after the last call that had to hang.
void hang();

}  // namespace lockstep::trainer::comm::fake
