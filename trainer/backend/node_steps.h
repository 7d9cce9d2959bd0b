// The steps of a graph, and the memory of a kernel, for backends that compute one node at a time or a few.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/backend/dimensions.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

// Nodes in a row that one kernel computes. Each but the last one writes what only the next one reads: it is never in
// memory, and neither is its gradient.
struct Run {
  size_t first = 0;
  size_t count = 1;
};

// Each node by itself.
std::vector<Run> nodes_alone(const core::Graph& graph);

// What a kernel needs besides its nodes' inputs, parameters and output.
struct Needs {
  bool reads_inputs = false;            // in the backward pass
  bool reads_output = false;            // in the backward pass
  std::vector<size_t> keeps = {};       // elements of each block that the forward pass leaves for the backward pass
  size_t forward_scratch = 0;           // elements that only the forward pass uses
  size_t backward_scratch = 0;          // elements that only the backward pass uses
  bool cheap = false;                   // as core::Step has it
  std::vector<size_t> overwrites = {};  // of the run's parameters: see core::Step
};

// Memory that a kernel works on, in the order of its nodes and of each node's lists. Inputs are those that no node of
// the run writes. Addresses of real tensors are of the backend's element type, statistics are float64, indices int32.
struct Bindings {
  std::vector<const void*> inputs;
  std::vector<const void*> parameters;
  std::vector<const double*> statistics;
  std::vector<double*> staged_statistics;
  std::vector<void*> keeps;
  void* forward_scratch = nullptr;
  void* backward_scratch = nullptr;
  void* output = nullptr;
  // Of the backward pass. A null input gradient is not wanted. `accumulate[i]`: add to input gradient i, else
  // overwrite. `overwrites[i]`: overwrite parameter gradient i where RunContext::overwrites says so, else add to it.
  // The loss node has no output gradient.
  const void* output_gradient = nullptr;
  std::vector<void*> input_gradients;
  std::vector<bool> accumulate;
  std::vector<void*> parameter_gradients;
  std::vector<bool> overwrites;
};

// Ready to compute. It never allocates and never waits. After an error, whose sentence names the layer, what it writes
// is garbage.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status forward(const core::RunContext& context) = 0;
  // As core::Executable has it.
  virtual Status recompute(const core::RunContext& context) { return forward(context); }
  virtual Status backward(const core::RunContext& context) = 0;
};

// Each run as a step; together they are all nodes in order.
core::Lowered lower_nodes(const core::Graph& graph, bool trains, core::ElementType real, const std::vector<Run>& runs,
                          const std::function<Needs(const Run&)>& needs_of);

// The kernels of the steps that lower_nodes() made.
std::unique_ptr<core::Executable> bind_nodes(
    const core::Graph& graph, const core::Lowered& lowered, const core::Addresses& addresses,
    const std::function<std::unique_ptr<Kernel>(const Run&, Bindings)>& make_kernel);

}  // namespace lockstep::trainer::backend
