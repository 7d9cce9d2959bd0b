// Bytes of the tensors of one layer as its kernel on the backend `cuda` sees them.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

class NodeBytes {
 public:
  // `adds`: by input, whether its gradient is added to what is there. The others outlive this.
  NodeBytes(const core::Graph& graph, const core::Node& node, backend::Precision precision, std::vector<bool> adds);

  double x(size_t input = 0) const;       // values of an input
  double y() const;                       // values of the output
  double dy() const;                      // its gradient
  double dx(size_t input = 0) const;      // the gradient of an input, written or added to; 0: it has none
  double weight(size_t index = 0) const;  // 0: there is none
  double weights() const;                 // all of them
  // Writing the float32 gradient of a weight, or of all of them. It is added to unless overwrites().
  double dweight(size_t index = 0) const;
  double dweights() const;
  double kept() const;  // from the forward for the backward pass
  double forward_scratch() const { return 4.0 * static_cast<double>(needs_.forward_scratch); }
  double backward_scratch() const { return 4.0 * static_cast<double>(needs_.backward_scratch); }

  // Elements between float32 and bfloat16: an input, weights and outputs in the forward pass; gradients after the
  // backward pass.
  double copied_forward() const;
  double copied_backward() const;

  // Whether the node overwrites the gradient of a parameter in a step of one micro-batch, as core has it.
  bool overwrites(size_t index) const;

  double elements(core::TensorId tensor) const;
  bool wants(size_t input) const { return graph_.tensor(node_.inputs[input]).has_gradient; }
  bool rounds() const { return rounds_; }
  bool of_dnn() const { return of_dnn_; }

 private:
  bool copies_weight(size_t index) const;
  bool copies_input(size_t input) const;
  bool copies_output() const;
  bool is_float(core::TensorId tensor) const { return backend::cuda::is_float(graph_, tensor); }

  const core::Graph& graph_;
  const core::Node& node_;
  const bool rounds_;
  const double element_;  // bytes of an activation's
  const std::vector<bool> adds_;
  bool of_dnn_ = false;
  backend::Needs needs_;
};

}  // namespace lockstep::trainer::testing
