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

// The number of classes whose score in row `row` of `scores`, (rows, width) of type `real`, is larger than that of
// class `correct`. The sample is among the top k if the number is below k. A score that is not a number counts as
// larger.
std::int64_t place_of(const void* scores, ElementType real, size_t row, size_t width, size_t correct);

}  // namespace lockstep::trainer::core
