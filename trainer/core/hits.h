// How often a classifier is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/core/graph.h"

namespace lockstep::trainer::core {

// The tensors of a graph that classifies samples.
struct Classification {
  TensorId scores = -1;   // (B, V)
  TensorId classes = -1;  // (B), indices below V
};

// Of the first loss that is a softmax cross-entropy with one row for each sample and whose scores are an output. Empty:
// there is none.
std::optional<Classification> classification_of(const Graph& graph);

// Classes whose score is larger than that of `correct`: the sample is among the top k if it is below k. What is not a
// number counts as larger.
std::int64_t place_of(const double* scores, size_t classes, size_t correct);

}  // namespace lockstep::trainer::core
