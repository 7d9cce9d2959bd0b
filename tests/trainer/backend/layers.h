// One small graph for each layer, with something learnt on every path, so that each gradient can be checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

struct LayerCase {
  std::string name;
  std::function<core::Graph()> graph;
  std::int32_t classes = 1;
};

inline void PrintTo(const LayerCase& layer, std::ostream* out) {
  *out << layer.name;
}

// `rows` and `features` of the layer's input; it is a parameter, so that its gradient is visible. `used_twice`: another
// path leads from it to the loss, so that gradients add up.
inline std::vector<LayerCase> layer_cases(std::int64_t rows, std::int64_t features, bool used_twice = true) {
  using core::Fill;
  using core::GraphBuilder;
  using core::TensorId;
  auto over = [=](std::string name, std::function<TensorId(GraphBuilder&, TensorId)> layer) {
    return LayerCase{std::move(name), [=] {
                       GraphBuilder build(rows);
                       TensorId x = build.parameter("x", {rows, features}, Fill::kNormal, 0.7);
                       TensorId y = layer(build, x);
                       TensorId sum = build.linear("head", y, 3);
                       if (used_twice) sum = build.add("sum", sum, build.linear("skip", x, 3, false));
                       TensorId target = build.real_input("target", {rows, 3});
                       return build.finish(sum, build.mean_squared_error("loss", sum, target));
                     }};
  };
  std::vector<LayerCase> cases;
  cases.push_back(over("linear", [](GraphBuilder& b, TensorId x) { return b.linear("layer", x, 5); }));
  cases.push_back(
      over("linear_without_bias", [](GraphBuilder& b, TensorId x) { return b.linear("layer", x, 5, false); }));
  cases.push_back(over("relu", [](GraphBuilder& b, TensorId x) { return b.relu("layer", x); }));
  cases.push_back(over("gelu", [](GraphBuilder& b, TensorId x) { return b.gelu("layer", x); }));
  cases.push_back(over("add_to_itself", [](GraphBuilder& b, TensorId x) { return b.add("layer", x, x); }));
  cases.push_back(over("layer_norm", [](GraphBuilder& b, TensorId x) { return b.layer_norm("layer", x); }));
  cases.push_back(over("batch_norm", [](GraphBuilder& b, TensorId x) { return b.batch_norm("layer", x); }));
  cases.push_back(over("dropout", [](GraphBuilder& b, TensorId x) { return b.dropout("layer", x, 0.3); }));
  cases.push_back({"attention", [=] {
                     GraphBuilder build(2);
                     std::int64_t positions = rows, width = 2 * features;
                     TensorId x = build.parameter("x", {2 * positions, 3 * width}, Fill::kNormal, 0.7);
                     TensorId y = build.causal_attention("layer", x, 2);
                     if (used_twice) y = build.add("sum", y, build.linear("skip", x, width));
                     TensorId target = build.real_input("target", {2 * positions, width});
                     return build.finish(y, build.mean_squared_error("loss", y, target));
                   }});
  cases.push_back({"embedding",
                   [=] {
                     GraphBuilder build(2);
                     TensorId indices = build.index_input("indices", {2, rows});
                     TensorId y = build.embedding("layer", indices, 7, rows, features);
                     TensorId target = build.real_input("target", {2 * rows, features});
                     return build.finish(y, build.mean_squared_error("loss", y, target));
                   },
                   7});
  cases.push_back({"softmax_cross_entropy",
                   [=] {
                     GraphBuilder build(2);
                     TensorId x = build.parameter("x", {2 * rows, features}, Fill::kNormal, 2.0);
                     TensorId classes = build.index_input("classes", {2, rows});
                     TensorId y = build.linear("layer", x, 11);
                     return build.finish(y, build.softmax_cross_entropy("loss", y, classes));
                   },
                   11});
  cases.push_back({"losses_of_parameters",
                   [=] {
                     GraphBuilder build(2);
                     TensorId x = build.parameter("x", {2 * rows, features}, Fill::kNormal, 1.0);
                     TensorId classes = build.index_input("classes", {2, rows});
                     return build.finish(x, build.softmax_cross_entropy("loss", x, classes));
                   },
                   static_cast<std::int32_t>(features)});
  return cases;
}

}  // namespace lockstep::trainer::testing
