// MobileNet-V2 (Sandler et al. 2018) for images, in the form of torchvision: inverted residuals with depthwise
// convolutions.
#pragma once

#include <string>

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

struct MobileNetV2Options {
  std::int64_t batch = 32;
  std::int64_t pixels = 224;  // rows and columns of an image
  std::int64_t classes = 1000;
  double dropout = 0.2;  // before the scores
  double smoothing = 0;  // of the labels (core/ops/softmax_cross_entropy.h)
};

// Inputs: image (batch, pixels, pixels, 3), class (batch). Output: scores (batch, classes).
core::Graph mobilenet_v2(const MobileNetV2Options& options);

// Model::torch_layer of it: "features.2.expand.norm" is "features.2.conv.0.1" there.
std::string mobilenet_v2_torch_layer(const std::string& layer);

}  // namespace lockstep::trainer::models
