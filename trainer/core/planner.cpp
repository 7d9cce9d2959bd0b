#include "trainer/core/planner.h"

#include <algorithm>
#include <numeric>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

namespace {

bool meet(const Span& a, const Span& b) {
  return a.first <= b.last && b.first <= a.last && a.first <= a.last && b.first <= b.last;
}

bool live_together(const Lifetime& a, const Lifetime& b) {
  return meet(a.span, b.span) || meet(a.span, b.again) || meet(a.again, b.span) || meet(a.again, b.again);
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size(), 0);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[a].bytes != lifetimes[b].bytes ? lifetimes[a].bytes > lifetimes[b].bytes : a < b;
  });
  std::vector<size_t> ends(lifetimes.size(), 0);  // offset plus padded bytes
  std::vector<size_t> placed;                     // indices by offset
  placed.reserve(lifetimes.size());
  for (size_t index : order) {
    const Lifetime& want = lifetimes[index];
    size_t bytes = align_up(want.bytes, kAlignment);
    size_t offset = 0;
    for (size_t other : placed) {
      if (!live_together(lifetimes[other], want)) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, ends[other]);
    }
    plan.offsets[index] = offset;
    ends[index] = offset + bytes;
    plan.bytes = std::max(plan.bytes, ends[index]);
    placed.push_back(index);
    std::sort(placed.begin(), placed.end(), [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
  }
  return plan;
}

}  // namespace lockstep::trainer::core
