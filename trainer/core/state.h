// Everything that outlives a step: parameters, optimizer state, running statistics, exponents and the step itself.
// Replica::step's commit is the only code that changes it, besides restoring a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/backend.h"
#include "trainer/core/layout.h"

namespace lockstep::trainer::core {

// One tensor of the state, without padding, for whoever saves, restores or compares it.
struct StateTensor {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool optimizer = false;  // false: a parameter or a statistic, which is all that prediction needs
};

// What the fixed-point exponents are of. Gradients use theirs only in deterministic training; loss and statistics
// always.
struct ExponentTable {
  size_t gradients = 0;   // one for each segment
  size_t loss = 0;        // index of the loss's
  size_t statistics = 0;  // index of the first; one for each statistic tensor
  size_t count = 0;
};

class State {
 public:
  // Zeroed memory for `graph`; `slots` arenas for the optimizer.
  static Result<std::unique_ptr<State>> create(const Graph& graph, Backend& backend, const Layout& layout,
                                               const std::vector<std::string>& slots);

  // The state before the first step, as a pure function of `seed` and the tensors' names.
  void initialize(std::uint64_t seed);

  // Views of all of it, the step included. Valid as long as the state lives.
  std::vector<StateTensor> tensors();

  std::int64_t step = 0;  // committed steps
  std::unique_ptr<Memory> parameters;
  std::vector<std::unique_ptr<Memory>> slots;
  std::vector<double> statistics;       // all of them, in the order of Graph::with_role(kStatistic)
  std::vector<std::int32_t> exponents;  // by ExponentTable
  ExponentTable table;

 private:
  State(const Graph& graph, const Layout& layout, ElementType real, std::vector<std::string> slot_names);
  const Graph& graph_;
  const Layout& layout_;
  ElementType real_;
  std::vector<std::string> slot_names_;
};

}  // namespace lockstep::trainer::core
