// Generates text with a trained character transformer, one character after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/program.h"

namespace lockstep::trainer::models {

struct GenerateOptions {
  std::int64_t count = 400;       // characters to generate
  double temperature = 0.5;       // 0: always the likeliest
  std::int64_t longest_run = 12;  // of one character; a small model that starts a run of spaces never leaves it
  std::uint64_t seed = 0;
  std::vector<std::uint8_t> prompt = {0};  // tokens to continue, at least one
};

// `program` is a char_transformer with batch 1 over trained parameters. The tokens generated, without the prompt.
// kCancelled: aborted.
Result<std::vector<std::uint8_t>> generate(core::Program& program, const GenerateOptions& options,
                                           const std::atomic<bool>& abort);

}  // namespace lockstep::trainer::models
