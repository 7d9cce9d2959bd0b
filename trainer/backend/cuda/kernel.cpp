#include "trainer/backend/cuda/kernel.h"

#include "trainer/backend/cuda/kernels/embedding.h"

namespace lockstep::trainer::backend::cuda {

std::string Base::where() const {
  return "layer '" + node().name + "'";
}

Status Base::check_indices(size_t i, std::int64_t limit) const {
  queue_.fill(bad_index_, 0xff, sizeof *bad_index_);  // kNoBadIndex
  LOCKSTEP_CHECK_OK(launched(trainer::cuda::find_bad_index(stream(), indices(i), rows(), limit, bad_index_)));
  queue_.check_index(node(), limit, bad_index_);
  return {};
}

}  // namespace lockstep::trainer::backend::cuda
