#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class EmbeddingKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(0), d_.rows, vocabulary()));
    share_rows([&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        kernels_.add(parameter(0) + row(r) * d_.out, parameter(1) + (r % positions()) * d_.out, d_.out,
                     y() + r * d_.out);
      }
    });
    return {};
  }
  // Two rows may share a character, so one thread adds them all: it is a small part of a step.
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(0), d_.rows, vocabulary()));
    for (size_t r = 0; r < d_.rows; ++r) {
      kernels_.give(dy() + r * d_.out, d_.out, true, dparameter(0) + row(r) * d_.out);
      kernels_.give(dy() + r * d_.out, d_.out, true, dparameter(1) + (r % positions()) * d_.out);
    }
    return {};
  }

 private:
  size_t vocabulary() const { return static_cast<size_t>(tensor(node().parameters[0]).shape[0]); }
  size_t positions() const { return static_cast<size_t>(tensor(node().parameters[1]).shape[0]); }
  size_t row(size_t r) const { return static_cast<size_t>(indices(0)[r]); }
};

}  // namespace

Needs needs_of(const core::ops::Embedding&, const Dimensions&, const Team&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Embedding&, Site site) {
  return std::make_unique<EmbeddingKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
