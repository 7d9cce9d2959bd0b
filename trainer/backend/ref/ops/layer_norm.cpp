#include <cmath>
#include <utility>
#include <vector>

#include "trainer/backend/ref/kernel.h"
#include "trainer/backend/ref/normalise.h"

namespace lockstep::trainer::backend::ref {

namespace {

class LayerNormKernel final : public Base {
 public:
  LayerNormKernel(const core::ops::LayerNorm& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      const double* row = x() + r * d_.in;
      double mean = 0, variance = 0;
      for (size_t i = 0; i < d_.in; ++i) mean += row[i] / static_cast<double>(d_.in);
      for (size_t i = 0; i < d_.in; ++i) variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(d_.in);
      double inverse = 1 / std::sqrt(variance + op_.epsilon);
      kept(0)[r] = mean;
      kept(1)[r] = inverse;
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
        dparameter(0)[i] += gradient * (row[i] - kept(0)[r]) * kept(1)[r];
        dparameter(1)[i] += gradient;
        g[i] = gradient * parameter(0)[i];
      }
      normalise_backward(row, kept(0)[r], kept(1)[r], d_.in, 1, g,
                         [&](size_t i, double value) { give(0, r * d_.in + i, value); });
    }
    return {};
  }

 private:
  core::ops::LayerNorm op_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each row.
Needs needs_of(const core::ops::LayerNorm&, const Dimensions& d) {
  return {.reads_inputs = true, .keeps = {d.rows, d.rows}, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::LayerNorm& op, Site site) {
  return std::make_unique<LayerNormKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
