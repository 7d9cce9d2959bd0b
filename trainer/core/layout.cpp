#include "trainer/core/layout.h"

#include <algorithm>

namespace lockstep::trainer::core {

namespace {
constexpr size_t kAlignElements = kAlignment / sizeof(float);
}

Layout lay_out(const Graph& graph, BucketSizes sizes) {
  // The backward pass runs through the nodes from the last to the first. So the first of the nodes that share a
  // parameter finishes its gradient.
  std::vector<size_t> finished_by(graph.tensors.size(), graph.nodes.size());
  for (size_t node = graph.nodes.size(); node-- > 0;) {
    for (TensorId id : graph.nodes[node].parameters) finished_by[static_cast<size_t>(id)] = node;
    for (TensorId id : graph.nodes[node].inputs) finished_by[static_cast<size_t>(id)] = node;
  }
  std::vector<TensorId> order = graph.with_role(Role::kParameter);
  std::stable_sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    return finished_by[static_cast<size_t>(a)] > finished_by[static_cast<size_t>(b)];
  });

  Layout layout;
  for (TensorId id : order) {
    const Tensor& tensor = graph.tensor(id);
    auto count = static_cast<size_t>(count_of(tensor.shape));
    size_t end = layout.count + align_up(count, kAlignElements);
    size_t limit = (layout.buckets.size() <= 1 ? sizes.first_bytes : sizes.bytes) / sizeof(float);
    if (layout.buckets.empty() || end - layout.buckets.back().begin > limit) {
      layout.buckets.push_back({.begin = layout.count, .first_segment = layout.segments.size()});
    }
    layout.segments.push_back({.tensor = id,
                               .name = tensor.name,
                               .shape = tensor.shape,
                               .offset = layout.count,
                               .count = count,
                               .decay = tensor.decay});
    layout.count = end;
    Bucket& bucket = layout.buckets.back();
    bucket.end = end;
    bucket.end_segment = layout.segments.size();
    bucket.ready_node = finished_by[static_cast<size_t>(id)];
  }
  size_t offset = 0;
  for (TensorId id : graph.with_role(Role::kStatistic)) {
    const Tensor& tensor = graph.tensor(id);
    auto count = static_cast<size_t>(count_of(tensor.shape));
    layout.statistics.push_back(
        {.tensor = id, .name = tensor.name, .shape = tensor.shape, .offset = offset, .count = count});
    offset += count;
  }
  return layout;
}

}  // namespace lockstep::trainer::core
