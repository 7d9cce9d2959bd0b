#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/embedding.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class EmbeddingKernel final : public Base {
 public:
  explicit EmbeddingKernel(Site site) : Base(std::move(site)) {
    shape_ = {.rows = rows(),
              .positions = tensor(node().parameters[1]).shape[0],
              .vocabulary = tensor(node().parameters[0]).shape[0],
              .width = size(d_.out)};
  }
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(0, shape_.vocabulary));
    return run([&]<typename E>() {
      return trainer::cuda::embedding_forward(stream(), shape_, indices(0), parameter(0), parameter(1), y<E>());
    });
  }
  Status backward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::embedding_backward(stream(), shape_, indices(0), dy<E>(), dparameter(0), dparameter(1));
    });
  }

 private:
  trainer::cuda::EmbeddingShape shape_;
};

}  // namespace

Needs needs_of(const core::ops::Embedding&, const Dimensions&) {
  return {.reads_inputs = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Embedding&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<EmbeddingKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
