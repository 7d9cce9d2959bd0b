// What the matrix products of a graph's linear layers and attention cost at least with oneDNN. Each product runs by
// itself, over memory without gaps, with no bias, softmax or other layer between them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/trainer/bound.h"

namespace lockstep::bench {

class ProductBound final : public Bound {
 public:
  ProductBound(const trainer::core::Graph& graph, std::int64_t batch, int threads);
  const char* what() const override { return "matrix products"; }
  void forward() override { run(forward_); }
  void backward_data() override { run(backward_data_); }
  void backward_weights() override { run(backward_weights_); }

 private:
  // C (m, n) = A B of A (m, k) and B (k, n), `times` times. Threads share the times if there are several, else the
  // product.
  struct Product {
    bool a_transposed, b_transposed;
    std::int64_t m, n, k, times;
  };
  void append_linear(const trainer::core::Graph& graph, const trainer::core::Node& node);
  void append_attention(const trainer::core::Graph& graph, const trainer::core::Node& node, std::int64_t batch);
  void run(const std::vector<Product>& products);
  void run_once(const Product& product, float* c) const;

  int threads_;
  std::vector<Product> forward_, backward_data_, backward_weights_;
  std::vector<float> a_, b_, c_;  // what all products read; what they write, a part for each thread
};

}  // namespace lockstep::bench
