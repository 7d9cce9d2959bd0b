#include "trainer/models/char_transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/models/model.h"

namespace lockstep::trainer::models {

namespace ops = core::ops;

core::Graph char_transformer(const CharTransformerOptions& o) {
  core::GraphBuilder build(o.batch);
  auto characters = build.index_input("characters", {o.batch, o.context});
  auto targets = build.index_input("targets", {o.batch, o.context});
  auto x = ops::embedding(build, "embedding", characters, o.vocabulary, o.context, o.width);  // (B T, C)
  x = ops::dropout(build, "embedding.dropout", x, o.dropout);
  // Each block adds to the residual stream twice, so its last layers start smaller by the root of that number.
  double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(o.layers * o.width));
  for (std::int64_t i = 0; i < o.layers; ++i) {
    std::string name = "block." + std::to_string(i);
    auto h = ops::layer_norm(build, name + ".attention.norm", x);
    h = ops::linear(build, name + ".attention.qkv", h, 3 * o.width);  // (B T, 3 C)
    h = ops::causal_attention(build, name + ".attention", h, o.heads);
    h = ops::linear(build, name + ".attention.projection", h, o.width, true, residual);
    h = ops::dropout(build, name + ".attention.dropout", h, o.dropout);
    x = ops::add(build, name + ".attention.sum", x, h);
    h = ops::layer_norm(build, name + ".feed_forward.norm", x);
    h = ops::linear(build, name + ".feed_forward.up", h, 4 * o.width);  // (B T, 4 C)
    h = ops::gelu(build, name + ".feed_forward.gelu", h);
    h = ops::linear(build, name + ".feed_forward.down", h, o.width, true, residual / 2);
    h = ops::dropout(build, name + ".feed_forward.dropout", h, o.dropout);
    x = ops::add(build, name + ".feed_forward.sum", x, h);
  }
  x = ops::layer_norm(build, "norm", x);
  auto scores = ops::linear(build, "scores", x, o.vocabulary, false, 0.02);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, targets));
}

namespace {

std::int64_t vocabulary_of(const Dataset& dataset) {
  return static_cast<std::int64_t>(dataset.text->vocabulary.size());
}

Status heads_share_the_width(const Settings& settings) {
  const std::int64_t width = settings.whole("width"), heads = settings.whole("heads");
  if (width % heads == 0) return {};
  return fail(ErrorCode::kInvalid, fmt::format("--width={} is not a multiple of --heads={}", width, heads));
}

core::Graph graph_of(const Settings& settings, const Dataset& dataset, std::int64_t batch) {
  return char_transformer({.batch = batch,
                           .vocabulary = vocabulary_of(dataset),
                           .context = dataset.context,
                           .layers = settings.whole("layers"),
                           .width = settings.whole("width"),
                           .heads = settings.whole("heads"),
                           .dropout = settings.real("dropout")});
}

}  // namespace

Model char_transformer_model() {
  const CharTransformerOptions defaults;
  const auto positive = [](const char* name, const char* help, std::int64_t value) {
    return Option{name, help, value, std::int64_t{1}, kLargestOption};
  };
  return {
      .name = "char-transformer",
      .help = "predicts the next character of a text",
      .data = Model::Data::kText,
      .options = {layers(defaults.layers), width(defaults.width), positive("heads", "Attention heads", defaults.heads),
                  positive("context", "Characters that the model sees at once", defaults.context),
                  dropout(defaults.dropout)},
      .recipes = {{.optimizer = "adamw", .learning_rate = 3e-3, .weight_decay = 0.01},
                  {.optimizer = "sgd", .learning_rate = 0.1}},
      .clip_norm = 1,
      .writes_text = true,
      .check = heads_share_the_width,
      .open = [](const Settings& settings,
                 const DataOptions& options) { return open_text(options, settings.whole("context")); },
      .graph = graph_of,
      .results = [](const Dataset& dataset, const std::vector<core::StateTensor>&) -> std::vector<Metric> {
        const std::int64_t vocabulary = vocabulary_of(dataset);
        return {{"vocabulary", vocabulary}, {"uniform_loss", std::log(static_cast<double>(vocabulary))}};
      }};
}

}  // namespace lockstep::trainer::models
