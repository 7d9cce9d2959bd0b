// One weight and one bias: the smallest model that training can get wrong.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

// Inputs: x (batch, 1), y (batch, 1). Output: (batch, 1). Parameters: line.weight, line.bias.
core::Graph linear_regression(std::int64_t batch);

}  // namespace lockstep::trainer::models
