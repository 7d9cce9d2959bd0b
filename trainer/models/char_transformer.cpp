#include "trainer/models/char_transformer.h"

#include <cmath>

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

}  // namespace lockstep::trainer::models
