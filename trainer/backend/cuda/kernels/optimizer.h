// The rules of core/optimizer.h over one segment of the arenas, bit by bit as trainer/optim does it on the host. With
// the digest (core/digest.h) of what they wrote.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

struct SgdScalars {
  float momentum = 0, rate = 0, decay = 0, scale = 1;
  bool nesterov = false;
};

struct AdamWScalars {
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float rate = 0;         // the learning rate over the first moment's bias
  float correction2 = 0;  // 1 over the second moment's bias
  float keep = 1;         // the share of a parameter that its decay leaves
  float scale = 1;        // of gradients
};

struct LarsScalars {
  double momentum = 0;
  double rate = 0;  // the learning rate, without the tensor's ratio
  double decay = 0;
  double scale = 1;  // of gradients
  double trust_coefficient = 0;
  bool trust_ratio = false;  // else the ratio is 1
};

// Each updates `count` parameters and slots in place and adds the digest of all of them to *digest. The caller clears
// that before the first segment. `segment` is its number in the layout.

CudaError sgd_update(CudaStream* stream, const SgdScalars& scalars, std::int64_t segment, float* parameters,
                     const float* gradients, float* momentum, std::int64_t count, std::uint64_t* digest);

CudaError adamw_update(CudaStream* stream, const AdamWScalars& scalars, std::int64_t segment, float* parameters,
                       const float* gradients, float* first_moment, float* second_moment, std::int64_t count,
                       std::uint64_t* digest);

// `norms`: those of the parameters and of the gradients before the update, as norm() wrote them; not read unless
// scalars.trust_ratio.
CudaError lars_update(CudaStream* stream, const LarsScalars& scalars, std::int64_t segment, const double* norms,
                      float* parameters, const float* gradients, float* momentum, std::int64_t count,
                      std::uint64_t* digest);

}  // namespace lockstep::trainer::cuda
