#include "trainer/backend/cuda/kernels/attention.h"

#include "trainer/backend/cuda/kernels/device.h"

// A warp, which is a block of its own, computes one position of one head.

namespace lockstep::trainer::cuda {

namespace {

// The sizes, and where things of one sample and head are. Features of a position are `head` numbers side by side.
struct Heads {
  std::int64_t positions, heads, head;
  float scale;  // 1 / sqrt(head)

  __device__ std::int64_t width() const { return heads * head; }
  // Of position t in qkv; `part` 0: query, 1: key, 2: value.
  __device__ std::int64_t at(std::int64_t sample_head, std::int64_t t, int part) const {
    return (sample_head / heads * positions + t) * 3 * width() + part * width() + sample_head % heads * head;
  }
  // Of position t in the output.
  __device__ std::int64_t out(std::int64_t sample_head, std::int64_t t) const {
    return (sample_head / heads * positions + t) * width() + sample_head % heads * head;
  }
  // Of position t's row of probabilities.
  __device__ std::int64_t row(std::int64_t sample_head, std::int64_t t) const {
    return (sample_head * positions + t) * positions;
  }
};

template <typename Element>
__device__ float dot(const Element* a, const Element* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += wide(a[i]) * wide(b[i]);
  return sum;
}

template <typename Element>
__global__ void forward_kernel(Heads k, const Element* qkv, float* p, Element* y) {
  LOCKSTEP_DYNAMIC_SHARED(float, scores);  // (positions)
  const std::int64_t sh = blockIdx.x / k.positions, t = blockIdx.x % k.positions, lane = lane_of_thread();
  const Element* query = qkv + k.at(sh, t, 0);
  float largest = -INFINITY;
  for (std::int64_t u = lane; u <= t; u += kWarpSize) {
    const float score = dot(query, qkv + k.at(sh, u, 1), k.head);
    largest = score > largest ? score : largest;
    scores[u] = score;
  }
  largest = warp_max(largest);
  float sum = 0;
  for (std::int64_t u = lane; u <= t; u += kWarpSize) {
    const float e = expf((scores[u] - largest) * k.scale);
    scores[u] = e;
    sum += e;
  }
  const float share = 1.0f / warp_sum(sum);
  float* row = p + k.row(sh, t);
  for (std::int64_t u = lane; u < k.positions; u += kWarpSize) {
    const float probability = u <= t ? scores[u] * share : 0.0f;
    row[u] = probability;
    scores[u] = probability;
  }
  __syncthreads();
  for (std::int64_t i = lane; i < k.head; i += kWarpSize) {
    float value = 0;
    for (std::int64_t u = 0; u <= t; ++u) value += scores[u] * wide(qkv[k.at(sh, u, 2) + i]);
    y[k.out(sh, t) + i] = rounded<Element>(value);
  }
}

// The gradients of the scores into ds (as p), and of the queries.
template <typename Element>
__global__ void backward_queries_kernel(Heads k, const Element* qkv, const float* p, const Element* dy, float* ds,
                                        Element* dqkv, bool accumulate) {
  LOCKSTEP_DYNAMIC_SHARED(float, scores);  // (positions)
  const std::int64_t sh = blockIdx.x / k.positions, t = blockIdx.x % k.positions, lane = lane_of_thread();
  const Element* g = dy + k.out(sh, t);
  const float* row = p + k.row(sh, t);
  float along = 0;
  for (std::int64_t u = lane; u <= t; u += kWarpSize) {
    const float dp = dot(g, qkv + k.at(sh, u, 2), k.head);
    along += row[u] * dp;
    scores[u] = dp;
  }
  along = warp_sum(along);
  for (std::int64_t u = lane; u <= t; u += kWarpSize) {
    const float score = row[u] * (scores[u] - along) * k.scale;
    ds[k.row(sh, t) + u] = score;
    scores[u] = score;
  }
  __syncthreads();
  for (std::int64_t i = lane; i < k.head; i += kWarpSize) {
    float value = 0;
    for (std::int64_t u = 0; u <= t; ++u) value += scores[u] * wide(qkv[k.at(sh, u, 1) + i]);
    put(dqkv + k.at(sh, t, 0) + i, value, accumulate);
  }
}

// The gradients of the key and the value at position u, from all positions that see it.
template <typename Element>
__global__ void backward_keys_kernel(Heads k, const Element* qkv, const float* p, const Element* dy, const float* ds,
                                     Element* dqkv, bool accumulate) {
  const std::int64_t sh = blockIdx.x / k.positions, u = blockIdx.x % k.positions;
  for (std::int64_t i = lane_of_thread(); i < k.head; i += kWarpSize) {
    float key = 0, value = 0;
    for (std::int64_t t = u; t < k.positions; ++t) {
      key += ds[k.row(sh, t) + u] * wide(qkv[k.at(sh, t, 0) + i]);
      value += p[k.row(sh, t) + u] * wide(dy[k.out(sh, t) + i]);
    }
    put(dqkv + k.at(sh, u, 1) + i, key, accumulate);
    put(dqkv + k.at(sh, u, 2) + i, value, accumulate);
  }
}

Heads heads_of(const AttentionShape& shape) {
  return {shape.positions, shape.heads, shape.head, static_cast<float>(1.0 / sqrt(static_cast<double>(shape.head)))};
}

std::int64_t blocks_of(const AttentionShape& shape) {
  return shape.samples * shape.heads * shape.positions;
}

size_t shared_bytes(const AttentionShape& shape) {
  return static_cast<size_t>(shape.positions) * sizeof(float);
}

}  // namespace

template <typename Element>
CudaError causal_attention_forward(CudaStream* stream, const AttentionShape& shape, const Element* qkv, float* p,
                                   Element* y) {
  if (shape.positions > kMaxPositions) return CudaError::kInvalidValue;
  return launch(forward_kernel<Element>, blocks_of(shape), kWarpSize, shared_bytes(shape), stream, heads_of(shape), qkv,
                p, y);
}

template <typename Element>
CudaError causal_attention_backward(CudaStream* stream, const AttentionShape& shape, const Element* qkv, const float* p,
                                    const Element* dy, Element* dqkv, bool accumulate, void* scratch) {
  if (shape.positions > kMaxPositions) return CudaError::kInvalidValue;
  auto* ds = static_cast<float*>(scratch);
  const CudaError error = launch(backward_queries_kernel<Element>, blocks_of(shape), kWarpSize, shared_bytes(shape),
                                 stream, heads_of(shape), qkv, p, dy, ds, dqkv, accumulate);
  if (error != CudaError::kSuccess) return error;
  return launch(backward_keys_kernel<Element>, blocks_of(shape), kWarpSize, 0, stream, heads_of(shape), qkv, p, dy, ds,
                dqkv, accumulate);
}

size_t causal_attention_scratch(const AttentionShape& shape) {
  return static_cast<size_t>(shape.probabilities()) * sizeof(float);
}

#define LOCKSTEP_INSTANTIATE(Element)                                                                                \
  template CudaError causal_attention_forward(CudaStream*, const AttentionShape&, const Element*, float*, Element*); \
  template CudaError causal_attention_backward(CudaStream*, const AttentionShape&, const Element*, const float*,     \
                                               const Element*, Element*, bool, void*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bfloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trainer::cuda
