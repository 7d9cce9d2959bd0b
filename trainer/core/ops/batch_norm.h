// Normalises each feature over the micro-batch in training, by running statistics in evaluation.
#pragma once

#include <string>
#include <utility>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (..., I) with gain (I) and shift (I) -> the same. A feature is normalised over all other dimensions. These are the
// samples or, for images (N, H, W, I), the pixels of all samples. Statistics: running mean (I) and running variance
// (I), the unbiased one; the normalisation uses the biased one.
struct BatchNorm {
  double epsilon = 1e-5;  // added to the variance
};

// Adds `name`.gain, .shift, .running_mean and .running_variance. `momentum`: weight of the newest statistics, as in
// PyTorch and cuDNN.
inline TensorId batch_norm(GraphBuilder& build, const std::string& name, TensorId input, double momentum = 0.1) {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() >= 2, name, "the input must have rows and features");
  const std::int64_t features = in.back();
  GraphBuilder::require(count_of(in) / features >= 2, name, "the variance of a batch needs at least two samples");
  Connections to{.name = name, .inputs = {input}};
  to.parameters = {build.parameter(name + ".gain", {features}, Fill::kOne),
                   build.parameter(name + ".shift", {features}, Fill::kZero)};
  to.statistics = {build.statistic(name + ".running_mean", {features}, Fill::kZero, momentum),
                   build.statistic(name + ".running_variance", {features}, Fill::kOne, momentum)};
  return build.add(BatchNorm{}, std::move(to), in);
}

}  // namespace lockstep::trainer::core::ops
