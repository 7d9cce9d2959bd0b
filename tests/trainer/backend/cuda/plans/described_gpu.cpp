#include "tests/trainer/backend/cuda/plans/described_gpu.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::trainer::testing {

namespace {

// The names are cuDNN's; each of them is required. Numbers that all three GPUs share are written out.
std::string json_of(const DescribedGpu& gpu) {
  return fmt::format(
      R"({{"deviceName": "NVIDIA {}", "deviceVer": {}, "driverVer": 13020, "cudaDeviceId": 0, "pciDeviceId": {}, )"
      R"("isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": {}, "warpSize": 32, )"
      R"("maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, )"
      R"("maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536, )"
      R"("maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, )"
      R"("totalGlobalMem": {}, "l2CacheSize": {}, "smClockRateKHz": {}, "memClockRateKHz": {}}})",
      gpu.name, gpu.compute_capability, gpu.pci_device, gpu.multiprocessors, gpu.shared_memory, gpu.memory,
      gpu.second_level_cache, gpu.clock, gpu.memory_clock);
}

}  // namespace

Result<OwnedDescriptor> describe(const cuda::Dnn& dnn, const DescribedGpu& gpu) {
  using cuda::DnnStatus;
  cuda::DnnDescriptor* created = nullptr;
  DnnStatus status = dnn.create_descriptor(cuda::DnnKind::kDeviceProperties, &created);
  OwnedDescriptor described(created, dnn.destroy_descriptor);
  const std::string json = json_of(gpu);
  if (status == DnnStatus::kSuccess) {
    status = dnn.set(created, cuda::DnnAttribute::kDeviceJson, cuda::DnnType::kChar,
                     static_cast<std::int64_t>(json.size() + 1), json.c_str());
  }
  if (status == DnnStatus::kSuccess) status = dnn.finalize(created);
  if (status == DnnStatus::kSuccess) return described;
  std::array<char, 512> why{};
  dnn.last_error(why.data(), why.size());
  return fail(ErrorCode::kInternal, fmt::format("cuDNN does not take the description of {}: {} ({})", gpu.name,
                                                dnn.status_string(status), why.data()));
}

}  // namespace lockstep::trainer::testing
