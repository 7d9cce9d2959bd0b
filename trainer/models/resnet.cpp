#include "trainer/models/resnet.h"

#include <utility>

#include "trainer/models/images.h"

namespace lockstep::trainer::models {

namespace {

namespace ops = core::ops;
using core::GraphBuilder;
using core::TensorId;

// A convolution without bias and its norm; `at`: the prefix of both names, `number` their number in it.
TensorId conv_norm(GraphBuilder& build, const std::string& at, int number, TensorId x, std::int64_t outputs,
                   ops::Conv2d op) {
  x = ops::conv2d(build, at + "conv" + std::to_string(number), x, outputs, op);
  return ops::batch_norm(build, at + "bn" + std::to_string(number), x);
}

// The sum of what a block computes and its input, which is projected where the shapes differ.
TensorId residual(GraphBuilder& build, const std::string& at, TensorId x, TensorId y, std::int64_t stride) {
  const std::int64_t outputs = build.shape(y).back();
  if (build.shape(x) != build.shape(y)) {
    x = ops::conv2d(build, at + "downsample.0", x, outputs, {.stride = stride});
    x = ops::batch_norm(build, at + "downsample.1", x);
  }
  return ops::relu(build, at + "relu", ops::add(build, at + "sum", y, x));
}

TensorId basic_block(GraphBuilder& build, const std::string& at, TensorId x, std::int64_t width, std::int64_t stride) {
  TensorId y = conv_norm(build, at, 1, x, width, {.kernel = 3, .stride = stride, .padding = 1});
  y = conv_norm(build, at, 2, ops::relu(build, at + "relu1", y), width, {.kernel = 3, .padding = 1});
  return residual(build, at, x, y, stride);
}

TensorId bottleneck(GraphBuilder& build, const std::string& at, TensorId x, std::int64_t width, std::int64_t stride) {
  TensorId y = conv_norm(build, at, 1, x, width, {});
  y = conv_norm(build, at, 2, ops::relu(build, at + "relu1", y), width, {.kernel = 3, .stride = stride, .padding = 1});
  y = conv_norm(build, at, 3, ops::relu(build, at + "relu2", y), 4 * width, {});
  return residual(build, at, x, y, stride);
}

template <typename Block>
core::Graph resnet(const ResNetOptions& o, const Block& block, const std::int64_t (&blocks)[4]) {
  GraphBuilder build(o.batch);
  TensorId x = build.real_input("image", {o.batch, o.pixels, o.pixels, 3});
  const TensorId classes = build.index_input("class", {o.batch});
  const bool small = o.stem == ResNetOptions::Stem::kCifar;
  x = conv_norm(build, "", 1, x, o.width,
                small ? ops::Conv2d{.kernel = 3, .padding = 1} : ops::Conv2d{.kernel = 7, .stride = 2, .padding = 3});
  x = ops::relu(build, "relu", x);
  if (!small) x = ops::max_pool2d(build, "maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int stage = 0; stage < 4; ++stage) {
    for (std::int64_t i = 0; i < blocks[stage]; ++i) {
      const std::string at = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
      x = block(build, at, x, o.width << stage, stage > 0 && i == 0 ? 2 : 1);
    }
  }
  const TensorId scores = ops::linear(build, "fc", ops::global_average_pool(build, "avgpool", x), o.classes);
  return build.finish({{"scores", scores}},
                      {{ops::softmax_cross_entropy(build, "loss", scores, classes, o.smoothing)}});
}

}  // namespace

core::Graph resnet18(const ResNetOptions& options) {
  return resnet(options, basic_block, {2, 2, 2, 2});
}

core::Graph resnet50(const ResNetOptions& options) {
  return resnet(options, bottleneck, {3, 4, 6, 3});
}

// The recipe of Goyal et al. (2017), with the cosine of Loshchilov and Hutter, and smoothed labels.
Model resnet_for_imagenet(std::string name, core::Graph (*graph)(const ResNetOptions&)) {
  std::vector<Option> options = photograph_options(0.1);
  options.push_back(width(64));
  return {.name = std::move(name),
          .help = "tells photographs apart",
          .data = Model::Data::kImages,
          .options = std::move(options),
          .recipes = {{.optimizer = "sgd", .learning_rate = 0.1, .weight_decay = 1e-4, .batch_size = 256}},
          .least_micro_batch = 2,
          .open = open_photographs,
          .graph = [graph](const Settings& settings, const Dataset&, std::int64_t batch) {
            return graph({.batch = batch,
                          .pixels = settings.whole("image-size"),
                          .classes = settings.whole("classes"),
                          .width = settings.whole("width"),
                          .smoothing = settings.real("label-smoothing")});
          }};
}

}  // namespace lockstep::trainer::models
