#include <cmath>
#include <utility>
#include <vector>

#include "trainer/backend/ref/ref_backend.h"

namespace lockstep::trainer::backend::ref {

namespace {

using core::RunContext;

// What all kernels share: addresses by short names. Row-major, (rows, features).
class Base : public core::Kernel {
 public:
  Base(const core::Graph& graph, const core::Node& node, core::Bindings bindings)
      : node_(node), d_(dimensions_of(graph, node)), bindings_(std::move(bindings)) {}

 protected:
  const double* x(size_t i = 0) const { return static_cast<const double*>(bindings_.inputs[i]); }
  const std::int32_t* indices(size_t i) const { return static_cast<const std::int32_t*>(bindings_.inputs[i]); }
  const double* parameter(size_t i) const { return static_cast<const double*>(bindings_.parameters[i]); }
  double* saved(size_t i) const { return static_cast<double*>(bindings_.saved[i]); }
  double* y() const { return static_cast<double*>(bindings_.output); }
  const double* dy() const { return static_cast<const double*>(bindings_.output_gradient); }
  double* dparameter(size_t i) const { return static_cast<double*>(bindings_.parameter_gradients[i]); }

  // Adds or writes the gradient of element `at` of input `i`.
  void give(size_t i, size_t at, double value) const {
    auto* dx = static_cast<double*>(bindings_.input_gradients[i]);
    if (dx == nullptr) return;
    dx[at] = bindings_.accumulate[i] ? dx[at] + value : value;
  }
  size_t elements() const { return d_.rows * d_.in; }

  const core::Node& node_;
  Dimensions d_;
  core::Bindings bindings_;
};

class Linear final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        double sum = bindings_.parameters.size() > 1 ? parameter(1)[o] : 0;
        for (size_t i = 0; i < d_.in; ++i) sum += x()[r * d_.in + i] * parameter(0)[o * d_.in + i];
        y()[r * d_.out + o] = sum;
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t i = 0; i < d_.in; ++i) {
        double sum = 0;
        for (size_t o = 0; o < d_.out; ++o) sum += dy()[r * d_.out + o] * parameter(0)[o * d_.in + i];
        give(0, r * d_.in + i, sum);
      }
      for (size_t o = 0; o < d_.out; ++o) {
        double g = dy()[r * d_.out + o];
        for (size_t i = 0; i < d_.in; ++i) dparameter(0)[o * d_.in + i] += g * x()[r * d_.in + i];
        if (bindings_.parameters.size() > 1) dparameter(1)[o] += g;
      }
    }
    return {};
  }
};

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
class Relu final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = x()[i] <= 0 ? 0 : x()[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) give(0, i, y()[i] <= 0 ? 0 : dy()[i]);
    return {};
  }
};

// 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
class Gelu final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = 0.5 * x()[i] * (1 + std::tanh(inner(x()[i])));
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) {
      double v = x()[i];
      double t = std::tanh(inner(v));
      double slope = kRoot * (1 + 3 * kCubic * v * v);
      give(0, i, dy()[i] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * slope));
    }
    return {};
  }

 private:
  static constexpr double kRoot = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  static double inner(double v) { return kRoot * (v + kCubic * v * v * v); }
};

class Embedding final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(0)));
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        y()[r * d_.out + o] = parameter(0)[row(r) * d_.out + o] + parameter(1)[(r % d_.positions) * d_.out + o];
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(0)));
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        dparameter(0)[row(r) * d_.out + o] += dy()[r * d_.out + o];
        dparameter(1)[(r % d_.positions) * d_.out + o] += dy()[r * d_.out + o];
      }
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
    for (size_t i = 0; i < elements(); ++i) y()[i] = x(0)[i] + x(1)[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) {
      give(0, i, dy()[i]);
      give(1, i, dy()[i]);
    }
    return {};
  }
};

// Gradient of (x - mean) / deviation over `count` values `stride` apart, for both norms.
template <typename Give>
void normalise_backward(const double* x, double mean, double inverse, size_t count, size_t stride,
                        const std::vector<double>& g, const Give& give) {
  double sum_g = 0, sum_gx = 0;
  for (size_t i = 0; i < count; ++i) {
    sum_g += g[i];
    sum_gx += g[i] * (x[i * stride] - mean) * inverse;
  }
  auto n = static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    double normal = (x[i * stride] - mean) * inverse;
    give(i * stride, inverse * (g[i] - sum_g / n - normal * sum_gx / n));
  }
}

