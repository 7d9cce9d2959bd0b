// What cuDNN computes in the models of trainer/models: each distinct pass of their convolutions, in each precision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/backend/cuda/convolution.h"

namespace lockstep::trainer::testing {

// Samples of a micro-batch.
inline constexpr std::int64_t kPlannedSamples = 32;

struct ModelPass {
  std::string model, layer;  // the first that have it
  cuda::ConvolutionShape shape;
  cuda::ConvolutionPass pass = cuda::ConvolutionPass::kForward;
  bool adds = false;  // to a result that another layer wrote
};

// Of all models with images, in the registry's order and with their default options; the other models have no
// convolutions: first in float32, then in TF32, then in bfloat16. Left out are depthwise convolutions, which have
// kernels of our own, and gradients of the images.
std::vector<ModelPass> passes_of_models();

// The pass as a row of the table begins: model, layer, images, weights, stride, padding, precision, and what it
// computes.
std::string row_of(const ModelPass& pass);

}  // namespace lockstep::trainer::testing
