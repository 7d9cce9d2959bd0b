// Residual networks (He et al. 2015) for images, in the form of torchvision. They are ResNet-18, and ResNet-50 "v1.5",
// whose blocks have their stride in the 3 x 3 convolution. Layers have torchvision's names.
#pragma once

#include <string>

#include "trainer/core/graph.h"
#include "trainer/models/model.h"

namespace lockstep::trainer::models {

struct ResNetOptions {
  enum class Stem { kImageNet, kCifar };  // kCifar: 3 x 3 with stride 1 and no pooling, for images of 32 x 32

  std::int64_t batch = 32;
  std::int64_t pixels = 224;  // rows and columns of an image
  std::int64_t classes = 1000;
  std::int64_t width = 64;  // channels of the first stage
  Stem stem = Stem::kImageNet;
  double smoothing = 0;  // of the labels (core/ops/softmax_cross_entropy.h)
};

// Inputs: image (batch, pixels, pixels, 3), class (batch). Output: scores (batch, classes).
core::Graph resnet18(const ResNetOptions& options);
core::Graph resnet50(const ResNetOptions& options);

// What the ResNets for ImageNet have in common as models; `graph`: one of the above.
Model resnet_for_imagenet(std::string name, core::Graph (*graph)(const ResNetOptions&));

}  // namespace lockstep::trainer::models
