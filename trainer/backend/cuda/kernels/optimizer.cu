#include "trainer/backend/cuda/kernels/optimizer.h"

#include "trainer/backend/cuda/kernels/device.h"
#include "trainer/backend/cuda/kernels/digest.h"
#include "trainer/backend/cuda/kernels/rounded.h"
#include "trainer/core/parallel.h"

// A block of threads updates a block of core::kBlock elements and then takes its digest.

namespace lockstep::trainer::cuda {

namespace {

constexpr std::int64_t kElements = core::kBlock;

// The elements that the running block of threads updates.
struct Elements {
  std::int64_t begin, count;
};

__device__ Elements elements_of_block(std::int64_t count) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kElements;
  return {begin, count - begin < kElements ? count - begin : kElements};
}

// Adds the digest of what the block has written to *digest: of the parameters, then of each slot. `second` is null for
// a rule with one slot.
__device__ void add_digest(std::int64_t segment, Elements k, const float* parameters, const float* first,
                           const float* second, unsigned long long* digest) {
  LOCKSTEP_SHARED(std::uint64_t, lanes, 3 * kDigestLanes);
  const int parts = second == nullptr ? 2 : 3, part = static_cast<int>(threadIdx.x) / kDigestLanes;
  __syncthreads();  // the block has written all of its elements
  if (part < parts) {
    const float* array = part == 0 ? parameters : part == 1 ? first : second;
    lanes[threadIdx.x] = digest_lane(array + k.begin, k.count, static_cast<int>(threadIdx.x) % kDigestLanes);
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= parts) return;
  const auto thread = static_cast<std::uint64_t>(threadIdx.x);
  // The number of the array is core::array_of(segment, thread, parts - 1).
  const auto array = static_cast<std::uint64_t>(segment) * static_cast<std::uint64_t>(parts) + thread;
  const std::uint64_t share = digest_of_lanes(lanes + threadIdx.x * kDigestLanes, array, blockIdx.x, k.count);
  atomicAdd(digest, static_cast<unsigned long long>(share));
}

__global__ void sgd_kernel(SgdScalars k, std::int64_t segment, float* parameters, const float* gradients,
                           float* momentum, std::int64_t count, unsigned long long* digest) {
  const Elements block = elements_of_block(count);
  const Rounded keep{k.momentum}, rate{k.rate}, decay{k.decay}, scale{k.scale};
  for (std::int64_t i = block.begin + threadIdx.x; i < block.begin + block.count; i += kThreads) {
    const Rounded p{parameters[i]};
    const Rounded d = Rounded{gradients[i]} * scale + decay * p;
    const Rounded v = keep * Rounded{momentum[i]} + d;
    momentum[i] = v.value;
    parameters[i] = (p - rate * (k.nesterov ? d + keep * v : v)).value;
  }
  add_digest(segment, block, parameters, momentum, nullptr, digest);
}

__global__ void adamw_kernel(AdamWScalars k, std::int64_t segment, float* parameters, const float* gradients,
                             float* first_moment, float* second_moment, std::int64_t count,
                             unsigned long long* digest) {
  const Elements block = elements_of_block(count);
  const Rounded one{1}, beta1{k.beta1}, beta2{k.beta2}, epsilon{k.epsilon};
  const Rounded rate{k.rate}, correction2{k.correction2}, keep{k.keep}, scale{k.scale};
  for (std::int64_t i = block.begin + threadIdx.x; i < block.begin + block.count; i += kThreads) {
    const Rounded g = Rounded{gradients[i]} * scale;
    const Rounded m = beta1 * Rounded{first_moment[i]} + (one - beta1) * g;
    const Rounded v = beta2 * Rounded{second_moment[i]} + (one - beta2) * (g * g);
    first_moment[i] = m.value;
    second_moment[i] = v.value;
    parameters[i] = (Rounded{parameters[i]} * keep - rate * m / (root(v * correction2) + epsilon)).value;
  }
  add_digest(segment, block, parameters, first_moment, second_moment, digest);
}

// The ratio of optim/lars.cpp; `norms` of parameters and gradients.
__device__ double trust_ratio(const LarsScalars& k, const double* norms) {
  const double parameters = norms[0], gradients = __dmul_rn(norms[1], k.scale);
  const double divisor = __dadd_rn(gradients, __dmul_rn(k.decay, parameters));
  return parameters > 0 && divisor > 0 ? __ddiv_rn(__dmul_rn(k.trust_coefficient, parameters), divisor) : 1.0;
}

__global__ void lars_kernel(LarsScalars k, std::int64_t segment, const double* norms, float* parameters,
                            const float* gradients, float* momentum, std::int64_t count, unsigned long long* digest) {
  const Elements block = elements_of_block(count);
  const double ratio = k.trust_ratio ? trust_ratio(k, norms) : 1.0;
  const Rounded keep{static_cast<float>(k.momentum)}, rate{static_cast<float>(__dmul_rn(k.rate, ratio))};
  const Rounded decay{static_cast<float>(k.decay)}, scale{static_cast<float>(k.scale)};
  for (std::int64_t i = block.begin + threadIdx.x; i < block.begin + block.count; i += kThreads) {
    const Rounded p{parameters[i]};
    const Rounded v = keep * Rounded{momentum[i]} + rate * (Rounded{gradients[i]} * scale + decay * p);
    momentum[i] = v.value;
    parameters[i] = (p - v).value;
  }
  add_digest(segment, block, parameters, momentum, nullptr, digest);
}

unsigned long long* as_atomic(std::uint64_t* sum) {
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long));
  return reinterpret_cast<unsigned long long*>(sum);
}

}  // namespace

CudaError sgd_update(CudaStream* stream, const SgdScalars& scalars, std::int64_t segment, float* parameters,
                     const float* gradients, float* momentum, std::int64_t count, std::uint64_t* digest) {
  return launch(sgd_kernel, blocks_for(count, kElements), kThreads, 0, stream, scalars, segment, parameters, gradients,
                momentum, count, as_atomic(digest));
}

CudaError adamw_update(CudaStream* stream, const AdamWScalars& scalars, std::int64_t segment, float* parameters,
                       const float* gradients, float* first_moment, float* second_moment, std::int64_t count,
                       std::uint64_t* digest) {
  return launch(adamw_kernel, blocks_for(count, kElements), kThreads, 0, stream, scalars, segment, parameters,
                gradients, first_moment, second_moment, count, as_atomic(digest));
}

CudaError lars_update(CudaStream* stream, const LarsScalars& scalars, std::int64_t segment, const double* norms,
                      float* parameters, const float* gradients, float* momentum, std::int64_t count,
                      std::uint64_t* digest) {
  return launch(lars_kernel, blocks_for(count, kElements), kThreads, 0, stream, scalars, segment, norms, parameters,
                gradients, momentum, count, as_atomic(digest));
}

}  // namespace lockstep::trainer::cuda
