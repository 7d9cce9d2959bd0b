#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/multiply.h"

namespace lockstep::trainer::backend::cpu {

namespace {

// Products of the (positions, head) blocks that lie inside the rows of qkv, one sample and head after the other. A
// row sees no later position, so a block of rows is multiplied with the columns before the block's end. The kernel
// neither writes nor reads probabilities and their gradients beyond these.
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
      const float *k = q + d_.out, *v = k + d_.out;
      float* p = kept(0) + (s * heads_ + h) * n * n;
      float* sums = y() + s * n * d_.out + h * head_;
      for_each_block([&](size_t begin, size_t end) {
        float* rows = p + begin * n;
        products_.multiply(As::kIs, As::kTransposed, end - begin, end, head_, q + begin * d_.in, d_.in, k, d_.in, 0.0f,
                           rows, n);
        kernels_.causal_softmax(n, begin, end, scale_, p);
        products_.multiply(As::kIs, As::kIs, end - begin, head_, end, rows, n, v, d_.in, 0.0f, sums + begin * d_.out,
                           d_.out);
      });
    });
    return products_.take(node());
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    size_t n = d_.positions;
    float beta = accumulate() ? 1.0f : 0.0f;
    for_each_head([&](size_t thread, size_t s, size_t h) {
      const float* q = x() + s * n * d_.in + h * head_;
      const float *k = q + d_.out, *v = k + d_.out;
      const float* p = kept(0) + (s * heads_ + h) * n * n;
      const float* g = dy() + s * n * d_.out + h * head_;
      float* dq = dx() + s * n * d_.in + h * head_;
      float *dk = dq + d_.out, *dv = dk + d_.out;
      float* dp = static_cast<float*>(bindings().backward_scratch) + thread * n * n;
      for_each_block([&](size_t begin, size_t end) {
        float* rows = dp + begin * n;
        products_.multiply(As::kIs, As::kTransposed, end - begin, end, head_, g + begin * d_.out, d_.out, v, d_.in,
                           0.0f, rows, n);
        kernels_.causal_softmax_backward(p, n, begin, end, scale_, dp);
        products_.multiply(As::kIs, As::kIs, end - begin, head_, end, rows, n, k, d_.in, beta, dq + begin * d_.in,
                           d_.in);
      });
      // A block of keys and values adds up the rows from its own first one on, which see it.
      for_each_block([&](size_t begin, size_t end) {
        const size_t corner = begin * n + begin;
        products_.multiply(As::kTransposed, As::kIs, end - begin, head_, n - begin, p + corner, n, g + begin * d_.out,
                           d_.out, beta, dv + begin * d_.in, d_.in);
        products_.multiply(As::kTransposed, As::kIs, end - begin, head_, n - begin, dp + corner, n, q + begin * d_.in,
                           d_.in, beta, dk + begin * d_.in, d_.in);
      });
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
  // Positions of one block. A smaller block computes less of what the mask drops, but its products are slower.
  static constexpr size_t kBlock = 64;
  // Calls body(begin, end) for each block of positions, in their order.
  template <typename Body>
  void for_each_block(const Body& body) const {
    for (size_t begin = 0; begin < d_.positions; begin += kBlock) body(begin, std::min(begin + kBlock, d_.positions));
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
