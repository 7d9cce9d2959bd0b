#include "tests/bench/trainer/product_bound.h"

#include <dnnl.h>
#include <dnnl_debug.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <variant>

namespace lockstep::bench {

namespace core = trainer::core;

ProductBound::ProductBound(const core::Graph& graph, std::int64_t batch, int threads) : threads_(threads) {
  for (const core::Node& node : graph.nodes) {
    if (std::holds_alternative<core::ops::Linear>(node.op)) append_linear(graph, node);
    if (std::holds_alternative<core::ops::CausalAttention>(node.op)) append_attention(graph, node, batch);
  }
  size_t a = 0, b = 0, c = 0;
  for (const auto* products : {&forward_, &backward_data_, &backward_weights_}) {
    for (const Product& product : *products) {
      a = std::max(a, static_cast<size_t>(product.m * product.k));
      b = std::max(b, static_cast<size_t>(product.k * product.n));
      c = std::max(c, static_cast<size_t>(product.m * product.n));
    }
  }
  a_.resize(a, 0.01f), b_.resize(b, 0.01f), c_.resize(c * static_cast<size_t>(threads));
}

void ProductBound::append_linear(const core::Graph& graph, const core::Node& node) {
  const core::Shape& in = graph.tensor(node.inputs[0]).shape;
  const std::int64_t rows = in[0], inputs = in[1], outputs = graph.tensor(node.output).shape[1];
  forward_.push_back({false, true, rows, outputs, inputs, 1});
  backward_weights_.push_back({true, false, outputs, inputs, rows, 1});
  if (graph.tensor(node.inputs[0]).has_gradient) backward_data_.push_back({false, false, rows, inputs, outputs, 1});
}

// Half of each product of positions with positions counts, because a position does not see those after it.
void ProductBound::append_attention(const core::Graph& graph, const core::Node& node, std::int64_t batch) {
  const core::Shape& out = graph.tensor(node.output).shape;
  const std::int64_t heads = std::get<core::ops::CausalAttention>(node.op).heads;
  const std::int64_t positions = out[0] / batch, half = (positions + 1) / 2, head = out[1] / heads;
  const std::int64_t times = batch * heads;
  forward_.push_back({false, true, half, positions, head, times});         // scores
  forward_.push_back({false, false, half, head, positions, times});        // sums of values
  backward_data_.push_back({false, true, half, positions, head, times});   // gradients of scores
  backward_data_.push_back({true, false, half, head, positions, times});   // of values
  backward_data_.push_back({false, false, half, head, positions, times});  // of queries
  backward_data_.push_back({true, false, half, head, positions, times});   // of keys
}

void ProductBound::run_once(const Product& product, float* c) const {
  const dnnl_status_t status =
      dnnl_sgemm(product.a_transposed ? 'T' : 'N', product.b_transposed ? 'T' : 'N', product.m, product.n, product.k,
                 1.0f, a_.data(), product.a_transposed ? product.m : product.k, b_.data(),
                 product.b_transposed ? product.k : product.n, 0.0f, c, product.n);
  if (status == dnnl_success) return;
  fmt::print(stderr, "training_step_bench: oneDNN could not multiply matrices ({})\n", dnnl_status2str(status));
  std::abort();
}

void ProductBound::run(const std::vector<Product>& products) {
  const size_t part = c_.size() / static_cast<size_t>(threads_);
  for (const Product& product : products) {
    if (product.times == 1) {
      run_once(product, c_.data());
      continue;
    }
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < product.times; ++i) {
        run_once(product, c_.data() + part * static_cast<size_t>(omp_get_thread_num()));
      }
    }
  }
}

}  // namespace lockstep::bench
