// A graph made ready to run on one backend: steps in order, every address fixed, activations in one planned arena.
// Several programs may share one set of parameters (training, and prediction with another batch).
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
#include "trainer/core/recompute.h"

namespace lockstep::trainer::core {

// The arenas that a program works on, owned by others and laid out by `layout`. It may be the layout of another graph
// with the same parameters and statistics: a program finds them by name.
struct ProgramMemory {
  const Layout* layout = nullptr;
  std::byte* parameters = nullptr;      // (layout->count) of the backend's element type
  std::byte* gradients = nullptr;       // (layout->count) of the same; null: the program only predicts
  double* statistics = nullptr;         // one arena, as long as layout->statistics
  double* staged_statistics = nullptr;  // the same
};

struct ProgramOptions {
  bool share_memory = true;                   // false: every tensor has bytes of its own (to check the planner)
  Pulse* pulse = nullptr;                     // beats after each step; must outlive the program
  Recompute recompute = Recompute::kNothing;  // without effect on a program that only predicts
};

// Elements of an arena.
struct Range {
  size_t begin = 0, end = 0;
};

class Program {
 public:
  // `graph`, `backend` and the arenas must outlive the program. kExhausted when there is not enough memory; kInvalid
  // when the backend lacks an op, or the layout lacks a parameter or statistic of the graph or has another shape of it.
  static Result<std::unique_ptr<Program>> compile(const Graph& graph, Backend& backend, const ProgramMemory& memory,
                                                  ProgramOptions options = {});

  // Runs all steps over what the inputs hold. kCancelled when `abort` became true between two steps, or a step's
  // error; then activations are garbage, and so are gradients after backward().
  Status forward(const RunContext& context, const std::atomic<bool>& abort) {
    for (size_t step = 0; step < steps(); ++step) LOCKSTEP_CHECK_OK(forward(step, context, abort));
    return {};
  }
  // One step of it, for callers that have something to do in between.
  Status forward(size_t step, const RunContext& context, const std::atomic<bool>& abort);
  // After forward() in training mode: adds the gradients of the parameters to their arena, step by step from the last
  // to the first. With RunContext::overwrites it reads nothing of the arena outside added().
  Status backward(const RunContext& context, const std::atomic<bool>& abort) {
    for (size_t step = steps(); step-- > 0;) LOCKSTEP_CHECK_OK(backward(step, context, abort));
    return {};
  }
  // One step of it, for callers that have something to do in between.
  Status backward(size_t step, const RunContext& context, const std::atomic<bool>& abort);
  size_t steps() const { return lowered_.steps.size(); }
  // Where gradients are always added to, with padding, ascending. A caller that lets backward() overwrite the others
  // has these cleared.
  const std::vector<Range>& added() const { return added_; }
  void clear_added();
  // The last node that `step` computes.
  size_t last_node(size_t step) const { return lowered_.steps[step].nodes.back(); }
  // After the backward pass of `step`, the nodes from this one to the last of the graph have run theirs.
  size_t done_from(size_t step) const { return done_from_[step]; }

  // Memory of a tensor: inputs stay until they are written again, Graph::losses and Graph::outputs until the
  // next forward(), anything else holds something only while the plan says so.
  void* data(TensorId id) const { return addresses_.values[static_cast<size_t>(id)]; }
  // The losses of the last forward(): enqueues a copy of loss_bytes() to memory of the host. The other sums those of
  // the first `samples` samples in such a copy, each loss times its weight.
  size_t loss_bytes() const;
  void read_losses(std::byte* to) const;
  double sum_of_losses(const std::byte* losses, std::int64_t samples) const;

  const Graph& graph() const { return graph_; }
  Backend& backend() const { return backend_; }
  const Lowered& lowered() const { return lowered_; }
  const Recomputation& recomputation() const { return recomputation_; }
  size_t arena_bytes() const { return arena_->bytes(); }  // activations, their gradients, what steps keep, scratch
  // The same memory as the host sees it; empty: it does not.
  std::span<std::byte> arena();

 private:
  Program(const Graph& graph, Backend& backend, Pulse* pulse, std::byte* gradients)
      : graph_(graph), backend_(backend), pulse_(pulse), gradients_(gradients) {}
  void place_inputs();
  Status place_state(const ProgramMemory& memory);
  void find_first_writers();
  void find_only_writers(const Layout& layout);

  const Graph& graph_;
  Backend& backend_;
  Pulse* const pulse_;
  Lowered lowered_;
  std::vector<size_t> done_from_;  // of each step
  std::vector<bool> learns_;       // of each step: it has a backward pass
  std::byte* const gradients_;     // as ProgramMemory has it
  std::vector<Range> added_;
  Recomputation recomputation_;
  std::unique_ptr<Memory> inputs_;
  std::unique_ptr<Memory> arena_;
  Addresses addresses_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace lockstep::trainer::core
