#include "trainer/models/linear_regression.h"

namespace lockstep::trainer::models {

core::Graph linear_regression(std::int64_t batch) {
  core::GraphBuilder build(batch);
  auto x = build.real_input("x", {batch, 1});
  auto y = build.real_input("y", {batch, 1});
  auto line = build.linear("line", x, 1);
  return build.finish(line, build.mean_squared_error("loss", line, y));
}

}  // namespace lockstep::trainer::models
