#include "trainer/models/vgg_a.h"

#include <fmt/format.h>

#include <string>

#include "trainer/models/images.h"

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

namespace {

Status halves_five_times(const Settings& settings) {
  const std::int64_t pixels = settings.whole("image-size");
  if (pixels % 32 == 0) return {};
  return fail(ErrorCode::kInvalid, fmt::format("--image-size={} is not a multiple of 32", pixels));
}

}  // namespace

// The paper's recipe, with a cosine instead of steps by hand.
Model vgg_a_model() {
  std::vector<Option> options = photograph_options(0);
  options.push_back(dropout(0.5));
  return {.name = "vgg-a",
          .help = "tells photographs apart with many parameters",
          .data = Model::Data::kImages,
          .options = std::move(options),
          .recipes = {{.optimizer = "sgd", .learning_rate = 0.01, .weight_decay = 5e-4, .batch_size = 256}},
          .check = halves_five_times,
          .open = open_photographs,
          .graph = [](const Settings& settings, const Dataset&, std::int64_t batch) {
            return vgg_a({.batch = batch,
                          .pixels = settings.whole("image-size"),
                          .classes = settings.whole("classes"),
                          .dropout = settings.real("dropout"),
                          .smoothing = settings.real("label-smoothing")});
          }};
}

}  // namespace lockstep::trainer::models
