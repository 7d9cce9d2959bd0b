#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/max_pool.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class MaxPool2dKernel final : public Base {
 public:
  MaxPool2dKernel(const core::ops::MaxPool2d& op, Site site)
      : Base(std::move(site)), images_(images_of(d_, op.kernel, op.stride, op.padding)) {}
  Status forward(const RunContext&) override {
    return run(
        [&]<typename E>() { return trainer::cuda::max_pool_forward(stream(), images_, x<E>(), y<E>(), chosen()); });
  }
  Status backward(const RunContext&) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::max_pool_backward(stream(), images_, dy<E>(), chosen(), dx<E>(), accumulate());
    });
  }

 private:
  std::int32_t* chosen() const { return static_cast<std::int32_t*>(bindings().keeps[0]); }

  const trainer::cuda::SlidImages images_;
};

}  // namespace

// Keeps which pixel each window chose. A stride of 2 makes that a quarter of the input. The backward pass then need not
// read the input, nor compare it again for each window that holds a pixel.
Needs needs_of(const core::ops::MaxPool2d&, const Dimensions& d) {
  static_assert(sizeof(std::int32_t) == sizeof(float));
  return {.keeps = {d.samples * d.out_height * d.out_width * d.in}};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::MaxPool2d& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<MaxPool2dKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
