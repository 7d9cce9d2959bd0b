#include <dnnl.h>
#include <dnnl_debug.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/dimensions.h"

namespace lockstep::trainer::backend::cpu {

namespace {

using core::RunContext;

enum class As { kIs, kTransposed };

class Base : public core::Kernel {
 public:
  Base(const core::Graph& graph, const core::Node& node, core::Bindings bindings, const Loops& loops, int threads)
      : node_(node),
        d_(dimensions_of(graph, node)),
        bindings_(std::move(bindings)),
        loops_(loops),
        threads_(static_cast<size_t>(threads)) {}

 protected:
  const float* x(size_t i = 0) const { return static_cast<const float*>(bindings_.inputs[i]); }
  const std::int32_t* indices(size_t i) const { return static_cast<const std::int32_t*>(bindings_.inputs[i]); }
  const float* parameter(size_t i) const { return static_cast<const float*>(bindings_.parameters[i]); }
  float* saved(size_t i) const { return static_cast<float*>(bindings_.saved[i]); }
  float* y() const { return static_cast<float*>(bindings_.output); }
  const float* dy() const { return static_cast<const float*>(bindings_.output_gradient); }
  float* dx(size_t i = 0) const { return static_cast<float*>(bindings_.input_gradients[i]); }
  bool accumulate(size_t i = 0) const { return bindings_.accumulate[i]; }
  float* dparameter(size_t i) const { return static_cast<float*>(bindings_.parameter_gradients[i]); }
  size_t elements() const { return d_.rows * d_.in; }

  // C (m, n) = A B, or C += A B; row-major with row strides; kTransposed reads a matrix stored as (n, k) or (k, m). Any
  // thread may call it; a failure is kept for products().
  void multiply(As a_as, As b_as, size_t m, size_t n, size_t k, const float* a, size_t a_stride, const float* b,
                size_t b_stride, float beta, float* c, size_t c_stride) {
    auto size = [](size_t v) { return static_cast<dnnl_dim_t>(v); };
    dnnl_status_t status = dnnl_sgemm(a_as == As::kIs ? 'N' : 'T', b_as == As::kIs ? 'N' : 'T', size(m), size(n),
                                      size(k), 1.0f, a, size(a_stride), b, size(b_stride), beta, c, size(c_stride));
    if (status != dnnl_success) failed_.store(status, std::memory_order_relaxed);
  }
  // Whether all products of the run succeeded.
  Status products() {
    dnnl_status_t status = failed_.exchange(dnnl_success, std::memory_order_relaxed);
    if (status == dnnl_success) return {};
    return fail(
        status == dnnl_out_of_memory ? ErrorCode::kExhausted : ErrorCode::kInternal,
        fmt::format("layer '{}': oneDNN could not multiply matrices ({})", node_.name, dnnl_status2str(status)));
  }

  // Calls body(begin, end) with one range of [0, count) for each thread, in multiples of `grain`.
  template <typename Body>
  void share(size_t count, size_t grain, const Body& body) const {
    if (threads_ == 1) {
      body(size_t{0}, count);
      return;
    }
    size_t part = ((count + threads_ - 1) / threads_ + grain - 1) / grain * grain;
    auto threads = static_cast<int>(threads_);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      size_t begin = std::min(count, static_cast<size_t>(i) * part);
      size_t end = std::min(count, begin + part);
      if (begin < end) body(begin, end);
    }
  }
  template <typename Body>
  void share_rows(const Body& body) const {
    share(d_.rows, 1, body);
  }
  template <typename Body>
  void share_elements(const Body& body) const {
    share(elements(), 64, body);
  }
  template <typename Body>
  void share_columns(size_t columns, const Body& body) const {
    share(columns, 64, body);
  }

  const core::Node& node_;
  Dimensions d_;
  core::Bindings bindings_;
  const Loops& loops_;
  size_t threads_;
  std::atomic<dnnl_status_t> failed_{dnnl_success};  // of a product
};

class Linear final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    bool bias = bindings_.parameters.size() > 1;
    if (bias) {
      share_rows(
          [&](size_t begin, size_t end) { loops_.fill_rows(parameter(1), end - begin, d_.out, y() + begin * d_.out); });
    }
    multiply(As::kIs, As::kTransposed, d_.rows, d_.out, d_.in, x(), d_.in, parameter(0), d_.in, bias ? 1.0f : 0.0f, y(),
             d_.out);
    return products();
  }
  Status backward(const RunContext&) override {
    multiply(As::kTransposed, As::kIs, d_.out, d_.in, d_.rows, dy(), d_.out, x(), d_.in, 1.0f, dparameter(0), d_.in);
    if (bindings_.parameters.size() > 1) {
      share_columns(d_.out, [&](size_t begin, size_t end) {
        loops_.add_column_sums(dy(), d_.rows, d_.out, begin, end, dparameter(1));
      });
    }
    if (dx() == nullptr) return products();
    multiply(As::kIs, As::kIs, d_.rows, d_.in, d_.out, dy(), d_.out, parameter(0), d_.in, accumulate() ? 1.0f : 0.0f,
             dx(), d_.in);
    return products();
  }
};

