#include "trainer/preflight.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <system_error>

namespace lockstep::trainer {

namespace {

// Of a segment in /dev/shm for one direction between two ranks: NCCL's default buffers of three protocols. Each rank
// has about four: a ring and a tree, over two channels.
constexpr std::uint64_t kNcclSegment = 9637888;
constexpr std::uint64_t kSegmentsOfRank = 4;

// RDMA needs all buffers locked; this is less than those of one peer.
constexpr std::uint64_t kLittleLockable = std::uint64_t{64} << 20;

}  // namespace

Machine this_machine(const std::string& shared_memory, const std::string& infiniband) {
  Machine machine;
  struct statvfs room {};
  if (::statvfs(shared_memory.c_str(), &room) == 0) machine.shared_memory = room.f_bavail * room.f_frsize;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) machine.lockable = limit.rlim_cur;
  std::error_code error;
  const std::filesystem::directory_iterator devices(infiniband, error);
  machine.infiniband = !error && devices != std::filesystem::directory_iterator();
  return machine;
}

std::vector<std::string> doubts_about_nccl(const Machine& machine, int local_ranks) {
  std::vector<std::string> doubts;
  const std::uint64_t segments = kNcclSegment * kSegmentsOfRank * static_cast<std::uint64_t>(local_ranks);
  if (local_ranks > 1 && machine.shared_memory < segments) {
    doubts.push_back(
        fmt::format("/dev/shm has {} MiB free, and NCCL takes about {} MiB for {} ranks of one pod whose "
                    "GPUs do not reach each other directly; raise spec.shmSize",
                    machine.shared_memory >> 20, segments >> 20, local_ranks));
  }
  if (machine.infiniband && machine.lockable < kLittleLockable) {
    doubts.push_back(
        fmt::format("RLIMIT_MEMLOCK is {} KiB, and NCCL locks its buffers for this machine's InfiniBand; "
                    "raise the limit of the container runtime",
                    machine.lockable >> 10));
  }
  return doubts;
}

std::string gpu_uuid(const cuda::CudaRuntime& runtime, int gpu) {
  cuda::CudaDeviceProperties properties{};
  if (runtime.get_device_properties(&properties, gpu) != cuda::CudaError::kSuccess) return "";
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof properties.uuid; ++i) {
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", properties.uuid[i]);
  }
  return text;
}

}  // namespace lockstep::trainer
