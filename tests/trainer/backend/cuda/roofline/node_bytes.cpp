#include "tests/trainer/backend/cuda/roofline/node_bytes.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace lockstep::trainer::testing {

namespace ops = core::ops;

NodeBytes::NodeBytes(const core::Graph& graph, const core::Node& node, backend::Precision precision,
                     std::vector<bool> adds)
    : graph_(graph),
      node_(node),
      rounds_(precision == backend::Precision::kBfloat16),
      element_(rounds_ ? 2 : 4),
      adds_(std::move(adds)) {
  const backend::Dimensions d = backend::dimensions_of(graph, node);
  needs_ = std::visit([&](const auto& op) { return backend::cuda::needs_of(op, d); }, node.op);
  const auto* const convolution = std::get_if<ops::Conv2d>(&node.op);
  of_dnn_ = convolution != nullptr && backend::cuda::needs_dnn(*convolution, d);
}

double NodeBytes::elements(core::TensorId tensor) const {
  return static_cast<double>(core::count_of(graph_.tensor(tensor).shape));
}

double NodeBytes::x(size_t input) const {
  const core::TensorId id = node_.inputs[input];
  return elements(id) * (is_float(id) && !copies_input(input) ? 4 : element_);
}

double NodeBytes::y() const {
  return elements(node_.output) * (is_float(node_.output) && !copies_output() ? 4 : element_);
}

double NodeBytes::dy() const {
  return core::is_loss(node_.op) ? 0 : elements(node_.output) * element_;
}

double NodeBytes::dx(size_t input) const {
  return wants(input) ? elements(node_.inputs[input]) * element_ * (adds_[input] ? 2 : 1) : 0;
}

double NodeBytes::weight(size_t index) const {
  if (index >= node_.parameters.size()) return 0;
  return elements(node_.parameters[index]) * (copies_weight(index) ? element_ : 4);
}

double NodeBytes::weights() const {
  double bytes = 0;
  for (size_t i = 0; i < node_.parameters.size(); ++i) bytes += weight(i);
  return bytes;
}

double NodeBytes::dweight(size_t index) const {
  if (index >= node_.parameters.size()) return 0;
  return (overwrites(index) ? 1 : 2) * 4 * elements(node_.parameters[index]);
}

bool NodeBytes::overwrites(size_t index) const {
  if (std::find(needs_.overwrites.begin(), needs_.overwrites.end(), index) == needs_.overwrites.end()) return false;
  std::ptrdiff_t uses = 0;
  for (const core::Node& node : graph_.nodes) {
    for (const auto* list : {&node.parameters, &node.inputs}) {
      uses += std::count(list->begin(), list->end(), node_.parameters[index]);
    }
  }
  return uses == 1 && graph_.tensor(node_.output).has_gradient;
}

double NodeBytes::dweights() const {
  double bytes = 0;
  for (size_t i = 0; i < node_.parameters.size(); ++i) bytes += dweight(i);
  return bytes;
}

double NodeBytes::kept() const {
  double floats = 0;
  for (const size_t block : needs_.keeps) floats += static_cast<double>(block);
  return 4 * floats;
}

double NodeBytes::copied_forward() const {
  double copied = copies_output() ? elements(node_.output) : 0;
  for (size_t i = 0; i < node_.inputs.size(); ++i) copied += copies_input(i) ? elements(node_.inputs[i]) : 0;
  for (size_t i = 0; i < node_.parameters.size(); ++i) copied += copies_weight(i) ? elements(node_.parameters[i]) : 0;
  return copied;
}

double NodeBytes::copied_backward() const {
  return rounds_ && of_dnn_ ? elements(node_.parameters[0]) : 0;
}

// As copies_of() of trainer/backend/cuda/copies.cpp has it.
bool NodeBytes::copies_weight(size_t index) const {
  if (!rounds_) return false;
  if (std::holds_alternative<ops::Linear>(node_.op)) return index == 0 || !is_float(node_.output);
  return of_dnn_ && index == 0;
}

bool NodeBytes::copies_input(size_t input) const {
  const core::TensorId id = node_.inputs[input];
  if (!rounds_ || !is_float(id) || graph_.tensor(id).number == core::Number::kIndex) return false;
  return !std::holds_alternative<ops::SoftmaxCrossEntropy>(node_.op) &&
         !(std::holds_alternative<ops::MeanSquaredError>(node_.op) && input == 1);
}

bool NodeBytes::copies_output() const {
  return rounds_ && is_float(node_.output) && !core::is_loss(node_.op) &&
         !std::holds_alternative<ops::Linear>(node_.op);
}

}  // namespace lockstep::trainer::testing
