#include <utility>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/multiply.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class LinearKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    bool bias = bindings().parameters.size() > 1;
    if (reads_weights_once()) {
      share(d_.out, 2, [&](size_t begin, size_t end) {
        kernels_.few_rows.products(x(), parameter(0), bias ? parameter(1) : nullptr, d_.rows, d_.in, d_.out, begin, end,
                                   y());
      });
      return {};
    }
    if (bias) {
      share_rows([&](size_t begin, size_t end) {
        kernels_.fill_rows(parameter(1), end - begin, d_.out, y() + begin * d_.out);
      });
    }
    products_.multiply(As::kIs, As::kTransposed, d_.rows, d_.out, d_.in, x(), d_.in, parameter(0), d_.in,
                       bias ? 1.0f : 0.0f, y(), d_.out);
    return products_.take(node());
  }
  Status backward(const RunContext& context) override {
    const bool adds = adds_to_dparameter(0, context);
    if (reads_weights_once()) {
      share(d_.out, 4, [&](size_t begin, size_t end) {
        kernels_.few_rows.weight_gradient(dy(), x(), d_.rows, d_.in, d_.out, begin, end, adds, dparameter(0));
      });
    } else {
      products_.multiply(As::kTransposed, As::kIs, d_.out, d_.in, d_.rows, dy(), d_.out, x(), d_.in, adds ? 1.0f : 0.0f,
                         dparameter(0), d_.in);
    }
    if (bindings().parameters.size() > 1) {
      share_columns(d_.out, [&](size_t begin, size_t end) {
        kernels_.add_column_sums(dy(), d_.rows, d_.out, begin, end, dparameter(1));
      });
    }
    if (dx() == nullptr) return products_.take(node());
    if (reads_weights_once()) {
      share(d_.in, 64, [&](size_t begin, size_t end) {
        kernels_.few_rows.input_gradient(dy(), parameter(0), d_.rows, d_.in, d_.out, begin, end, accumulate(), dx());
      });
      return products_.take(node());
    }
    products_.multiply(As::kIs, As::kIs, d_.rows, d_.in, d_.out, dy(), d_.out, parameter(0), d_.in,
                       accumulate() ? 1.0f : 0.0f, dx(), d_.in);
    return products_.take(node());
  }

 private:
  // Where weights come from memory, the library takes longer than reading them. It took twice as long with 8 rows and
  // the 103 million weights of VGG-A's first linear layer. Many rows compute for longer than they read.
  static constexpr size_t kFewRows = 16, kManyWeights = size_t{1} << 20;
  bool reads_weights_once() const { return d_.rows <= kFewRows && d_.in * d_.out >= kManyWeights; }

  Products products_;
};

}  // namespace

Needs needs_of(const core::ops::Linear&, const Dimensions&, const Team&) {
  return {.reads_inputs = true, .overwrites = {0}};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Linear&, Site site) {
  return std::make_unique<LinearKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
