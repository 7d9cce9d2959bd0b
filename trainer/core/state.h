// Everything that outlives a step: parameters, optimizer state, running statistics, exponents and the step itself.
// Replica::step's commit is the only code that changes it, besides restoring a checkpoint and installing the state of
// another rank.
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

// Which state it is. By generation, then step, it says how new a state is; the digest is of its bits.
struct Version {
  std::int64_t committed_in = 0;
  std::int64_t step = 0;
  std::uint64_t digest = 0;

  bool operator==(const Version&) const = default;
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

  // Reads all of the state, at the speed of memory.
  Version version();

  // The state as one block of bytes: the tensors one after the other.
  size_t bytes();
  // What version().digest would be if the state were `image`, of bytes() bytes.
  std::uint64_t digest_of(const std::byte* image);
  // Makes the state `image`, which `generation` committed. Cannot fail and is not interrupted: before, the state is the
  // old one, and after it the new one.
  void install(const std::byte* image, std::int64_t generation);

  std::int64_t step = 0;          // committed steps
  std::int64_t committed_in = 0;  // the generation that committed the last of them; 0: none did
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
