// The seam between a step and the rule that turns gradients into new parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/core/layout.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

// One update over flat arenas that share a layout and an element type. Padding elements are zero and may be updated.
struct Update {
  ElementType real = ElementType::kFloat32;
  const Layout* layout = nullptr;
  void* parameters = nullptr;
  const void* gradients = nullptr;
  std::span<void* const> slots;  // one arena for each of Optimizer::slots()
  double gradient_scale = 1;     // of clipping: gradients are multiplied by it
  std::int64_t step = 0;         // steps committed before this one; the schedule's clock
  int threads = 1;
};

// The number that a segment's parameters (`part` 0) or slot part - 1 have in the digest of a state with `slots` slots.
constexpr size_t array_of(size_t segment, size_t part, size_t slots) {
  return segment * (slots + 1) + part;
}

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Names of the arenas of state that it needs ("momentum"); all start at zero.
  virtual const std::vector<std::string>& slots() const = 0;
  // A pure function of the update: the same on every rank. Allocates nothing. Returns the sum of the digests (digest.h)
  // of the parameters and slots as it left them, where array_of() says which array is which.
  virtual std::uint64_t apply(const Update& update) const = 0;
  // Learning rate of the step that follows `step` committed ones.
  virtual double learning_rate(std::int64_t step) const = 0;
  // Its settings as text; part of what a checkpoint is compared with.
  virtual std::string describe() const = 0;
};

}  // namespace lockstep::trainer::core
