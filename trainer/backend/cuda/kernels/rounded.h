// For the .cu files: arithmetic in which every operation rounds once, so that formulas have the host's bits. The
// compiler may contract a product and a sum of plain floats into one rounding.
#pragma once

#include "trainer/backend/cuda/kernels/launch.h"

namespace lockstep::trainer::cuda {

struct Rounded {
  float value;
};

inline __device__ Rounded operator+(Rounded a, Rounded b) {
  return {__fadd_rn(a.value, b.value)};
}
inline __device__ Rounded operator-(Rounded a, Rounded b) {
  return {__fsub_rn(a.value, b.value)};
}
inline __device__ Rounded operator*(Rounded a, Rounded b) {
  return {__fmul_rn(a.value, b.value)};
}
inline __device__ Rounded operator/(Rounded a, Rounded b) {
  return {__fdiv_rn(a.value, b.value)};
}
inline __device__ Rounded root(Rounded a) {
  return {__fsqrt_rn(a.value)};
}

}  // namespace lockstep::trainer::cuda
