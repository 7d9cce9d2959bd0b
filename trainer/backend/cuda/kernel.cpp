#include "trainer/backend/cuda/kernel.h"

#include <algorithm>

#include "trainer/backend/cuda/kernels/embedding.h"

namespace lockstep::trainer::backend::cuda {

bool is_float(const core::Graph& graph, core::TensorId tensor) {
  const auto is = [tensor](const auto& named) { return named.tensor == tensor; };
  return graph.tensor(tensor).role != core::Role::kActivation || std::ranges::any_of(graph.outputs, is) ||
         std::ranges::any_of(graph.losses, is);
}

std::string Base::where() const {
  return "layer '" + node().name + "'";
}

Status Base::check_indices(size_t i, std::int64_t limit) const {
  queue_.fill(bad_index_, 0xff, sizeof *bad_index_);  // kNoBadIndex
  LOCKSTEP_CHECK_OK(
      queue_.status_of(trainer::cuda::find_bad_index(stream(), indices(i), rows(), limit, bad_index_), where()));
  queue_.check_index(node(), limit, bad_index_);
  return {};
}

}  // namespace lockstep::trainer::backend::cuda