class LayerNorm final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      const double* row = x() + r * d_.in;
      double mean = 0, variance = 0;
      for (size_t i = 0; i < d_.in; ++i) mean += row[i] / static_cast<double>(d_.in);
      for (size_t i = 0; i < d_.in; ++i) variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(d_.in);
      double inverse = 1 / std::sqrt(variance + node_.epsilon);
      saved(0)[r] = mean;
      saved(1)[r] = inverse;
      for (size_t i = 0; i < d_.in; ++i) {
        y()[r * d_.in + i] = (row[i] - mean) * inverse * parameter(0)[i] + parameter(1)[i];
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    std::vector<double> g(d_.in);
    for (size_t r = 0; r < d_.rows; ++r) {
      const double* row = x() + r * d_.in;
      for (size_t i = 0; i < d_.in; ++i) {
        double gradient = dy()[r * d_.in + i];
        dparameter(0)[i] += gradient * (row[i] - saved(0)[r]) * saved(1)[r];
        dparameter(1)[i] += gradient;
        g[i] = gradient * parameter(0)[i];
      }
      normalise_backward(row, saved(0)[r], saved(1)[r], d_.in, 1, g,
                         [&](size_t i, double value) { give(0, r * d_.in + i, value); });
    }
    return {};
  }
};

// Normalises with the biased variance of the micro-batch; the running variance is the unbiased one.
class BatchNorm final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext& context) override {
    auto n = static_cast<double>(d_.rows);
    for (size_t i = 0; i < d_.in; ++i) {
      double mean = 0, variance = 0;
      if (context.mode == RunContext::Mode::kTrain) {
        for (size_t r = 0; r < d_.rows; ++r) mean += x()[r * d_.in + i] / n;
        for (size_t r = 0; r < d_.rows; ++r) variance += square(x()[r * d_.in + i] - mean) / n;
        bindings_.staged_statistics[0][i] = mean;
        bindings_.staged_statistics[1][i] = variance * n / (n - 1);
      } else {
        mean = static_cast<const double*>(bindings_.statistics[0])[i];
        variance = static_cast<const double*>(bindings_.statistics[1])[i];
      }
      double inverse = 1 / std::sqrt(variance + node_.epsilon);
      saved(0)[i] = mean;
      saved(1)[i] = inverse;
      for (size_t r = 0; r < d_.rows; ++r) {
        y()[r * d_.in + i] = (x()[r * d_.in + i] - mean) * inverse * parameter(0)[i] + parameter(1)[i];
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    std::vector<double> g(d_.rows);
    for (size_t i = 0; i < d_.in; ++i) {
      for (size_t r = 0; r < d_.rows; ++r) {
        double gradient = dy()[r * d_.in + i];
        dparameter(0)[i] += gradient * (x()[r * d_.in + i] - saved(0)[i]) * saved(1)[i];
        dparameter(1)[i] += gradient;
        g[r] = gradient * parameter(0)[i];
      }
      normalise_backward(x() + i, saved(0)[i], saved(1)[i], d_.rows, d_.in, g,
                         [&](size_t at, double value) { give(0, at + i, value); });
    }
    return {};
  }

 private:
  static double square(double v) { return v * v; }
};

class Dropout final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext& context) override {
    for_each(context, [&](size_t i, double factor) { y()[i] = x()[i] * factor; });
    return {};
  }
  Status backward(const RunContext& context) override {
    for_each(context, [&](size_t i, double factor) { give(0, i, dy()[i] * factor); });
    return {};
  }

 private:
  template <typename Body>
  void for_each(const RunContext& context, const Body& body) const {
    bool trains = context.mode == RunContext::Mode::kTrain;
    size_t each = elements() / d_.samples;
    std::uint64_t layer = core::derive(0, node_.name);
    for (size_t s = 0; s < d_.samples; ++s) {
      std::uint64_t key = dropout_key(context, layer, s);
      for (size_t i = 0; i < each; ++i) {
        bool keep = core::element_bits(key, static_cast<std::uint32_t>(i)) >= dropout_threshold(node_.rate);
        body(s * each + i, !trains ? 1.0 : keep ? 1 / (1 - node_.rate) : 0.0);
      }
    }
  }
};

