// Memory planned once: tensors that never live at the same time share bytes of one arena.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::trainer::core {

// Positions of the schedule from `first` to `last`, both included. None if `last` is less.
struct Span {
  int first = 0;
  int last = -1;
};

// A tensor needs `bytes` in one span, or in two. What it holds in the first may be gone in the second.
struct Lifetime {
  size_t bytes = 0;
  Span span;
  Span again = {};
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // of each lifetime, in the order given; multiples of kAlignment
  size_t bytes = 0;             // of the arena
};

// Places large tensors first, each at the lowest offset where nothing that lives with it lies. The same input gives
// the same plan.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace lockstep::trainer::core
