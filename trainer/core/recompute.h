// Memory for time: values of cheap steps that nothing holds between their last use in the forward pass and the first in
// the backward pass. Their steps run again in between, and what they write is bitwise identical.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/core/backend.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::core {

enum class Recompute : std::uint8_t {
  kNothing,
  kNorms,  // those that Step::cheap names (norms, sums, ReLUs), as many as make the arena smallest
  kAll,    // as many as there are, whatever the arena (to check the steps)
};

// Which steps run again.
struct Recomputation {
  // By step: those that Executable::recompute() runs before the step's backward pass, in this order.
  std::vector<std::vector<size_t>> before;
  size_t steps = 0;  // in all
};

// Drops the values of cheap steps that have a backward pass, where they are no outputs or losses of the graph. A value
// stays if it would need another one to stay in its place. It also stays if `depth` steps before it, each of which
// reads the value of the one before, are dropped. So a block that adds to its input does not need all blocks before it
// again at once.
Recomputation plan_recomputation(const Graph& graph, const Lowered& lowered, int depth);

}  // namespace lockstep::trainer::core
