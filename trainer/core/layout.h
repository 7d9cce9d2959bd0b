// Where each parameter lies in the flat arenas (parameters, gradients and optimizer state share one layout), and the
// gradient buckets, which are ranges of it. Parameters are laid out in the order in which the backward pass finishes
// their gradients. So a bucket is one contiguous range, and its all-reduce can start while earlier layers still
// compute.
#pragma once

#include <string>
#include <vector>

#include "trainer/core/graph.h"

namespace lockstep::trainer::core {

struct Segment {
  TensorId tensor = -1;
  std::string name;
  Shape shape;
  size_t offset = 0;  // elements from the start of the arena
  size_t count = 0;   // elements, without padding
  bool decay = false;
};

struct Bucket {
  size_t begin = 0, end = 0;                  // elements; bucket i + 1 begins where i ends
  size_t first_segment = 0, end_segment = 0;  // the segments inside
  size_t ready_node = 0;                      // complete after the backward pass of this node
};

struct Layout {
  std::vector<Segment> segments;    // by offset
  std::vector<Bucket> buckets;      // in the order in which they become ready
  size_t count = 0;                 // elements of an arena, with padding (which stays zero)
  std::vector<Segment> statistics;  // of an arena of their own, without padding, in the order of creation
};

struct BucketSizes {
  size_t first_bytes = size_t{1} << 20;  // small, so that the first all-reduce starts early
  size_t bytes = size_t{25} << 20;
};

// Each bucket is closed before it would pass its size (counted in float32); one larger tensor is a bucket of its own.
Layout lay_out(const Graph& graph, BucketSizes sizes = {});

}  // namespace lockstep::trainer::core
