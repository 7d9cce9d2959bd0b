#include <cmath>
#include <utility>
#include <vector>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

// For each sample and head: softmax over the positions up to one's own of q k / sqrt(head), applied to v.
class CausalAttentionKernel final : public Base {
 public:
  CausalAttentionKernel(const core::ops::CausalAttention& op, Site site)
      : Base(std::move(site)), heads_(static_cast<size_t>(op.heads)), head_(d_.out / heads_) {}
  Status forward(const RunContext&) override {
    for_each_row([&](size_t s, size_t h, size_t t, double* p) {
      double largest = -HUGE_VAL, sum = 0;
      for (size_t u = 0; u <= t; ++u) {
        p[u] = 0;
        for (size_t i = 0; i < head_; ++i) p[u] += x()[at(s, t, h, 0, i)] * x()[at(s, u, h, 1, i)] * scale();
        largest = std::fmax(largest, p[u]);
      }
      for (size_t u = 0; u <= t; ++u) sum += p[u] = std::exp(p[u] - largest);
      for (size_t u = 0; u < d_.positions; ++u) p[u] = u <= t ? p[u] / sum : 0;
      for (size_t i = 0; i < head_; ++i) {
        double value = 0;
        for (size_t u = 0; u <= t; ++u) value += p[u] * x()[at(s, u, h, 2, i)];
        y()[out(s, t, h, i)] = value;
      }
    });
    return {};
  }
  Status backward(const RunContext&) override {
    std::vector<double> dx(elements());
    std::vector<double> dp(d_.positions);
    for_each_row([&](size_t s, size_t h, size_t t, const double* p) {
      double dot = 0;
      for (size_t u = 0; u <= t; ++u) {
        dp[u] = 0;
        for (size_t i = 0; i < head_; ++i) {
          dp[u] += dy()[out(s, t, h, i)] * x()[at(s, u, h, 2, i)];
          dx[at(s, u, h, 2, i)] += p[u] * dy()[out(s, t, h, i)];
        }
        dot += p[u] * dp[u];
      }
      for (size_t u = 0; u <= t; ++u) {
        double score = p[u] * (dp[u] - dot) * scale();
        for (size_t i = 0; i < head_; ++i) {
          dx[at(s, t, h, 0, i)] += score * x()[at(s, u, h, 1, i)];
          dx[at(s, u, h, 1, i)] += score * x()[at(s, t, h, 0, i)];
        }
      }
    });
    for (size_t i = 0; i < dx.size(); ++i) give(0, i, dx[i]);
    return {};
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_)); }
  // part 0: query, 1: key, 2: value
  size_t at(size_t s, size_t t, size_t h, size_t part, size_t i) const {
    return (s * d_.positions + t) * d_.in + part * d_.out + h * head_ + i;
  }
  size_t out(size_t s, size_t t, size_t h, size_t i) const { return (s * d_.positions + t) * d_.out + h * head_ + i; }
  template <typename Body>
  void for_each_row(const Body& body) const {
    for (size_t s = 0; s < d_.samples; ++s) {
      for (size_t h = 0; h < heads_; ++h) {
        for (size_t t = 0; t < d_.positions; ++t) {
          body(s, h, t, kept(0) + ((s * heads_ + h) * d_.positions + t) * d_.positions);
        }
      }
    }
  }

  size_t heads_;
  size_t head_;  // features of one head
};

}  // namespace

// Keeps the probabilities (B, heads, T, T).
Needs needs_of(const core::ops::CausalAttention& op, const Dimensions& d) {
  return {.reads_inputs = true, .keeps = {d.rows * static_cast<size_t>(op.heads) * d.positions}};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::CausalAttention& op, Site site) {
  return std::make_unique<CausalAttentionKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
