// The norm of a flat arena as a tree of fixed shape: the same bits for every number of ranks and threads.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

// Sums squares block by block in double, then the blocks pairwise. Keeps its scratch memory between calls.
class NormTree {
 public:
  // For arenas of `count` elements.
  explicit NormTree(size_t count);
  size_t count() const { return count_; }

  // The Euclidean norm of `count` elements of type `real`; NaN or infinity when an element is.
  double norm(const void* data, ElementType real, int threads);

 private:
  size_t count_;
  std::vector<double> sums_;
};

}  // namespace lockstep::trainer::core
