#include "trainer/torch_form.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

namespace lockstep::trainer {

namespace {

namespace ops = core::ops;
using checkpoint::StoredForm;

// What PyTorch calls the parts of a layer.
std::string part_name(const std::string& part) {
  static const std::map<std::string_view, std::string> names = {
      {"gain", "weight"}, {"shift", "bias"}, {"running_variance", "running_var"}};
  const auto known = names.find(part);
  return known == names.end() ? part : known->second;
}

// A weight whose rows read images of shape (H, W, C), as an array of rows that read (C, H, W).
StoredForm channels_first(std::int64_t rows, const core::Shape& image) {
  return {.view = {rows, image[0], image[1], image[2]},
          .axes = {0, 3, 1, 2},
          .shape = {rows, image[2], image[0], image[1]}};
}

// The image that `node` reads as a row; empty: it reads none.
core::Shape flattened_image(const core::Graph& graph, const core::Node& node) {
  for (const core::Node& before : graph.nodes) {
    if (before.output != node.inputs[0] || !std::holds_alternative<ops::Flatten>(before.op)) continue;
    const core::Shape& in = graph.tensor(before.inputs[0]).shape;
    if (in.size() == 4) return {in[1], in[2], in[3]};
  }
  return {};
}

// The order of a node's first parameter, its weight.
StoredForm order_of(const core::Graph& graph, const core::Node& node) {
  const core::Shape& weight = graph.tensor(node.parameters[0]).shape;
  if (std::holds_alternative<ops::Conv2d>(node.op)) {
    return channels_first(weight[0], {weight[1], weight[2], weight[3]});
  }
  if (!std::holds_alternative<ops::Linear>(node.op)) return {};
  const core::Shape image = flattened_image(graph, node);
  if (image.empty()) return {};
  StoredForm form = channels_first(weight[0], image);
  form.shape = weight;
  return form;
}

}  // namespace

StoredForms torch_forms(const core::Graph& graph, const std::function<std::string(const std::string&)>& layer_name) {
  StoredForms forms;
  for (const core::Node& node : graph.nodes) {
    const std::string layer = layer_name ? layer_name(node.name) : node.name;
    const auto add = [&](core::TensorId id, StoredForm form) {
      const std::string& name = graph.tensor(id).name;
      if (name.starts_with(node.name + ".")) {  // else it is shared, and has a name of its own
        form.name = layer + "." + part_name(name.substr(node.name.size() + 1));
      }
      forms.emplace(name, std::move(form));
    };
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      add(node.parameters[i], i == 0 ? order_of(graph, node) : StoredForm());
    }
    for (const core::TensorId id : node.statistics) add(id, {});
  }
  return forms;
}

}  // namespace lockstep::trainer
