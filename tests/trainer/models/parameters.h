// Counts the elements of all parameters of a graph.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

inline size_t parameters_of(const core::Graph& graph) {
  size_t count = 0;
  for (core::TensorId id : graph.with_role(core::Role::kParameter)) {
    count += static_cast<size_t>(core::count_of(graph.tensor(id).shape));
  }
  return count;
}

}  // namespace lockstep::trainer::models
