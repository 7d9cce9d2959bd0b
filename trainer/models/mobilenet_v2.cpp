#include "trainer/models/mobilenet_v2.h"

#include <string>

#include "trainer/models/images.h"

namespace lockstep::trainer::models {

namespace {

namespace ops = core::ops;
using core::GraphBuilder;
using core::TensorId;

TensorId conv_norm(GraphBuilder& build, const std::string& name, TensorId x, std::int64_t outputs, ops::Conv2d op) {
  return ops::batch_norm(build, name + ".norm", ops::conv2d(build, name, x, outputs, op));
}

TensorId conv_norm_relu6(GraphBuilder& build, const std::string& name, TensorId x, std::int64_t outputs,
                         ops::Conv2d op) {
  return ops::relu6(build, name + ".relu6", conv_norm(build, name, x, outputs, op));
}

// Widens `expansion` times, convolves each channel by itself, and narrows to `outputs` channels.
TensorId inverted_residual(GraphBuilder& build, const std::string& name, TensorId input, std::int64_t expansion,
                           std::int64_t outputs, std::int64_t stride) {
  const std::int64_t width = build.shape(input).back() * expansion;
  TensorId x = input;
  if (expansion > 1) x = conv_norm_relu6(build, name + ".expand", x, width, {});
  x = conv_norm_relu6(build, name + ".depthwise", x, width,
                      {.kernel = 3, .stride = stride, .padding = 1, .groups = width});
  x = conv_norm(build, name + ".project", x, outputs, {});
  return build.shape(x) == build.shape(input) ? ops::add(build, name + ".sum", input, x) : x;
}

struct Stage {
  std::int64_t expansion, outputs, blocks, stride;
};

constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

}  // namespace

core::Graph mobilenet_v2(const MobileNetV2Options& o) {
  GraphBuilder build(o.batch);
  TensorId x = build.real_input("image", {o.batch, o.pixels, o.pixels, 3});
  const TensorId classes = build.index_input("class", {o.batch});
  x = conv_norm_relu6(build, "features.0", x, 32, {.kernel = 3, .stride = 2, .padding = 1});
  int number = 1;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      const std::string name = "features." + std::to_string(number++);
      x = inverted_residual(build, name, x, stage.expansion, stage.outputs, i == 0 ? stage.stride : 1);
    }
  }
  x = conv_norm_relu6(build, "features." + std::to_string(number), x, 1280, {});
  x = ops::dropout(build, "classifier.dropout", ops::global_average_pool(build, "pool", x), o.dropout);
  const TensorId scores = ops::linear(build, "classifier", x, o.classes, true, 0.01);
  return build.finish({{"scores", scores}},
                      {{ops::softmax_cross_entropy(build, "loss", scores, classes, o.smoothing)}});
}

// There each block is a list: convolution, norm and ReLU6 together are one element, and the last convolution and its
// norm are one each. The first block expands nothing.
std::string mobilenet_v2_torch_layer(const std::string& layer) {
  if (layer == "classifier") return "classifier.1";
  const std::string features = "features.";
  if (!layer.starts_with(features)) return layer;
  const size_t dot = layer.find('.', features.size());
  const std::string at = layer.substr(0, dot);
  std::string part = dot == std::string::npos ? "" : layer.substr(dot + 1);
  const bool norm = part.ends_with("norm");
  part = part.substr(0, part.find('.'));
  if (part.empty() || part == "norm") return at + (norm ? ".1" : ".0");
  const int depthwise = at == "features.1" ? 0 : 1;
  if (part == "project") return at + ".conv." + std::to_string(depthwise + (norm ? 2 : 1));
  if (part != "expand" && part != "depthwise") return layer;  // it has no parameters
  return at + ".conv." + std::to_string(part == "expand" ? 0 : depthwise) + (norm ? ".1" : ".0");
}

// The decay is the paper's, which trains with RMSProp.
Model mobilenet_v2_model() {
  std::vector<Option> options = photograph_options(0.1);
  options.push_back(dropout(0.2));
  return {.name = "mobilenet-v2",
          .help = "tells photographs apart with few products",
          .data = Model::Data::kImages,
          .options = std::move(options),
          .recipes = {{.optimizer = "sgd", .learning_rate = 0.05, .weight_decay = 4e-5, .batch_size = 256}},
          .least_micro_batch = 2,
          .open = open_photographs,
          .graph =
              [](const Settings& settings, const Dataset&, std::int64_t batch) {
                return mobilenet_v2({.batch = batch,
                                     .pixels = settings.whole("image-size"),
                                     .classes = settings.whole("classes"),
                                     .dropout = settings.real("dropout"),
                                     .smoothing = settings.real("label-smoothing")});
              },
          .torch_layer = mobilenet_v2_torch_layer};
}

}  // namespace lockstep::trainer::models
