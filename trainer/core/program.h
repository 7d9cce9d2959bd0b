// A graph compiled for one backend: kernels in order, every address fixed, activations in one planned arena. Several
// programs may share one set of parameters (training, and prediction with another batch).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/core/layout.h"
#include "trainer/core/pulse.h"

namespace lockstep::trainer::core {

// The arenas that a program works on, owned by others and laid out by `layout`. It may be the layout of another graph
// with the same parameters and statistics: a program finds them by name.
struct ProgramMemory {
  const Layout* layout = nullptr;
  std::byte* parameters = nullptr;
  std::byte* gradients = nullptr;  // null: the program only predicts
  double* statistics = nullptr;
  double* staged_statistics = nullptr;
};

struct ProgramOptions {
  bool share_memory = true;  // false: every tensor has bytes of its own (to check the planner)
  Pulse* pulse = nullptr;    // beats after each node; must outlive the program
};

class Program {
 public:
  // `graph`, `backend` and the arenas must outlive the program. kExhausted when there is not enough memory; kInvalid
  // when the layout lacks a parameter or statistic of the graph, or has it in another shape.
  static Result<std::unique_ptr<Program>> compile(const Graph& graph, Backend& backend, const ProgramMemory& memory,
                                                  ProgramOptions options = {});

  // Runs all nodes over what the inputs hold. kCancelled when `abort` became true between two nodes, or a kernel's
  // error; then activations are garbage, and so are gradients after backward().
  Status forward(const RunContext& context, const std::atomic<bool>& abort);
  // After forward() in training mode: adds the gradients of the parameters to their arena, node by node from the last
  // to the first.
  Status backward(const RunContext& context, const std::atomic<bool>& abort) {
    for (size_t node = nodes(); node-- > 0;) LOCKSTEP_CHECK_OK(backward(node, context, abort));
    return {};
  }
  // One node of it, for callers that have something to do in between.
  Status backward(size_t node, const RunContext& context, const std::atomic<bool>& abort);
  size_t nodes() const { return kernels_.size(); }

  // Memory of a tensor: inputs stay until they are written again, Graph::loss and Graph::output until the next
  // forward(), anything else holds something only while the plan says so.
  void* data(TensorId id) const { return addresses_[static_cast<size_t>(id)]; }
  double loss(std::int64_t sample) const;  // of the last forward()

  const Graph& graph() const { return graph_; }
  Backend& backend() const { return backend_; }
  size_t arena_bytes() const { return arena_->bytes(); }  // activations and their gradients
  std::span<std::byte> arena() { return {arena_->data(), arena_->bytes()}; }

 private:
  Program(const Graph& graph, Backend& backend, Pulse* pulse) : graph_(graph), backend_(backend), pulse_(pulse) {}
  Status place_state(const ProgramMemory& memory);
  Bindings bind(const Node& node, const ProgramMemory& memory, std::vector<bool>& gradient_written) const;

  const Graph& graph_;
  Backend& backend_;
  Pulse* const pulse_;
  std::unique_ptr<Memory> inputs_;
  std::unique_ptr<Memory> arena_;
  std::vector<void*> addresses_;           // of each tensor
  std::vector<void*> gradient_addresses_;  // of each tensor; null: no gradient
  std::vector<double*> statistics_;        // of each tensor: committed
  std::vector<double*> staged_;            // of each tensor: of the last micro-batch
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace lockstep::trainer::core
