// What the backend `cuda` computes a model's layers in.
#pragma once

#include <cstdint>

namespace lockstep::trainer::backend {

enum class Precision : std::uint8_t {
  kFloat32,
  // As kFloat32, but cuBLASLt and cuDNN may round what they multiply to TF32, which has 10 bits of mantissa, for tensor
  // cores. Sums, what is stored and what own kernels compute stay float32.
  kTf32,
  // Activations and their gradients are bfloat16. Parameters and their gradients, what norms and losses keep, and the
  // optimizer stay float32, and sums are of float32.
  kBfloat16,
};

// Part of the numerics.
constexpr const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "float32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBfloat16:
      return "bfloat16";
  }
  return "";
}

}  // namespace lockstep::trainer::backend
