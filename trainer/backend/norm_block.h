// A batch norm and the nodes after it that a backend may compute with it as one kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/backend/activation.h"
#include "trainer/backend/node_steps.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::backend {

// y = activation(norm(x) + other).
struct NormBlock {
  core::ops::BatchNorm norm;
  bool adds = false;  // `other` is the second input
  Activation activation = Activation::kNone;
};

// Finds nodes that may be computed with the next one: only the next reads what each writes. The graph outlives it.
class Chains {
 public:
  explicit Chains(const core::Graph& graph);

  // Whether only the node after `i` reads what node `i` writes, and that once.
  bool flows(size_t i) const;
  // Nodes of the longest run from `i`. A run is a batch norm, then the sum with another tensor than the norm's input or
  // none, then ReLU, ReLU6 or none. 0: node `i` is no batch norm.
  size_t norm_block_from(size_t i) const;

 private:
  const core::Graph& graph_;
  std::vector<int> readers_;  // of each tensor
};

// What a run is that begins with a batch norm and was found by Chains.
NormBlock norm_block_of(const core::Graph& graph, const Run& run);

}  // namespace lockstep::trainer::backend
