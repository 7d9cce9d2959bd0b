// The norm of a flat array as a tree of fixed shape: bitwise identical for every number of ranks and threads.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

// Sums squares block by block in double, then the blocks pairwise. Keeps its scratch memory between calls.
class NormTree {
 public:
  // The Euclidean norm of `count` elements of type `real`; NaN or infinity when an element is. Allocates only for a
  // larger array than any before.
  double norm(const void* data, size_t count, ElementType real, int threads);

 private:
  std::vector<double> sums_;
};

}  // namespace lockstep::trainer::core
