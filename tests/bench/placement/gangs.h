// The gangs of a simulation: drawn at random, or read from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "tests/bench/placement/world.h"

namespace lockstep::bench {

struct Gang {
  double arrival = 0, seconds = 0;  // when it is submitted, and for how long it trains
  int pods = 1, gpus = 8;           // of each pod
  std::optional<int> required = {}, preferred = {};
};

// What gangs ask of the topology.
enum class Mode {
  kPreferred,  // to be in one rack, as near as can be
  kRequired,   // one rack where they fit into one, else one block where they fit into one
};

struct Mix {
  int gangs = 12'000;
  double tail = 1;     // of the sizes
  double load = 0.95;  // all work, as a share of what the site can do until the last arrival
  Mode mode = Mode::kPreferred;
};

// Gangs of whole nodes. Sizes are 2^k, k = 0 .. 8, with probability ∝ 2^(-tail · k); three of ten are uniform between
// 2^(k-1) and 2^k instead. With a tail of 1, each doubling of the size has the same share of the work. None is larger
// than half of the site. Times are lognormal (median 30 min, σ 1.4), arrivals Poisson.
std::vector<Gang> draw_gangs(const Site& site, const Mix& mix, std::uint64_t seed);

// The jobs of a trace of gavel: tab-separated lines of model, command, two flags, steps, arrival (s) and GPUs. Up to
// `site.gpus` GPUs are one pod, more are pods of whole nodes. A job takes its steps, as a multiple of the median of its
// model, times 30 min. Arrivals are scaled as above. kInvalid, with the line, where it cannot be read.
Result<std::vector<Gang>> read_trace(const std::string& path, const Site& site, double load, Mode mode);

}  // namespace lockstep::bench
