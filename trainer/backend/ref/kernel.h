// What the kernels of `ref` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "trainer/backend/dimensions.h"
#include "trainer/backend/node_steps.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::ref {

using core::RunContext;

// A node and the memory that its kernel works on. The graph outlives the kernel.
struct Site {
  const core::Graph& graph;
  const core::Node& node;
  Bindings bindings;
};

#define LOCKSTEP_KERNEL(name)                                     \
  Needs needs_of(const core::ops::name& op, const Dimensions& d); \
  std::unique_ptr<Kernel> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

// Addresses by short names. Row-major, (rows, features).
class Base : public Kernel {
 public:
  explicit Base(Site site) : site_(std::move(site)), d_(dimensions_of(site_.graph, site_.node)) {}

 protected:
  const double* x(size_t i = 0) const { return static_cast<const double*>(site_.bindings.inputs[i]); }
  const std::int32_t* indices(size_t i) const { return static_cast<const std::int32_t*>(site_.bindings.inputs[i]); }
  const double* parameter(size_t i) const { return static_cast<const double*>(site_.bindings.parameters[i]); }
  double* kept(size_t i) const { return static_cast<double*>(site_.bindings.keeps[i]); }
  double* y() const { return static_cast<double*>(site_.bindings.output); }
  const double* dy() const { return static_cast<const double*>(site_.bindings.output_gradient); }
  double* dparameter(size_t i) const { return static_cast<double*>(site_.bindings.parameter_gradients[i]); }

  // Adds or writes the gradient of element `at` of input `i`.
  void give(size_t i, size_t at, double value) const {
    auto* dx = static_cast<double*>(site_.bindings.input_gradients[i]);
    if (dx == nullptr) return;
    dx[at] = site_.bindings.accumulate[i] ? dx[at] + value : value;
  }
  size_t elements() const { return d_.rows * d_.in; }

  const Bindings& bindings() const { return site_.bindings; }
  const core::Node& node() const { return site_.node; }
  const core::Tensor& tensor(core::TensorId id) const { return site_.graph.tensor(id); }

 private:
  Site site_;

 protected:
  const Dimensions d_;
};

}  // namespace lockstep::trainer::backend::ref
