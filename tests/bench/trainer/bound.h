// What the products of a graph cost at least with oneDNN: those layers alone that most of its arithmetic is in.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/graph.h"

namespace lockstep::bench {

// One thread at a time. Each call waits until all have run.
class Bound {
 public:
  virtual ~Bound() = default;
  // "convolutions" or "matrix products".
  virtual const char* what() const = 0;
  virtual void forward() = 0;
  virtual void backward_data() = 0;
  virtual void backward_weights() = 0;
};

// The graph's convolutions, or its matrix products if it has no convolution. Plans for the number of threads that
// OpenMP has on this thread, and for `batch`, the samples of the graph's inputs.
std::unique_ptr<Bound> bound_of(const trainer::core::Graph& graph, std::int64_t batch, int threads);

}  // namespace lockstep::bench
