// The loss of a classifier, in nats.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Scores (R, V) and classes (R) -> loss of each sample (B): the mean over its rows.
struct SoftmaxCrossEntropy {
  static constexpr bool kIsLoss = true;
};

inline TensorId softmax_cross_entropy(GraphBuilder& build, const std::string& name, TensorId scores, TensorId classes) {
  Shape in = build.shape(scores);
  GraphBuilder::require(build.tensor(classes).number == Number::kIndex, name, "the classes must be indices");
  GraphBuilder::require(in.size() == 2 && count_of(build.shape(classes)) == in[0], name,
                        "each row of scores needs one class");
  return build.add(SoftmaxCrossEntropy{}, {.name = name, .inputs = {scores, classes}}, {build.batch()});
}

}  // namespace lockstep::trainer::core::ops
