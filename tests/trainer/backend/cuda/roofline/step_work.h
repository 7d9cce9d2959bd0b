// The work of a training step of one micro-batch on one GPU.
#pragma once

#include <vector>

#include "tests/trainer/backend/cuda/roofline/roofline.h"
#include "trainer/backend/cuda/precision.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

enum class Fused : std::uint8_t { kNo, kYes };

// The work besides that of the layers: images from bytes, clearing the gradients that no layer overwrites, and the norm
// of all. Then an update by a rule with `slots` numbers for each parameter (SGD one, AdamW two).
std::vector<Work> works_of_step(const core::Graph& graph, backend::Precision precision, int slots, Fused fused);

}  // namespace lockstep::trainer::testing
