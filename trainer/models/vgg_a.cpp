#include "trainer/models/vgg_a.h"

#include <string>

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph vgg_a(const VggAOptions& o) {
  core::GraphBuilder build(o.batch);
  core::TensorId x = build.real_input("image", {o.batch, o.pixels, o.pixels, 3});
  const core::TensorId classes = build.index_input("class", {o.batch});
  constexpr std::int64_t kPool = 0;
  int number = 0;
  for (std::int64_t outputs :
       {std::int64_t{64}, kPool, std::int64_t{128}, kPool, std::int64_t{256}, std::int64_t{256}, kPool,
        std::int64_t{512}, std::int64_t{512}, kPool, std::int64_t{512}, std::int64_t{512}, kPool}) {
    const std::string name = "features." + std::to_string(number++);
    if (outputs == kPool) {
      x = ops::max_pool2d(build, name, x);
      continue;
    }
    x = ops::conv2d(build, name, x, outputs, {.kernel = 3, .padding = 1, .bias = true});
    x = ops::relu(build, "features." + std::to_string(number++), x);
  }
  x = ops::flatten(build, "flatten", x);
  for (int layer : {0, 3}) {
    x = ops::linear(build, "classifier." + std::to_string(layer), x, 4096, true, 0.01);
    x = ops::relu(build, "classifier." + std::to_string(layer + 1), x);
    x = ops::dropout(build, "classifier." + std::to_string(layer + 2), x, o.dropout);
  }
  const core::TensorId scores = ops::linear(build, "classifier.6", x, o.classes, true, 0.01);
  return build.finish({{"scores", scores}},
                      {{ops::softmax_cross_entropy(build, "loss", scores, classes, o.smoothing)}});
}

}  // namespace lockstep::trainer::models
