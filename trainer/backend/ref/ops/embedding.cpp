#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class EmbeddingKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(0), d_.rows, vocabulary()));
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        y()[r * d_.out + o] = parameter(0)[row(r) * d_.out + o] + parameter(1)[(r % positions()) * d_.out + o];
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(0), d_.rows, vocabulary()));
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        dparameter(0)[row(r) * d_.out + o] += dy()[r * d_.out + o];
        dparameter(1)[(r % positions()) * d_.out + o] += dy()[r * d_.out + o];
      }
    }
    return {};
  }

 private:
  size_t vocabulary() const { return static_cast<size_t>(tensor(node().parameters[0]).shape[0]); }
  size_t positions() const { return static_cast<size_t>(tensor(node().parameters[1]).shape[0]); }
  size_t row(size_t r) const { return static_cast<size_t>(indices(0)[r]); }
};

}  // namespace

Needs needs_of(const core::ops::Embedding&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Embedding&, Site site) {
  return std::make_unique<EmbeddingKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
