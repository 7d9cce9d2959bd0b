// GPUs that are not there, as cuDNN's device properties: what the heuristics choose for, and what plans are built for.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/backend/cuda/dnn.h"

namespace lockstep::trainer::testing {

struct DescribedGpu {
  const char* name;
  int compute_capability;  // 900: 9.0
  int multiprocessors;
  int shared_memory;                        // bytes that a block may ask for
  std::int64_t memory, second_level_cache;  // bytes
  int clock, memory_clock;                  // kHz
  int pci_device;
};

// From NVIDIA's public specifications; no such GPU was asked.
inline constexpr std::array<DescribedGpu, 3> kDescribedGpus = {{
    {"A100", 800, 108, 166'912, std::int64_t{80} << 30, std::int64_t{40} << 20, 1'410'000, 1'593'000, 0x20b2},
    {"H100", 900, 132, 232'448, std::int64_t{80} << 30, std::int64_t{50} << 20, 1'980'000, 2'619'000, 0x2330},
    {"H200", 900, 132, 232'448, std::int64_t{141} << 30, std::int64_t{60} << 20, 1'980'000, 3'201'000, 0x2335},
}};

using OwnedDescriptor = std::unique_ptr<cuda::DnnDescriptor, cuda::DnnStatus (*)(cuda::DnnDescriptor*)>;

// A finalized descriptor of the kind kDeviceProperties, for DnnPlace::device. kInternal: cuDNN refuses it.
Result<OwnedDescriptor> describe(const cuda::Dnn& dnn, const DescribedGpu& gpu);

}  // namespace lockstep::trainer::testing
