// The loss of a classifier, in nats.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Scores (R, V) and classes (R) -> loss of each sample (B): the mean over its rows. A row's target gives its class
// 1 - smoothing and shares the rest out among all V classes (label smoothing), in evaluation as well.
struct SoftmaxCrossEntropy {
  static constexpr bool kIsLoss = true;
  double smoothing = 0;  // in [0, 1)
};

inline TensorId softmax_cross_entropy(GraphBuilder& build, const std::string& name, TensorId scores, TensorId classes,
                                      double smoothing = 0) {
  GraphBuilder::require(smoothing >= 0 && smoothing < 1, name, "the label smoothing must be in [0, 1)");
  Shape in = build.shape(scores);
  GraphBuilder::require(build.tensor(classes).number == Number::kIndex, name, "the classes must be indices");
  GraphBuilder::require(in.size() == 2 && count_of(build.shape(classes)) == in[0], name,
                        "each row of scores needs one class");
  return build.add(SoftmaxCrossEntropy{.smoothing = smoothing}, {.name = name, .inputs = {scores, classes}},
                   {build.batch()});
}

}  // namespace lockstep::trainer::core::ops
