#include "trainer/models/linear_regression.h"

#include "trainer/data/generated.h"
#include "trainer/models/model.h"

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph linear_regression(std::int64_t batch) {
  core::GraphBuilder build(batch);
  auto x = build.real_input("x", {batch, 1});
  auto y = build.real_input("y", {batch, 1});
  auto line = ops::linear(build, "line", x, 1);
  return build.finish(line, ops::mean_squared_error(build, "loss", line, y));
}

namespace {

std::vector<Metric> line_found(const Dataset& /*dataset*/, const std::vector<core::StateTensor>& state) {
  std::vector<Metric> metrics;
  for (const core::StateTensor& tensor : state) {
    if (tensor.name != "line.weight" && tensor.name != "line.bias") continue;
    const char* name = tensor.name == "line.weight" ? "slope" : "intercept";
    metrics.push_back({name, core::real_at(tensor.data, tensor.type, 0)});
  }
  return metrics;
}

}  // namespace

Model linear_regression_model() {
  return {.name = "linear-regression",
          .help = "finds the line behind noisy points that it makes itself",
          .recipes = {{.optimizer = "sgd", .learning_rate = 0.02},
                      {.optimizer = "adamw", .learning_rate = 2e-3, .weight_decay = 0.01}},
          .open = [](const Settings&, const DataOptions& options) -> Result<Dataset> {
            return Dataset{.source = std::make_unique<data::LineSource>(options.real, options.seed),
                           .epoch_samples = data::LineSource::kTraining};
          },
          .graph = [](const Settings&, const Dataset&, std::int64_t batch) { return linear_regression(batch); },
          .results = line_found};
}

}  // namespace lockstep::trainer::models
