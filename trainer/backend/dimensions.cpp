#include "trainer/backend/dimensions.h"

#include <fmt/format.h>

namespace lockstep::trainer::backend {

Dimensions dimensions_of(const core::Graph& graph, const core::Node& node) {
  const core::Shape& input = graph.tensor(node.inputs[0]).shape;
  const core::Shape& output = graph.tensor(node.output).shape;
  Dimensions d;
  bool indices = graph.tensor(node.inputs[0]).number == core::Number::kIndex;
  d.in = indices || input.size() < 2 ? 1 : static_cast<size_t>(input.back());
  d.rows = static_cast<size_t>(core::count_of(input)) / d.in;
  d.out = output.size() < 2 ? 1 : static_cast<size_t>(output.back());
  d.samples = static_cast<size_t>(graph.batch);
  d.positions = d.rows / d.samples;
  const auto pixels = [](const core::Shape& shape, size_t& height, size_t& width) {
    if (shape.size() != 4) return;
    height = static_cast<size_t>(shape[1]);
    width = static_cast<size_t>(shape[2]);
  };
  pixels(input, d.height, d.width);
  pixels(output, d.out_height, d.out_width);
  return d;
}

Status check_indices(const core::Node& node, const std::int32_t* indices, size_t rows, size_t limit) {
  for (size_t r = 0; r < rows; ++r) {
    if (indices[r] >= 0 && static_cast<size_t>(indices[r]) < limit) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("layer '{}': the index {} of row {} is not in [0, {})", node.name, indices[r], r, limit));
  }
  return {};
}

}  // namespace lockstep::trainer::backend
