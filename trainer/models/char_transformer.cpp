#include "trainer/models/char_transformer.h"

#include <cmath>

namespace lockstep::trainer::models {

core::Graph char_transformer(const CharTransformerOptions& o) {
  core::GraphBuilder build(o.batch);
  auto characters = build.index_input("characters", {o.batch, o.context});
  auto targets = build.index_input("targets", {o.batch, o.context});
  auto x = build.embedding("embedding", characters, o.vocabulary, o.context, o.width);  // (B T, C)
  x = build.dropout("embedding.dropout", x, o.dropout);
  // Each block adds to the residual stream twice, so its last layers start smaller by the root of that number.
  double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(o.layers * o.width));
  for (std::int64_t i = 0; i < o.layers; ++i) {
    std::string name = "block." + std::to_string(i);
    auto h = build.layer_norm(name + ".attention.norm", x);
    h = build.linear(name + ".attention.qkv", h, 3 * o.width);  // (B T, 3 C)
    h = build.causal_attention(name + ".attention", h, o.heads);
    h = build.linear(name + ".attention.projection", h, o.width, true, residual);
    h = build.dropout(name + ".attention.dropout", h, o.dropout);
    x = build.add(name + ".attention.sum", x, h);
    h = build.layer_norm(name + ".feed_forward.norm", x);
    h = build.linear(name + ".feed_forward.up", h, 4 * o.width);  // (B T, 4 C)
    h = build.gelu(name + ".feed_forward.gelu", h);
    h = build.linear(name + ".feed_forward.down", h, o.width, true, residual / 2);
    h = build.dropout(name + ".feed_forward.dropout", h, o.dropout);
    x = build.add(name + ".feed_forward.sum", x, h);
  }
  x = build.layer_norm("norm", x);
  auto scores = build.linear("scores", x, o.vocabulary, false, 0.02);
  return build.finish(scores, build.softmax_cross_entropy("loss", scores, targets));
}

}  // namespace lockstep::trainer::models
