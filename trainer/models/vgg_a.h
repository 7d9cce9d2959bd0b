// VGG-A (Simonyan and Zisserman 2014), also called VGG-11, in the form of torchvision without batch norm.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

struct VggAOptions {
  std::int64_t batch = 32;
  std::int64_t pixels = 224;  // rows and columns of an image: a multiple of 32
  std::int64_t classes = 1000;
  double dropout = 0.5;  // before the second and the last linear layer
  double smoothing = 0;  // of the labels (core/ops/softmax_cross_entropy.h)
};

// Inputs: image (batch, pixels, pixels, 3), class (batch). Output: scores (batch, classes).
core::Graph vgg_a(const VggAOptions& options);

}  // namespace lockstep::trainer::models
