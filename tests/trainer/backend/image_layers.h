// One small graph for each layer of convolutional networks, with every stride, padding and group that ResNet,
// MobileNet-V2 and VGG-A use.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/backend/layers.h"

namespace lockstep::trainer::testing {

// Layers that a backward pass may compute again, each before a convolution or a linear layer, which reads what they
// write.
inline std::vector<LayerCase> cheap_layer_cases(std::int64_t size, std::int64_t channels) {
  using core::GraphBuilder;
  using core::TensorId;
  namespace ops = core::ops;
  using Layer = std::function<TensorId(GraphBuilder&, TensorId)>;
  constexpr std::int64_t kBatch = 2, kOutputs = 3;
  const core::Shape images = {kBatch, size, size, channels}, rows = {kBatch, channels};
  const auto parameter = [](GraphBuilder& b, const char* name, const core::Shape& shape) {
    return b.parameter(name, shape, core::Fill::kNormal, 0.7);
  };
  const auto finish = [](GraphBuilder& b, TensorId y) {
    const TensorId target = b.real_input("target", {kBatch, kOutputs});
    return b.finish(y, ops::mean_squared_error(b, "loss", y, target));
  };
  const auto of_images = [=](std::string name, Layer layer) {
    return LayerCase{std::move(name), [=] {
                       GraphBuilder b(kBatch);
                       const TensorId y = layer(b, parameter(b, "x", images));
                       const TensorId flat = ops::flatten(b, "flat", ops::conv2d(b, "reads", y, 4, {}, 0.3));
                       return finish(b, ops::linear(b, "head", flat, kOutputs));
                     }};
  };
  const auto of_rows = [=](std::string name, Layer layer) {
    return LayerCase{std::move(name), [=] {
                       GraphBuilder b(kBatch);
                       const TensorId y = layer(b, parameter(b, "x", rows));
                       return finish(b, ops::linear(b, "reads", y, kOutputs));
                     }};
  };
  const auto norm = [](GraphBuilder& b, TensorId x) { return ops::batch_norm(b, "norm", x); };
  const auto sum = [=](GraphBuilder& b, TensorId x) {
    return ops::add(b, "add", norm(b, x), parameter(b, "other", images));
  };
  return {of_images("norm", norm),
          of_images("norm_relu", [=](auto& b, TensorId x) { return ops::relu(b, "relu", norm(b, x)); }),
          of_images("norm_relu6", [=](auto& b, TensorId x) { return ops::relu6(b, "relu6", norm(b, x)); }),
          of_images("norm_sum", sum),
          of_images("norm_sum_relu", [=](auto& b, TensorId x) { return ops::relu(b, "relu", sum(b, x)); }),
          of_images("norm_sum_relu6", [=](auto& b, TensorId x) { return ops::relu6(b, "relu6", sum(b, x)); }),
          of_images("sum", [](auto& b, TensorId x) { return ops::add(b, "add", x, x); }),
          of_images("relu", [](auto& b, TensorId x) { return ops::relu(b, "relu", x); }),
          of_images("relu6", [](auto& b, TensorId x) { return ops::relu6(b, "relu6", x); }),
          of_rows("norm_of_rows", norm),
          of_rows("layer_norm", [](auto& b, TensorId x) { return ops::layer_norm(b, "norm", x); })};
}

// Images of `size` x `size` pixels with `channels`, an even number. `used_twice`: as for layer_cases().
inline std::vector<LayerCase> image_layer_cases(std::int64_t size, std::int64_t channels, bool used_twice = true) {
  using core::Fill;
  using core::GraphBuilder;
  using core::TensorId;
  namespace ops = core::ops;
  constexpr std::int64_t kBatch = 2;
  auto over = [=](std::string name, std::function<TensorId(GraphBuilder&, TensorId)> layer, double deviation = 0.7) {
    return LayerCase{std::move(name), [=] {
                       GraphBuilder build(kBatch);
                       TensorId x = build.parameter("x", {kBatch, size, size, channels}, Fill::kNormal, deviation);
                       TensorId y = layer(build, x);
                       if (build.shape(y).size() > 2) y = ops::flatten(build, "flat", y);
                       TensorId sum = ops::linear(build, "head", y, 3);
                       if (used_twice) {
                         TensorId skip = ops::linear(build, "skip", ops::flatten(build, "flat_skip", x), 3, false);
                         sum = ops::add(build, "sum", sum, skip);
                       }
                       TensorId target = build.real_input("target", {kBatch, 3});
                       return build.finish(sum, ops::mean_squared_error(build, "loss", sum, target));
                     }};
  };
  auto convolution = [=](std::string name, ops::Conv2d op, std::int64_t outputs) {
    return over(std::move(name),
                [=](GraphBuilder& b, TensorId x) { return ops::conv2d(b, "layer", x, outputs, op, 0.3); });
  };
  std::vector<LayerCase> cases;
  cases.push_back(convolution("conv_1x1", {}, 5));
  cases.push_back(convolution("conv_1x1_stride_2", {.stride = 2}, 6));
  cases.push_back(convolution("conv_3x3", {.kernel = 3, .padding = 1}, 4));
  cases.push_back(convolution("conv_3x3_with_bias", {.kernel = 3, .padding = 1, .bias = true}, 6));
  cases.push_back(convolution("conv_3x3_stride_2", {.kernel = 3, .stride = 2, .padding = 1}, 16));
  cases.push_back(convolution("conv_3x3_without_padding", {.kernel = 3}, 4));
  cases.push_back(convolution("conv_7x7_stride_2", {.kernel = 7, .stride = 2, .padding = 3}, 4));
  cases.push_back(convolution("conv_in_two_groups", {.kernel = 3, .padding = 1, .groups = 2, .bias = true}, 6));
  cases.push_back(convolution("depthwise", {.kernel = 3, .padding = 1, .groups = channels}, channels));
  cases.push_back(
      convolution("depthwise_stride_2", {.kernel = 3, .stride = 2, .padding = 1, .groups = channels}, channels));
  cases.push_back(convolution("depthwise_without_padding", {.kernel = 3, .groups = channels}, channels));
  cases.push_back(convolution("depthwise_in_wide_padding", {.kernel = 3, .padding = 2, .groups = channels}, channels));
  cases.push_back(over("max_pool_2x2", [](GraphBuilder& b, TensorId x) { return ops::max_pool2d(b, "layer", x); }));
  cases.push_back(over("max_pool_3x3_stride_2", [](GraphBuilder& b, TensorId x) {
    return ops::max_pool2d(b, "layer", x, {.kernel = 3, .stride = 2, .padding = 1});
  }));
  cases.push_back(
      over("global_average_pool", [](GraphBuilder& b, TensorId x) { return ops::global_average_pool(b, "layer", x); }));
  cases.push_back(over(
      "relu6", [](GraphBuilder& b, TensorId x) { return ops::relu6(b, "layer", x); }, 5.0));
  cases.push_back(over("flatten", [](GraphBuilder& b, TensorId x) { return ops::flatten(b, "layer", x); }));
  cases.push_back(
      over("batch_norm_of_images", [](GraphBuilder& b, TensorId x) { return ops::batch_norm(b, "layer", x); }));
  // What a backend may compute in one step, and what it may not, because something else reads the norm as well.
  auto after_norm = [=](std::string name, std::function<TensorId(GraphBuilder&, TensorId x, TensorId normal)> rest) {
    return over(std::move(name), [=](GraphBuilder& b, TensorId x) {
      TensorId y = ops::conv2d(b, "a", x, channels, {.kernel = 3, .padding = 1}, 0.3);
      return rest(b, x, ops::batch_norm(b, "norm", y));
    });
  };
  cases.push_back(
      after_norm("norm_relu", [](GraphBuilder& b, TensorId, TensorId normal) { return ops::relu(b, "relu", normal); }));
  cases.push_back(after_norm(
      "norm_relu6", [](GraphBuilder& b, TensorId, TensorId normal) { return ops::relu6(b, "relu6", normal); }));
  cases.push_back(after_norm(
      "norm_sum", [](GraphBuilder& b, TensorId x, TensorId normal) { return ops::add(b, "add", x, normal); }));
  cases.push_back(after_norm("norm_sum_relu", [](GraphBuilder& b, TensorId x, TensorId normal) {
    return ops::relu(b, "relu", ops::add(b, "add", normal, x));
  }));
  cases.push_back(after_norm("norm_sum_relu6", [](GraphBuilder& b, TensorId x, TensorId normal) {
    return ops::relu6(b, "relu6", ops::add(b, "add", normal, x));
  }));
  // The sum's other input is an activation whose gradient this step is the first to write. It is large enough for ReLU6
  // to clip.
  auto sum_of_activations = [=](std::string name, std::function<TensorId(GraphBuilder&, TensorId)> rest) {
    return over(std::move(name), [=](GraphBuilder& b, TensorId x) {
      const TensorId other = ops::conv2d(b, "other", x, channels, {}, 3.0);
      TensorId y = ops::conv2d(b, "a", x, channels, {.kernel = 3, .padding = 1}, 0.3);
      y = ops::batch_norm(b, "norm", y);
      return rest(b, ops::add(b, "add", other, y));
    });
  };
  cases.push_back(sum_of_activations("norm_sum_of_activations", [](GraphBuilder&, TensorId sum) { return sum; }));
  cases.push_back(sum_of_activations("norm_sum_relu_of_activations",
                                     [](GraphBuilder& b, TensorId sum) { return ops::relu(b, "relu", sum); }));
  cases.push_back(sum_of_activations("norm_sum_relu6_of_activations",
                                     [](GraphBuilder& b, TensorId sum) { return ops::relu6(b, "relu6", sum); }));
  cases.push_back(after_norm("norm_read_twice", [](GraphBuilder& b, TensorId, TensorId normal) {
    return ops::add(b, "add", ops::relu(b, "relu", normal), normal);
  }));
  cases.push_back(after_norm("norm_twice_in_a_sum", [](GraphBuilder& b, TensorId, TensorId normal) {
    return ops::relu(b, "relu", ops::add(b, "add", normal, normal));
  }));
  cases.push_back(over("norm_and_its_input_in_a_sum", [](GraphBuilder& b, TensorId x) {
    return ops::relu(b, "relu", ops::add(b, "add", x, ops::batch_norm(b, "norm", x)));
  }));
  cases.push_back(over("relu_max_pool", [](GraphBuilder& b, TensorId x) {
    return ops::max_pool2d(b, "layer", ops::relu(b, "relu", x), {.kernel = 3, .stride = 2, .padding = 1});
  }));
  cases.push_back(over("residual_block", [=](GraphBuilder& b, TensorId x) {
    TensorId y = ops::conv2d(b, "a", x, channels, {.kernel = 3, .stride = 2, .padding = 1}, 0.3);
    y = ops::relu(b, "relu", ops::batch_norm(b, "norm", y));
    return ops::add(b, "residual", y, ops::conv2d(b, "shortcut", x, channels, {.stride = 2}, 0.3));
  }));
  return cases;
}

}  // namespace lockstep::trainer::testing
