#include "trainer/core/hits.h"

#include <algorithm>
#include <cmath>

namespace lockstep::trainer::core {

std::optional<Classification> classification_of(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<ops::SoftmaxCrossEntropy>(node.op)) continue;
    const Classification found{node.inputs[0], node.inputs[1]};
    const bool kept = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                  [&](const NamedOutput& output) { return output.tensor == found.scores; });
    const bool by_sample = graph.tensor(found.scores).shape[0] == graph.batch;
    const bool given = graph.tensor(found.classes).role == Role::kInput;
    if (kept && by_sample && given) return found;
  }
  return std::nullopt;
}

std::int64_t place_of(const void* scores, ElementType real, size_t row, size_t width, size_t correct) {
  const auto score = [&](size_t i) { return real_at(scores, real, row * width + i); };
  const double own = score(correct);
  if (std::isnan(own)) return static_cast<std::int64_t>(width);
  std::int64_t larger = 0;
  for (size_t i = 0; i < width; ++i) {
    const bool behind = score(i) <= own;
    if (!behind) ++larger;
  }
  return larger;
}

}  // namespace lockstep::trainer::core
