// Multi-head self-attention in which a position sees itself and the positions before it.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (R, 3 I): queries, keys and values side by side -> (R, I).
struct CausalAttention {
  std::int64_t heads = 1;

  // Scores, and the sums of values by them: a position has (T + 1) / 2 others to look at on average.
  static double flops(const Shape&, const Shape& out, std::int64_t batch) {
    const std::int64_t positions = out[0] / batch;
    return 2.0 * static_cast<double>(count_of(out) * (positions + 1));
  }
};

// `qkv`: rows are samples times positions; features are three times a multiple of `heads`.
inline TensorId causal_attention(GraphBuilder& build, const std::string& name, TensorId qkv, std::int64_t heads) {
  Shape in = build.shape(qkv);
  GraphBuilder::require(in.size() == 2 && in[1] % (3 * heads) == 0, name,
                        "features must be three times a multiple of the heads");
  GraphBuilder::require(in[0] % build.batch() == 0, name, "rows must be a multiple of the batch");
  return build.add(CausalAttention{.heads = heads}, {.name = name, .inputs = {qkv}}, {in[0], in[1] / 3});
}

}  // namespace lockstep::trainer::core::ops
