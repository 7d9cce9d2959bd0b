// A row of a table for each index, plus a row for its position.
#pragma once

#include <string>
#include <utility>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Indices (R) with table (V, O) and positions (T, O) -> (R, O); row r has position r mod T.
struct Embedding {};

// Adds `name`.table and `name`.positions.
inline TensorId embedding(GraphBuilder& build, const std::string& name, TensorId indices, std::int64_t vocabulary,
                          std::int64_t positions, std::int64_t features) {
  GraphBuilder::require(build.tensor(indices).number == Number::kIndex, name, "the input must be indices");
  std::int64_t rows = count_of(build.shape(indices));
  GraphBuilder::require(rows % positions == 0, name, "rows must be a multiple of the positions");
  Connections to{.name = name, .inputs = {indices}};
  to.parameters = {build.parameter(name + ".table", {vocabulary, features}, Fill::kNormal, 0.02),
                   build.parameter(name + ".positions", {positions, features}, Fill::kNormal, 0.02)};
  return build.add(Embedding{}, std::move(to), {rows, features});
}

}  // namespace lockstep::trainer::core::ops
