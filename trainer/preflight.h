// What a rank says of its machine before it trains. None of it ends the process, because only NVIDIA's libraries know
// what they take.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trainer/cuda/runtime.h"

namespace lockstep::trainer {

struct Machine {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t shared_memory = kUnlimited;  // bytes that are free in /dev/shm
  std::uint64_t lockable = kUnlimited;       // bytes that the process may lock (RLIMIT_MEMLOCK)
  bool infiniband = false;                   // it has devices for RDMA
};

// What cannot be found out counts as unlimited, or as not there. Tests give folders of their own.
Machine this_machine(const std::string& shared_memory = "/dev/shm",
                     const std::string& infiniband = "/sys/class/infiniband");

// What may keep NCCL from connecting `local_ranks` ranks of one pod with each other and with others; a sentence each.
std::vector<std::string> doubts_about_nccl(const Machine& machine, int local_ranks);

// What a person finds a GPU by: "GPU-1b2c...", as nvidia-smi names it. Empty: it does not say.
std::string gpu_uuid(const cuda::CudaRuntime& runtime, int gpu);

}  // namespace lockstep::trainer
