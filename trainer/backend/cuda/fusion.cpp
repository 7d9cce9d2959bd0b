#include "trainer/backend/cuda/fusion.h"

#include <algorithm>

#include "trainer/backend/cuda/kernel.h"

namespace lockstep::trainer::backend::cuda {

namespace {

// Whether memory has float32 of a tensor that a node of the run reads or that its last node writes.
bool needs_copies(const core::Graph& graph, const Run& run) {
  const auto is_wide = [&](core::TensorId id) { return is_float(graph, id); };
  for (size_t i = run.first; i < run.first + run.count; ++i) {
    const core::Node& node = graph.nodes[i];
    if (std::ranges::any_of(node.inputs, is_wide) || is_wide(node.output)) return true;
  }
  return false;
}

}  // namespace

std::vector<Run> runs_of(const core::Graph& graph, bool rounds) {
  const Chains chains(graph);
  std::vector<Run> runs;
  for (size_t i = 0; i < graph.nodes.size(); i += runs.back().count) {
    Run run{.first = i, .count = std::max<size_t>(1, chains.norm_block_from(i))};
    if (rounds && needs_copies(graph, run)) run.count = 1;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace lockstep::trainer::backend::cuda
