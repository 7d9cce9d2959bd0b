// A GPT-style transformer over characters. It has token and position embeddings, blocks of pre-norm causal attention
// and GELU feed-forward with residual sums, a norm and a linear layer to scores.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

struct CharTransformerOptions {
  std::int64_t batch = 4;
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;
  std::int64_t layers = 4;
  std::int64_t width = 128;  // a multiple of heads
  std::int64_t heads = 4;
  double dropout = 0;
};

// Inputs: characters (batch, context), targets (batch, context). Output: scores (batch times context, vocabulary).
core::Graph char_transformer(const CharTransformerOptions& options);

}  // namespace lockstep::trainer::models
