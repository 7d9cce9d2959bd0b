// Everything that outlives a step: parameters, optimizer state, running statistics, exponents and the step itself.
// Replica::step's commit is the only code that changes it, besides restoring a checkpoint and installing the state of
// another rank. Its digest is kept up by the optimizer as it writes, so that who asks for the version waits for
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

  // Views of all of it, the step included. Valid as long as the state lives. Who gets them may write through them, so
  // the next version() reads the memory.
  std::vector<StateTensor> tensors();

  // After a commit or an install at once; else it reads all of the state, at the speed of memory.
  Version version();
  // Parameters or slots may have changed: the next version() reads them.
  void changed() { arenas_digest_.reset(); }
  // All parameters and slots were written, and the sum of their digests is `digest`.
  void digested(std::uint64_t digest) { arenas_digest_ = digest; }

  // The state as bytes: its arenas with their padding, then what is small. Equal layouts have equal places.
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Block> image();
  size_t bytes();  // of all blocks
  // What block `index` of the image adds to the digest, were it `data`.
  std::uint64_t digest_of(size_t index, const std::byte* data);
  // Makes the state `from`, the blocks of an image one after the other, which `generation` committed. Cannot fail and
  // is not interrupted: before, the state is the old one, and after it the new one.
  void install(const std::byte* from, std::int64_t generation);

  std::int64_t step = 0;          // committed steps
  std::int64_t committed_in = 0;  // the generation that committed the last of them; 0: none did
  std::unique_ptr<Memory> parameters;
  std::vector<std::unique_ptr<Memory>> slots;
  std::vector<double> statistics;       // all of them, in the order of Graph::with_role(kStatistic)
  std::vector<std::int32_t> exponents;  // by ExponentTable
  ExponentTable table;

 private:
  size_t arenas() const { return 1 + slots.size(); }
  std::byte* arena(size_t part) { return (part == 0 ? parameters : slots[part - 1])->data(); }

  State(const Graph& graph, const Layout& layout, ElementType real, std::vector<std::string> slot_names);
  const Graph& graph_;
  const Layout& layout_;
  ElementType real_;
  std::vector<std::string> slot_names_;
  std::optional<std::uint64_t> arenas_digest_;  // of parameters and slots as they are; empty: not known
};

}  // namespace lockstep::trainer::core
