// One layer with a loss, and other outputs of it that no loss reads.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

// Which outputs the loss does not depend on.
struct Heads {
  bool before = false;       // a ReLU before the loss in the order of nodes
  bool after = false;        // one after it
  bool second_loss = false;  // a layer of its own and the loss of it
};

inline constexpr Heads kHeads[] = {
    {.before = true}, {.after = true}, {.second_loss = true}, {.before = true, .after = true, .second_loss = true}};
inline constexpr std::int32_t kClassesOfHeads = 6;

// Inputs: x (4, 5), target (4, 6), class (4). Parameters of the loss: first, layer. The second loss has those of other.
inline core::Graph with_heads(const Heads& heads) {
  core::GraphBuilder build(4);
  auto x = build.real_input("x", {4, 5});
  auto target = build.real_input("target", {4, kClassesOfHeads});
  auto classes = build.index_input("class", {4});
  auto h = core::ops::linear(build, "layer", core::ops::gelu(build, "gelu", core::ops::linear(build, "first", x, 8)),
                             kClassesOfHeads);
  auto output = h;
  if (heads.before) output = core::ops::relu(build, "before", h);
  if (heads.second_loss)
    core::ops::softmax_cross_entropy(build, "other_loss", core::ops::gelu(build, "other", h), classes);
  auto loss = core::ops::mean_squared_error(build, "loss", h, target);
  if (heads.after) output = core::ops::relu(build, "after", core::ops::add(build, "sum", output, h));
  return build.finish(output, loss);
}

}  // namespace lockstep::trainer::testing
