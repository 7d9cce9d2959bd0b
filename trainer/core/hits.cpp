#include "trainer/core/hits.h"

#include <algorithm>

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

std::int64_t place_of(const double* scores, size_t classes, size_t correct) {
  std::int64_t larger = 0;
  for (size_t i = 0; i < classes; ++i) {
    const bool behind = scores[i] <= scores[correct];
    if (i != correct && !behind) ++larger;
  }
  return scores[correct] == scores[correct] ? larger : static_cast<std::int64_t>(classes);
}

}  // namespace lockstep::trainer::core
