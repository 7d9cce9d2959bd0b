#include "tests/bench/trainer/bound.h"

#include <algorithm>
#include <variant>

#include "tests/bench/trainer/convolution_bound.h"
#include "tests/bench/trainer/product_bound.h"

namespace lockstep::bench {

namespace core = trainer::core;

std::unique_ptr<Bound> bound_of(const core::Graph& graph, std::int64_t batch, int threads) {
  const auto convolves = [](const core::Node& node) { return std::holds_alternative<core::ops::Conv2d>(node.op); };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), convolves)) return std::make_unique<ConvolutionBound>(graph);
  return std::make_unique<ProductBound>(graph, batch, threads);
}

}  // namespace lockstep::bench
