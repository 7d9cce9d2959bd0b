// The sizes that a node's kernel loops over, read once from the graph; the check of its indices; and the random keys of
// dropout, which every backend must derive alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::backend {

struct Dimensions {
  size_t rows = 0;       // of the first input
  size_t in = 0;         // features of the first input (1 for indices and vectors)
  size_t out = 0;        // features of the output
  size_t samples = 0;    // in the micro-batch
  size_t positions = 0;  // rows of one sample
  // Pixels of images (N, H, W, C) before and after; else 0.
  size_t height = 0, width = 0;
  size_t out_height = 0, out_width = 0;
};

Dimensions dimensions_of(const core::Graph& graph, const core::Node& node);

// kCorrupt: one of the rows' indices is not in [0, limit); the sentence names the layer, the index and the row. Kernels
// that use indices as addresses call it before each run, because nothing else may have checked their input.
Status check_indices(const core::Node& node, const std::int32_t* indices, size_t rows, size_t limit);

// What the keys of a step's dropout have in common.
inline std::uint64_t dropout_step_key(const core::RunContext& context) {
  return core::derive(core::derive(context.seed, "dropout"), static_cast<std::uint64_t>(context.step));
}

// The key for sample `sample` of the micro-batch in the dropout layer whose name hashes to `layer`.
inline std::uint64_t dropout_key(const core::RunContext& context, std::uint64_t layer, size_t sample) {
  const auto place = static_cast<std::uint64_t>(context.first_sample) + sample;
  return core::derive(core::derive(dropout_step_key(context), place), layer);
}

// An element is kept when its 32 random bits are at least this.
inline std::uint32_t dropout_threshold(double rate) {
  return static_cast<std::uint32_t>(rate * 0x1.0p32);
}

}  // namespace lockstep::trainer::backend
