// What the kernels of all backends that compute one node at a time share: the node's addresses by short names.
#pragma once

#include <cstdint>
#include <utility>

#include "trainer/backend/dimensions.h"
#include "trainer/backend/node_steps.h"

namespace lockstep::trainer::backend {

// A node and the memory that its kernel works on. The graph outlives the kernel.
struct NodeSite {
  const core::Graph& graph;
  const core::Node& node;
  Bindings bindings;
};

// `Real`: the backend's element type. Row-major, (rows, features).
template <typename Real>
class NodeKernel : public Kernel {
 protected:
  explicit NodeKernel(NodeSite site) : d_(dimensions_of(site.graph, site.node)), site_(std::move(site)) {}

  const Real* x(size_t i = 0) const { return static_cast<const Real*>(bindings().inputs[i]); }
  const std::int32_t* indices(size_t i) const { return static_cast<const std::int32_t*>(bindings().inputs[i]); }
  const Real* parameter(size_t i) const { return static_cast<const Real*>(bindings().parameters[i]); }
  Real* kept(size_t i) const { return static_cast<Real*>(bindings().keeps[i]); }
  Real* y() const { return static_cast<Real*>(bindings().output); }
  const Real* dy() const { return static_cast<const Real*>(bindings().output_gradient); }
  Real* dx(size_t i = 0) const { return static_cast<Real*>(bindings().input_gradients[i]); }
  bool accumulate(size_t i = 0) const { return bindings().accumulate[i]; }
  Real* dparameter(size_t i) const { return static_cast<Real*>(bindings().parameter_gradients[i]); }
  bool adds_to_dparameter(size_t i, const core::RunContext& context) const {
    return !context.overwrites || !bindings().overwrites[i];
  }
  size_t elements() const { return d_.rows * d_.in; }
  // Where the backward pass of a loss starts.
  double loss_scale(const core::RunContext& context) const {
    return context.loss_scale * site_.graph.weight_of(site_.node.output);
  }

  const Bindings& bindings() const { return site_.bindings; }
  const core::Node& node() const { return site_.node; }
  const core::Graph& graph() const { return site_.graph; }
  const core::Tensor& tensor(core::TensorId id) const { return graph().tensor(id); }

  const Dimensions d_;

 private:
  const NodeSite site_;
};

}  // namespace lockstep::trainer::backend
