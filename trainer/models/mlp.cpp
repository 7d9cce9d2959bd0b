#include "trainer/models/mlp.h"

#include <cmath>

#include "trainer/data/generated.h"
#include "trainer/models/model.h"

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph mlp(const MlpOptions& options) {
  core::GraphBuilder build(options.batch);
  auto x = build.real_input("features", {options.batch, options.features});
  auto classes = build.index_input("class", {options.batch});
  std::int64_t features = options.features;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    std::string name = "hidden." + std::to_string(i);
    double deviation = std::sqrt(2.0 / static_cast<double>(features));  // keeps the variance through a ReLU
    x = ops::linear(build, name, x, options.width, false, deviation);   // the norm's shift is its bias
    x = ops::batch_norm(build, name + ".norm", x);
    x = ops::relu(build, name + ".relu", x);
    x = ops::dropout(build, name + ".dropout", x, options.dropout);
    features = options.width;
  }
  auto scores = ops::linear(build, "scores", x, options.classes);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

Model mlp_model() {
  const MlpOptions defaults;
  return {.name = "mlp",
          .help = "tells ten clouds of points apart that it makes itself",
          .options = {layers(defaults.layers), width(defaults.width), dropout(defaults.dropout)},
          .recipes = {{.optimizer = "adamw", .learning_rate = 2e-3, .weight_decay = 0.01},
                      {.optimizer = "sgd", .learning_rate = 0.02}},
          .least_micro_batch = 2,
          .open = [](const Settings&, const DataOptions& options) -> Result<Dataset> {
            return Dataset{.source = std::make_unique<data::BlobSource>(options.real, options.seed),
                           .epoch_samples = data::BlobSource::kTraining};
          },
          .graph =
              [](const Settings& settings, const Dataset&, std::int64_t batch) {
                return mlp({.batch = batch,
                            .features = data::BlobSource::kFeatures,
                            .width = settings.whole("width"),
                            .layers = settings.whole("layers"),
                            .classes = data::BlobSource::kClasses,
                            .dropout = settings.real("dropout")});
              }};
}

}  // namespace lockstep::trainer::models
