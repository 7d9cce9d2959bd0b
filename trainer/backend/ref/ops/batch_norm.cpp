#include <cmath>
#include <utility>
#include <vector>

#include "trainer/backend/ref/kernel.h"
#include "trainer/backend/ref/normalise.h"

namespace lockstep::trainer::backend::ref {

namespace {

// Normalises with the biased variance of the micro-batch; the running variance is the unbiased one.
class BatchNormKernel final : public Base {
 public:
  BatchNormKernel(const core::ops::BatchNorm& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext& context) override {
    auto n = static_cast<double>(d_.rows);
    for (size_t i = 0; i < d_.in; ++i) {
      double mean = 0, variance = 0;
      if (context.mode == RunContext::Mode::kTrain) {
        for (size_t r = 0; r < d_.rows; ++r) mean += x()[r * d_.in + i] / n;
        for (size_t r = 0; r < d_.rows; ++r) variance += square(x()[r * d_.in + i] - mean) / n;
        bindings().staged_statistics[0][i] = mean;
        bindings().staged_statistics[1][i] = variance * n / (n - 1);
      } else {
        mean = bindings().statistics[0][i];
        variance = bindings().statistics[1][i];
      }
      double inverse = 1 / std::sqrt(variance + op_.epsilon);
      kept(0)[i] = mean;
      kept(1)[i] = inverse;
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
        dparameter(0)[i] += gradient * (x()[r * d_.in + i] - kept(0)[i]) * kept(1)[i];
        dparameter(1)[i] += gradient;
        g[r] = gradient * parameter(0)[i];
      }
      normalise_backward(x() + i, kept(0)[i], kept(1)[i], d_.rows, d_.in, g,
                         [&](size_t at, double value) { give(0, at + i, value); });
    }
    return {};
  }

 private:
  static double square(double v) { return v * v; }
  core::ops::BatchNorm op_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each feature.
Needs needs_of(const core::ops::BatchNorm&, const Dimensions& d) {
  return {.reads_inputs = true, .keeps = {d.in, d.in}, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::BatchNorm& op, Site site) {
  return std::make_unique<BatchNormKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
