// What the kernels of `cpu` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "trainer/backend/cpu/loops.h"
#include "trainer/backend/dimensions.h"
#include "trainer/backend/node_steps.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::cpu {

using core::RunContext;

// A node, the memory that its kernel works on, and the threads that compute it. Graph and loops outlive the kernel.
struct Site {
  const core::Graph& graph;
  const core::Node& node;
  Bindings bindings;
  const Loops& loops;
  int threads;
};

#define LOCKSTEP_KERNEL(name)                                                     \
  Needs needs_of(const core::ops::name& op, const Dimensions& d, size_t threads); \
  std::unique_ptr<Kernel> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

// Addresses by short names, and loops over threads. Row-major, (rows, features).
class Base : public Kernel {
 public:
  explicit Base(Site site)
      : site_(std::move(site)),
        d_(dimensions_of(site_.graph, site_.node)),
        loops_(site_.loops),
        threads_(static_cast<size_t>(site_.threads)) {}

 protected:
  const float* x(size_t i = 0) const { return static_cast<const float*>(site_.bindings.inputs[i]); }
  const std::int32_t* indices(size_t i) const { return static_cast<const std::int32_t*>(site_.bindings.inputs[i]); }
  const float* parameter(size_t i) const { return static_cast<const float*>(site_.bindings.parameters[i]); }
  float* kept(size_t i) const { return static_cast<float*>(site_.bindings.keeps[i]); }
  float* y() const { return static_cast<float*>(site_.bindings.output); }
  const float* dy() const { return static_cast<const float*>(site_.bindings.output_gradient); }
  float* dx(size_t i = 0) const { return static_cast<float*>(site_.bindings.input_gradients[i]); }
  bool accumulate(size_t i = 0) const { return site_.bindings.accumulate[i]; }
  float* dparameter(size_t i) const { return static_cast<float*>(site_.bindings.parameter_gradients[i]); }
  size_t elements() const { return d_.rows * d_.in; }

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

  const Bindings& bindings() const {
    return site_.bindings;
  }
  const core::Node& node() const {
    return site_.node;
  }
  const core::Tensor& tensor(core::TensorId id) const {
    return site_.graph.tensor(id);
  }

 private:
  Site site_;

 protected:
  const Dimensions d_;
  const Loops& loops_;
  const size_t threads_;
};

}  // namespace lockstep::trainer::backend::cpu
