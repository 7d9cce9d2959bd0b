// What the backend `cuda` computes a model's layers in.
#pragma once

#include <cstdint>

namespace lockstep::trainer::backend {

enum class Precision : std::uint8_t {
  kFloat32,
  // Activations and their gradients are bfloat16. Parameters and their gradients, what norms and losses keep, and the
  // optimizer stay float32, and sums are of float32.
  kBfloat16,
};

}  // namespace lockstep::trainer::backend
