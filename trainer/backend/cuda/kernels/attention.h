// Multi-head self-attention in which a position sees itself and the positions before it.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

struct AttentionShape {
  std::int64_t samples = 0;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t head = 0;  // features of one head

  std::int64_t width() const { return heads * head; }
  std::int64_t probabilities() const { return samples * heads * positions * positions; }
};

// y = softmax(q k / sqrt(head)) v for each sample and head. qkv (samples * positions, 3 * width): queries, keys and
// values side by side; y (samples * positions, width); p (samples, heads, positions, positions) is written for the
// backward pass, with zeros after a position's own. kInvalidValue: the positions need more shared memory than a block
// has (more than kMaxPositions).
template <typename Element>
CudaError causal_attention_forward(CudaStream* stream, const AttentionShape& shape, const Element* qkv, float* p,
                                   Element* y);

// dqkv (+)= the gradients of queries, keys and values.
template <typename Element>
CudaError causal_attention_backward(CudaStream* stream, const AttentionShape& shape, const Element* qkv, const float* p,
                                    const Element* dy, Element* dqkv, bool accumulate, void* scratch);
// Bytes of scratch of causal_attention_backward.
size_t causal_attention_scratch(const AttentionShape& shape);

// Scores of one position are in shared memory, of which a block has 48 KiB without asking for more.
inline constexpr std::int64_t kMaxPositions = 8192;

}  // namespace lockstep::trainer::cuda
