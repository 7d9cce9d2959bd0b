#include <cmath>
#include <utility>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/multiply.h"

namespace lockstep::trainer::backend::cpu {

namespace {

// Products of the (positions, head) blocks that lie inside the rows of qkv, one sample and head after the other.
class CausalAttentionKernel final : public Base {
 public:
  CausalAttentionKernel(const core::ops::CausalAttention& op, Site site)
      : Base(std::move(site)),
        heads_(static_cast<size_t>(op.heads)),
        head_(d_.out / heads_),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_)))) {}
  Status forward(const RunContext&) override {
    size_t n = d_.positions;
    for_each_head([&](size_t, size_t s, size_t h) {
      const float* q = x() + s * n * d_.in + h * head_;
      float* p = kept(0) + (s * heads_ + h) * n * n;
      products_.multiply(As::kIs, As::kTransposed, n, n, head_, q, d_.in, q + d_.out, d_.in, 0.0f, p, n);
      kernels_.causal_softmax(n, scale_, p);
      products_.multiply(As::kIs, As::kIs, n, head_, n, p, n, q + 2 * d_.out, d_.in, 0.0f,
                         y() + s * n * d_.out + h * head_, d_.out);
    });
    return products_.take(node());
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    size_t n = d_.positions;
    float beta = accumulate() ? 1.0f : 0.0f;
    for_each_head([&](size_t thread, size_t s, size_t h) {
      const float* q = x() + s * n * d_.in + h * head_;
      const float* p = kept(0) + (s * heads_ + h) * n * n;
      const float* g = dy() + s * n * d_.out + h * head_;
      float* dq = dx() + s * n * d_.in + h * head_;
      float* dp = static_cast<float*>(bindings().backward_scratch) + thread * n * n;
      products_.multiply(As::kIs, As::kTransposed, n, n, head_, g, d_.out, q + 2 * d_.out, d_.in, 0.0f, dp, n);
      products_.multiply(As::kTransposed, As::kIs, n, head_, n, p, n, g, d_.out, beta, dq + 2 * d_.out, d_.in);
      kernels_.causal_softmax_backward(p, n, scale_, dp);
      products_.multiply(As::kIs, As::kIs, n, head_, n, dp, n, q + d_.out, d_.in, beta, dq, d_.in);
      products_.multiply(As::kTransposed, As::kIs, n, head_, n, dp, n, q, d_.in, beta, dq + d_.out, d_.in);
    });
    return products_.take(node());
  }

 private:
  // oneDNN uses one thread inside a parallel region, so each head is one thread's own.
  template <typename Body>
  void for_each_head(const Body& body) {
    size_t all = d_.samples * heads_;
    size_t part = (all + threads_ - 1) / threads_;
    share(all, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) body(begin / part, i / heads_, i % heads_);
    });
  }
  size_t heads_;
  size_t head_;  // features of one head
  float scale_;
  Products products_;
};

}  // namespace

// Keeps the probabilities (B, heads, T, T).
Needs needs_of(const core::ops::CausalAttention& op, const Dimensions& d, const Team& team) {
  return {.reads_inputs = true,
          .keeps = {d.rows * static_cast<size_t>(op.heads) * d.positions},
          .backward_scratch = team.threads * d.positions * d.positions};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::CausalAttention& op, Site site) {
  return std::make_unique<CausalAttentionKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
