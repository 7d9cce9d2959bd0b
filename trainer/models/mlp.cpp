#include "trainer/models/mlp.h"

#include <cmath>

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph mlp(const MlpOptions& options) {
  core::GraphBuilder build(options.batch);
  auto x = build.real_input("features", {options.batch, options.features});
  auto classes = build.index_input("class", {options.batch});
  std::int64_t features = options.features;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    std::string name = "hidden." + std::to_string(i);
    double deviation = std::sqrt(2.0 / static_cast<double>(features));  // keeps the variance through a ReLU
    x = ops::linear(build, name, x, options.width, false, deviation);   // the norm's shift is its bias
    x = ops::batch_norm(build, name + ".norm", x);
    x = ops::relu(build, name + ".relu", x);
    x = ops::dropout(build, name + ".dropout", x, options.dropout);
    features = options.width;
  }
  auto scores = ops::linear(build, "scores", x, options.classes);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

}  // namespace lockstep::trainer::models
