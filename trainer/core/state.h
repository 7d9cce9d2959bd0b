// Everything that outlives a step: parameters, optimizer state, running statistics, exponents and the step itself. Only
// Replica::step's commit changes it, besides restoring a checkpoint and installing the state of another rank. The
// optimizer keeps the digest up to date as it writes, so a caller of version() does not wait.
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

// One tensor of the state, without padding, for code that saves, restores or compares it.
struct StateTensor {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool optimizer = false;  // false: a parameter or a statistic, which is all that prediction needs
};

// Identifies a state. Generation, then step, order states by age; the digest is of their bits.
struct Version {
  std::int64_t committed_in = 0;
  std::int64_t step = 0;
  std::uint64_t digest = 0;

  bool operator==(const Version&) const = default;
};

// The owners of the fixed-point exponents. Gradients use theirs only in deterministic training; loss and statistics
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

  // The state before the first step, as a pure function of `seed` and the tensors' names. Fails only with the backend.
  Status initialize(std::uint64_t seed);

  // The host sees a state through views, which are valid as long as it lives. Where the host cannot reach the backend's
  // memory, they are of a copy. fetch() brings it up to date, and written() carries what was written through the views
  // to the backend. Both return at once where it can. kInternal: the backend failed, and the state is garbage.
  Status fetch();
  Status written();

  // Views of all of it, the step included. The caller may write through them, so the next version() reads the memory.
  std::vector<StateTensor> tensors();

  // Immediate after a commit or an install; otherwise it reads all of the state, at the speed of memory. Version{} if
  // the backend fails.
  Version version();
  // Parameters or slots may have changed: the next version() reads them.
  void changed();
  // All parameters and slots were written, and the sum of their digests is `digest`.
  void digested(std::uint64_t digest);
  // Grows with each change: what is derived from the state is stale when this number has grown.
  std::uint64_t changes() const { return changes_; }

  // Views of the state as bytes: its arenas with their padding, then the small fields. Equal layouts have equal places.
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Block> image();
  size_t bytes();  // of all blocks
  // The share of block `index` of the image in the digest, if its bytes were `data`.
  std::uint64_t digest_of(size_t index, const std::byte* data);
  // Replaces the state by `from`, the blocks of an image one after the other, which `generation` committed. It cannot
  // be interrupted: a reader sees the old state before and the new one after. It fails only with the backend.
  Status install(const std::byte* from, std::int64_t generation);

  std::int64_t step = 0;          // committed steps
  std::int64_t samples = 0;       // that they have consumed; checkpoints have it in their cursor, not as a tensor
  std::int64_t committed_in = 0;  // the generation that committed the last of them; 0: none did
  std::unique_ptr<Memory> parameters;
  std::vector<std::unique_ptr<Memory>> slots;
  std::vector<double> statistics;       // all of them, in the order of Graph::with_role(kStatistic)
  std::vector<std::int32_t> exponents;  // by ExponentTable
  ExponentTable table;

 private:
  size_t arenas() const { return 1 + slots.size(); }
  std::byte* arena(size_t part) { return (part == 0 ? parameters : slots[part - 1])->data(); }
  size_t arena_bytes() const { return layout_.count * size_of(real_); }
  std::byte* view(size_t part);  // of an arena
  Status settled();

  State(const Graph& graph, Backend& backend, const Layout& layout, std::vector<std::string> slot_names);
  const Graph& graph_;
  Backend& backend_;
  const Layout& layout_;
  ElementType real_;
  std::vector<std::string> slot_names_;
  std::vector<std::byte> copy_;  // of the arenas, one after the other; empty: the host reaches them
  std::uint64_t changes_ = 0;
  std::optional<std::uint64_t> arenas_digest_;  // of parameters and slots as they are; empty: not known
};

}  // namespace lockstep::trainer::core
