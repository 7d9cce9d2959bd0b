// One small graph for each layer, with something learnt on every path, so that each gradient can be checked.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

struct LayerCase {
  std::string name;
  std::function<core::Graph()> graph;
  std::int32_t classes = 1;
};

inline std::string case_name(const ::testing::TestParamInfo<LayerCase>& info) {
  return info.param.name;
}

inline void PrintTo(const LayerCase& layer, std::ostream* out) {
  *out << layer.name;
}

// Two samples and two heads, each of `features`; `used_twice`: as for layer_cases().
inline LayerCase attention_case(std::string name, std::int64_t positions, std::int64_t features, bool used_twice) {
  return {std::move(name), [=] {
            core::GraphBuilder build(2);
            const std::int64_t width = 2 * features;
            core::TensorId x = build.parameter("x", {2 * positions, 3 * width}, core::Fill::kNormal, 0.7);
            core::TensorId y = core::ops::causal_attention(build, "layer", x, 2);
            if (used_twice) y = core::ops::add(build, "sum", y, core::ops::linear(build, "skip", x, width));
            core::TensorId target = build.real_input("target", {2 * positions, width});
            return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
          }};
}

// Numbers of positions around the 64 that the cpu backend multiplies at once.
inline std::vector<LayerCase> attention_cases(bool used_twice = true) {
  std::vector<LayerCase> cases;
  for (const std::int64_t positions : {1, 63, 64, 65, 128, 150}) {
    cases.push_back(attention_case("positions_" + std::to_string(positions), positions, 8, used_twice));
  }
  return cases;
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
                       TensorId sum = core::ops::linear(build, "head", y, 3);
                       if (used_twice)
                         sum = core::ops::add(build, "sum", sum, core::ops::linear(build, "skip", x, 3, false));
                       TensorId target = build.real_input("target", {rows, 3});
                       return build.finish(sum, core::ops::mean_squared_error(build, "loss", sum, target));
                     }};
  };
  std::vector<LayerCase> cases;
  cases.push_back(over("linear", [](GraphBuilder& b, TensorId x) { return core::ops::linear(b, "layer", x, 5); }));
  cases.push_back(over("linear_without_bias",
                       [](GraphBuilder& b, TensorId x) { return core::ops::linear(b, "layer", x, 5, false); }));
  cases.push_back(over("relu", [](GraphBuilder& b, TensorId x) { return core::ops::relu(b, "layer", x); }));
  cases.push_back(over("gelu", [](GraphBuilder& b, TensorId x) { return core::ops::gelu(b, "layer", x); }));
  cases.push_back(over("add_to_itself", [](GraphBuilder& b, TensorId x) { return core::ops::add(b, "layer", x, x); }));
  cases.push_back(over("layer_norm", [](GraphBuilder& b, TensorId x) { return core::ops::layer_norm(b, "layer", x); }));
  cases.push_back(over("batch_norm", [](GraphBuilder& b, TensorId x) { return core::ops::batch_norm(b, "layer", x); }));
  cases.push_back(over("dropout", [](GraphBuilder& b, TensorId x) { return core::ops::dropout(b, "layer", x, 0.3); }));
  cases.push_back(attention_case("attention", rows, features, used_twice));
  cases.push_back({"embedding",
                   [=] {
                     GraphBuilder build(2);
                     TensorId indices = build.index_input("indices", {2, rows});
                     TensorId y = core::ops::embedding(build, "layer", indices, 7, rows, features);
                     TensorId target = build.real_input("target", {2 * rows, features});
                     return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
                   },
                   7});
  for (const double smoothing : {0.0, 0.1}) {
    cases.push_back({smoothing == 0 ? "softmax_cross_entropy" : "label_smoothing",
                     [=] {
                       GraphBuilder build(2);
                       TensorId x = build.parameter("x", {2 * rows, features}, Fill::kNormal, 2.0);
                       TensorId classes = build.index_input("classes", {2, rows});
                       TensorId y = core::ops::linear(build, "layer", x, 11);
                       return build.finish(y, core::ops::softmax_cross_entropy(build, "loss", y, classes, smoothing));
                     },
                     11});
  }
  cases.push_back({"losses_of_parameters",
                   [=] {
                     GraphBuilder build(2);
                     TensorId x = build.parameter("x", {2 * rows, features}, Fill::kNormal, 1.0);
                     TensorId classes = build.index_input("classes", {2, rows});
                     return build.finish(x, core::ops::softmax_cross_entropy(build, "loss", x, classes));
                   },
                   static_cast<std::int32_t>(features)});
  cases.push_back({"two_losses",
                   [=] {
                     GraphBuilder build(rows);
                     TensorId x = build.parameter("x", {rows, features}, Fill::kNormal, 0.7);
                     TensorId y = core::ops::linear(build, "layer", x, 4);
                     TensorId z = core::ops::linear(build, "other", core::ops::gelu(build, "gelu", y), 3);
                     TensorId classes = build.index_input("classes", {rows});
                     TensorId target = build.real_input("target", {rows, 3});
                     TensorId a = core::ops::softmax_cross_entropy(build, "a", y, classes);
                     TensorId b = core::ops::mean_squared_error(build, "b", z, target);
                     return build.finish({{"y", y}, {"z", z}}, {{a, 0.3}, {b, 1.75}});
                   },
                   4});
  cases.push_back({"tied_embedding",
                   [=] {
                     GraphBuilder build(2);
                     TensorId indices = build.index_input("indices", {2, rows});
                     TensorId classes = build.index_input("classes", {2, rows});
                     TensorId y = core::ops::embedding(build, "layer", indices, 7, rows, features);
                     y = core::ops::linear(build, "between", y, features);
                     y = core::ops::linear(build, "scores", y, 7, false, 0.02, "layer.table");
                     return build.finish(y, core::ops::softmax_cross_entropy(build, "loss", y, classes));
                   },
                   7});
  return cases;
}

}  // namespace lockstep::trainer::testing