class Relu final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.relu(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements([&](size_t begin, size_t end) {
      loops_.relu_backward(y() + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

class Gelu final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.gelu(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements([&](size_t begin, size_t end) {
      loops_.gelu_backward(x() + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

class Embedding final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(0)));
    share_rows([&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        loops_.add(parameter(0) + row(r) * d_.out, parameter(1) + (r % d_.positions) * d_.out, d_.out,
                   y() + r * d_.out);
      }
    });
    return {};
  }
  // Two rows may share a character, so one thread adds them all: it is a small part of a step.
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(0)));
    for (size_t r = 0; r < d_.rows; ++r) {
      loops_.give(dy() + r * d_.out, d_.out, true, dparameter(0) + row(r) * d_.out);
      loops_.give(dy() + r * d_.out, d_.out, true, dparameter(1) + (r % d_.positions) * d_.out);
    }
    return {};
  }

 private:
  size_t row(size_t r) const { return static_cast<size_t>(indices(0)[r]); }
};

class Add final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.add(x(0) + begin, x(1) + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < 2; ++i) {
      if (dx(i) == nullptr) continue;
      share_elements(
          [&](size_t begin, size_t end) { loops_.give(dy() + begin, end - begin, accumulate(i), dx(i) + begin); });
    }
    return {};
  }
};

class LayerNorm final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_rows([&](size_t begin, size_t end) {
      loops_.layer_norm(x() + begin * d_.in, parameter(0), parameter(1), end - begin, d_.in,
                        static_cast<float>(node_.epsilon), saved(0) + begin, saved(1) + begin, y() + begin * d_.in);
    });
    return {};
  }
  Status backward(const RunContext&) override {
    share_columns(d_.in, [&](size_t begin, size_t end) {
      loops_.layer_norm_parameters(x(), saved(0), saved(1), dy(), d_.rows, d_.in, begin, end, dparameter(0),
                                   dparameter(1));
    });
    if (dx() == nullptr) return {};
    share_rows([&](size_t begin, size_t end) {
      loops_.layer_norm_backward(x() + begin * d_.in, parameter(0), saved(0) + begin, saved(1) + begin,
                                 dy() + begin * d_.in, end - begin, d_.in, accumulate(), dx() + begin * d_.in);
    });
    return {};
  }
};

class BatchNorm final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext& context) override {
    bool train = context.mode == RunContext::Mode::kTrain;
    share_columns(d_.in, [&](size_t begin, size_t end) {
      loops_.batch_norm(x(), parameter(0), parameter(1), d_.rows, d_.in, begin, end, static_cast<float>(node_.epsilon),
                        train, static_cast<const double*>(bindings_.statistics[0]),
                        static_cast<const double*>(bindings_.statistics[1]), bindings_.staged_statistics[0],
                        bindings_.staged_statistics[1], saved(0), saved(1), y());
    });
    return {};
  }
  Status backward(const RunContext&) override {
    share_columns(d_.in, [&](size_t begin, size_t end) {
      loops_.batch_norm_backward(x(), parameter(0), saved(0), saved(1), dy(), d_.rows, d_.in, begin, end, accumulate(),
                                 dx(), dparameter(0), dparameter(1));
    });
    return {};
  }
};

class Dropout final : public Base {
 public:
  Dropout(const core::Graph& graph, const core::Node& node, core::Bindings bindings, const Loops& loops, int threads)
      : Base(graph, node, std::move(bindings), loops, threads), layer_(core::derive(0, node.name)) {}
  Status forward(const RunContext& context) override {
    if (context.mode == RunContext::Mode::kTrain) {
      run(context, x(), false, y());
    } else {
      loops_.give(x(), elements(), false, y());
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    if (dx() != nullptr) run(context, dy(), accumulate(), dx());
    return {};
  }

 private:
  void run(const RunContext& context, const float* from, bool add, float* to) const {
    size_t each = elements() / d_.samples;
    auto factor = static_cast<float>(1.0 / (1.0 - node_.rate));
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        loops_.dropout(from + s * each, each, dropout_key(context, layer_, s), dropout_threshold(node_.rate), factor,
                       add, to + s * each);
      }
    });
  }
  std::uint64_t layer_;
};