// For each sample and head: softmax over the positions up to one's own of q k / sqrt(head), applied to v.
class CausalAttention final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for_each_row([&](size_t s, size_t h, size_t t, double* p) {
      double largest = -HUGE_VAL, sum = 0;
      for (size_t u = 0; u <= t; ++u) {
        p[u] = 0;
        for (size_t i = 0; i < d_.head; ++i) p[u] += x()[at(s, t, h, 0, i)] * x()[at(s, u, h, 1, i)] * scale();
        largest = std::fmax(largest, p[u]);
      }
      for (size_t u = 0; u <= t; ++u) sum += p[u] = std::exp(p[u] - largest);
      for (size_t u = 0; u < d_.positions; ++u) p[u] = u <= t ? p[u] / sum : 0;
      for (size_t i = 0; i < d_.head; ++i) {
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
        for (size_t i = 0; i < d_.head; ++i) {
          dp[u] += dy()[out(s, t, h, i)] * x()[at(s, u, h, 2, i)];
          dx[at(s, u, h, 2, i)] += p[u] * dy()[out(s, t, h, i)];
        }
        dot += p[u] * dp[u];
      }
      for (size_t u = 0; u <= t; ++u) {
        double score = p[u] * (dp[u] - dot) * scale();
        for (size_t i = 0; i < d_.head; ++i) {
          dx[at(s, t, h, 0, i)] += score * x()[at(s, u, h, 1, i)];
          dx[at(s, u, h, 1, i)] += score * x()[at(s, t, h, 0, i)];
        }
      }
    });
    for (size_t i = 0; i < dx.size(); ++i) give(0, i, dx[i]);
    return {};
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(d_.head)); }
  // part 0: query, 1: key, 2: value
  size_t at(size_t s, size_t t, size_t h, size_t part, size_t i) const {
    return (s * d_.positions + t) * d_.in + part * d_.out + h * d_.head + i;
  }
  size_t out(size_t s, size_t t, size_t h, size_t i) const { return (s * d_.positions + t) * d_.out + h * d_.head + i; }
  template <typename Body>
  void for_each_row(const Body& body) const {
    for (size_t s = 0; s < d_.samples; ++s) {
      for (size_t h = 0; h < d_.heads; ++h) {
        for (size_t t = 0; t < d_.positions; ++t) {
          body(s, h, t, saved(0) + ((s * d_.heads + h) * d_.positions + t) * d_.positions);
        }
      }
    }
  }
};

class SoftmaxCrossEntropy final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(1)));
    for (size_t s = 0; s < d_.samples; ++s) y()[s] = 0;
    for (size_t r = 0; r < d_.rows; ++r) {
      const double* scores = x() + r * d_.in;
      double* p = saved(0) + r * d_.in;
      double largest = -HUGE_VAL, sum = 0;
      for (size_t i = 0; i < d_.in; ++i) largest = std::fmax(largest, scores[i]);
      for (size_t i = 0; i < d_.in; ++i) sum += p[i] = std::exp(scores[i] - largest);
      for (size_t i = 0; i < d_.in; ++i) p[i] /= sum;
      double nats = std::log(sum) + largest - scores[static_cast<size_t>(indices(1)[r])];
      y()[r / d_.positions] += nats / static_cast<double>(d_.positions);
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(check_indices(node_, d_, indices(1)));
    double scale = context.loss_scale / static_cast<double>(d_.positions);
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t i = 0; i < d_.in; ++i) {
        double hit = i == static_cast<size_t>(indices(1)[r]) ? 1 : 0;
        give(0, r * d_.in + i, (saved(0)[r * d_.in + i] - hit) * scale);
      }
    }
    return {};
  }
};

class MeanSquaredError final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    size_t each = elements() / d_.samples;
    for (size_t s = 0; s < d_.samples; ++s) {
      y()[s] = 0;
      for (size_t i = s * each; i < (s + 1) * each; ++i) {
        y()[s] += (x(0)[i] - x(1)[i]) * (x(0)[i] - x(1)[i]) / static_cast<double>(each);
      }
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    double scale = 2 * context.loss_scale * static_cast<double>(d_.samples) / static_cast<double>(elements());
    for (size_t i = 0; i < elements(); ++i) give(0, i, scale * (x(0)[i] - x(1)[i]));
    return {};
  }
};

}  // namespace

std::unique_ptr<core::Kernel> make_kernel(const core::Graph& graph, const core::Node& node, core::Bindings bindings) {
  using core::OpKind;
  auto make = [&]<typename K>(K*) -> std::unique_ptr<core::Kernel> {
    return std::make_unique<K>(graph, node, std::move(bindings));
  };
  switch (node.op) {
    case OpKind::kLinear:
      return make(static_cast<Linear*>(nullptr));
    case OpKind::kRelu:
      return make(static_cast<Relu*>(nullptr));
    case OpKind::kGelu:
      return make(static_cast<Gelu*>(nullptr));
    case OpKind::kEmbedding:
      return make(static_cast<Embedding*>(nullptr));
    case OpKind::kAdd:
      return make(static_cast<Add*>(nullptr));
    case OpKind::kLayerNorm:
      return make(static_cast<LayerNorm*>(nullptr));
    case OpKind::kBatchNorm:
      return make(static_cast<BatchNorm*>(nullptr));
    case OpKind::kDropout:
      return make(static_cast<Dropout*>(nullptr));
    case OpKind::kCausalAttention:
      return make(static_cast<CausalAttention*>(nullptr));
    case OpKind::kSoftmaxCrossEntropy:
      return make(static_cast<SoftmaxCrossEntropy*>(nullptr));
    case OpKind::kMeanSquaredError:
      return make(static_cast<MeanSquaredError*>(nullptr));
  }
  return nullptr;
}

}  // namespace lockstep::trainer::backend::ref
