// The least time that a GPU can take: for each piece of work the longer of its arithmetic and its memory traffic.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::trainer::testing {

struct Gpu {
  const char* name;
  double tensor_flops;  // per second, dense bfloat16 on tensor cores
  double float_flops;   // per second, float32 without tensor cores
  double bandwidth;     // bytes of its memory per second
};

// NVIDIA's public specifications of the SXM modules; the A100 with 80 GB.
inline constexpr std::array<Gpu, 3> kGpus = {{
    {"A100", 312e12, 19.5e12, 2.039e12},
    {"H100", 989e12, 67e12, 3.35e12},
    {"H200", 989e12, 67e12, 4.8e12},
}};

enum class Pass : std::uint8_t { kForward, kInputGradient, kWeightGradient, kUpdate };

// What is computed between two synchronisations with memory: a kernel, or a few in a row.
struct Work {
  std::string layer;
  std::string kind;  // of the layer
  Pass pass = Pass::kForward;
  double flops = 0;
  double bytes = 0;           // read and written
  bool tensor_cores = false;  // they do the arithmetic
};

double seconds_of(const Work& work, const Gpu& gpu);

struct Bound {
  double seconds = 0;
  double memory_seconds = 0;            // in work that takes longer to move than to compute
  std::map<std::string, double> kinds;  // the seconds of each kind of layer
};

// One piece of work after the other.
Bound bound_of(const std::vector<Work>& works, const Gpu& gpu);

}  // namespace lockstep::trainer::testing