// Products of the (positions, head) blocks that lie inside the rows of qkv, one sample and head after the other.
class CausalAttention final : public Base {
 public:
  CausalAttention(const core::Graph& graph, const core::Node& node, core::Bindings bindings, const Loops& loops,
                  int threads)
      : Base(graph, node, std::move(bindings), loops, threads),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_.head)))) {
    size_t matrix = d_.positions * d_.positions;
    scratch_.resize(threads_ * matrix);
  }
  Status forward(const RunContext&) override {
    size_t n = d_.positions;
    for_each_head([&](size_t, size_t s, size_t h) {
      const float* q = x() + s * n * d_.in + h * d_.head;
      float* p = saved(0) + (s * d_.heads + h) * n * n;
      multiply(As::kIs, As::kTransposed, n, n, d_.head, q, d_.in, q + d_.out, d_.in, 0.0f, p, n);
      loops_.causal_softmax(n, scale_, p);
      multiply(As::kIs, As::kIs, n, d_.head, n, p, n, q + 2 * d_.out, d_.in, 0.0f, y() + s * n * d_.out + h * d_.head,
               d_.out);
    });
    return products();
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    size_t n = d_.positions;
    float beta = accumulate() ? 1.0f : 0.0f;
    for_each_head([&](size_t thread, size_t s, size_t h) {
      const float* q = x() + s * n * d_.in + h * d_.head;
      const float* p = saved(0) + (s * d_.heads + h) * n * n;
      const float* g = dy() + s * n * d_.out + h * d_.head;
      float* dq = dx() + s * n * d_.in + h * d_.head;
      float* dp = scratch_.data() + thread * n * n;
      multiply(As::kIs, As::kTransposed, n, n, d_.head, g, d_.out, q + 2 * d_.out, d_.in, 0.0f, dp, n);
      multiply(As::kTransposed, As::kIs, n, d_.head, n, p, n, g, d_.out, beta, dq + 2 * d_.out, d_.in);
      loops_.causal_softmax_backward(p, n, scale_, dp);
      multiply(As::kIs, As::kIs, n, d_.head, n, dp, n, q + d_.out, d_.in, beta, dq, d_.in);
      multiply(As::kTransposed, As::kIs, n, d_.head, n, dp, n, q, d_.in, beta, dq + d_.out, d_.in);
    });
    return products();
  }

 private:
  // oneDNN uses one thread inside a parallel region, so each head is one thread's own.
  template <typename Body>
  void for_each_head(const Body& body) {
    size_t all = d_.samples * d_.heads;
    size_t part = (all + threads_ - 1) / threads_;
    share(all, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) body(begin / part, i / d_.heads, i % d_.heads);
    });
  }
  float scale_;
  std::vector<float> scratch_;
};

class SoftmaxCrossEntropy final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(1)));
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        size_t row = s * d_.positions;
        double nats = loops_.softmax_cross_entropy(x() + row * d_.in, indices(1) + row, d_.positions, d_.in,
                                                   saved(0) + row * d_.in);
        y()[s] = static_cast<float>(nats / static_cast<double>(d_.positions));
      }
    });
    return {};
  }
  Status backward(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(1)));
    auto scale = static_cast<float>(context.loss_scale / static_cast<double>(d_.positions));
    if (dx() == nullptr) return {};
    share_rows([&](size_t begin, size_t end) {
      loops_.softmax_cross_entropy_backward(saved(0) + begin * d_.in, indices(1) + begin, end - begin, d_.in, scale,
                                            accumulate(), dx() + begin * d_.in);
    });
    return {};
  }
};

class MeanSquaredError final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    size_t each = elements() / d_.samples;
    for (size_t s = 0; s < d_.samples; ++s) {
      double sum = loops_.squared_error(x(0) + s * each, x(1) + s * each, each);
      y()[s] = static_cast<float>(sum / static_cast<double>(each));
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    if (dx() == nullptr) return {};
    double each = static_cast<double>(elements()) / static_cast<double>(d_.samples);
    auto scale = static_cast<float>(2 * context.loss_scale / each);
    share_elements([&](size_t begin, size_t end) {
      loops_.squared_error_backward(x(0) + begin, x(1) + begin, end - begin, scale, accumulate(), dx() + begin);
    });
    return {};
  }
};

template <typename K>
std::unique_ptr<core::Kernel> make(const core::Graph& graph, const core::Node& node, core::Bindings&& bindings,
                                   const Loops& loops, int threads) {
  return std::make_unique<K>(graph, node, std::move(bindings), loops, threads);
}

}  // namespace

std::unique_ptr<core::Kernel> make_kernel(const core::Graph& graph, const core::Node& node, core::Bindings bindings,
                                          const Loops& loops, int threads) {
  using core::OpKind;
  auto chosen = [&] {
    switch (node.op) {
      case OpKind::kLinear:
        return make<Linear>;
      case OpKind::kRelu:
        return make<Relu>;
      case OpKind::kGelu:
        return make<Gelu>;
      case OpKind::kEmbedding:
        return make<Embedding>;
      case OpKind::kAdd:
        return make<Add>;
      case OpKind::kLayerNorm:
        return make<LayerNorm>;
      case OpKind::kBatchNorm:
        return make<BatchNorm>;
      case OpKind::kDropout:
        return make<Dropout>;
      case OpKind::kCausalAttention:
        return make<CausalAttention>;
      case OpKind::kSoftmaxCrossEntropy:
        return make<SoftmaxCrossEntropy>;
      case OpKind::kMeanSquaredError:
        return make<MeanSquaredError>;
    }
    return make<Relu>;
  };
  return chosen()(graph, node, std::move(bindings), loops, threads);
}

}  // namespace lockstep::trainer::backend::cpu
