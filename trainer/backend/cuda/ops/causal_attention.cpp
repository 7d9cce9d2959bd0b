#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/attention.h"

namespace lockstep::trainer::backend::cuda {

namespace {

trainer::cuda::AttentionShape shape_of(const core::ops::CausalAttention& op, const Dimensions& d) {
  return {.samples = static_cast<std::int64_t>(d.samples),
          .positions = static_cast<std::int64_t>(d.positions),
          .heads = op.heads,
          .head = static_cast<std::int64_t>(d.out) / op.heads};
}

class CausalAttentionKernel final : public Base {
 public:
  CausalAttentionKernel(const core::ops::CausalAttention& op, Site site)
      : Base(std::move(site)), shape_(shape_of(op, d_)) {}
  Status forward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::causal_attention_forward(stream(), shape_, x<E>(), kept(0), y<E>());
    });
  }
  Status backward(const RunContext&) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::causal_attention_backward(stream(), shape_, x<E>(), kept(0), dy<E>(), dx<E>(), accumulate(),
                                                      bindings().backward_scratch);
    });
  }

 private:
  const trainer::cuda::AttentionShape shape_;
};

}  // namespace

// Keeps the probabilities (B, heads, T, T).
Needs needs_of(const core::ops::CausalAttention& op, const Dimensions& d) {
  const trainer::cuda::AttentionShape shape = shape_of(op, d);
  return {.reads_inputs = true,
          .keeps = {static_cast<size_t>(shape.probabilities())},
          .backward_scratch = floats_of(trainer::cuda::causal_attention_scratch(shape))};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::CausalAttention& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<CausalAttentionKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
