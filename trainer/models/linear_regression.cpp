#include "trainer/models/linear_regression.h"

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph linear_regression(std::int64_t batch) {
  core::GraphBuilder build(batch);
  auto x = build.real_input("x", {batch, 1});
  auto y = build.real_input("y", {batch, 1});
  auto line = ops::linear(build, "line", x, 1);
  return build.finish(line, ops::mean_squared_error(build, "loss", line, y));
}

}  // namespace lockstep::trainer::models
