// What the kernels of `cuda` share, and the functions that each op's file (ops/) defines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/backend/cuda/kernels/slid_images.h"
#include "trainer/backend/cuda/matmul.h"
#include "trainer/backend/cuda/precision.h"
#include "trainer/backend/node_kernel.h"
#include "trainer/backend/norm_block.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend::cuda {

using core::RunContext;
using trainer::cuda::Bfloat16;
using trainer::cuda::CudaError;
using trainer::cuda::CudaStream;
using trainer::cuda::DeviceQueue;

// A node, and what computes it. The queue and what the others refer to outlive the kernel.
struct Site {
  NodeSite at;
  DeviceQueue& queue;
  const trainer::cuda::BlasPlace& blas;
  const trainer::cuda::DnnPlace* dnn;     // null: no convolution of the graph needs it
  trainer::cuda::DeviceScratch& scratch;  // reserved when the kernel is made, free to use in each run
  std::uint64_t* bad_index;               // of the device, for find_bad_index()
  Precision precision = Precision::kFloat32;
};

// Each op of core/ops.h.
#define LOCKSTEP_CUDA_OPS(EACH) \
  EACH(Linear)                  \
  EACH(Relu)                    \
  EACH(Relu6)                   \
  EACH(Gelu)                    \
  EACH(Embedding)               \
  EACH(Add)                     \
  EACH(LayerNorm)               \
  EACH(BatchNorm)               \
  EACH(Dropout)                 \
  EACH(CausalAttention)         \
  EACH(Flatten)                 \
  EACH(Conv2d)                  \
  EACH(MaxPool2d)               \
  EACH(GlobalAveragePool)       \
  EACH(SoftmaxCrossEntropy)     \
  EACH(MeanSquaredError)

// make_kernel: kInternal, with the layer's name, if a library cannot compute it; kExhausted if it lacks memory.
#define LOCKSTEP_KERNEL(name)                                     \
  Needs needs_of(const core::ops::name& op, const Dimensions& d); \
  Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::name& op, Site site);
LOCKSTEP_CUDA_OPS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL

// The same of a batch norm with what follows it. `d` is that of the norm, and so is the site's node.
Needs needs_of(const NormBlock& block, const Dimensions& d);
Result<std::unique_ptr<Kernel>> make_kernel(const NormBlock& block, Site site);

// Whether cuDNN computes the convolution, rather than the kernels of kernels/depthwise.h.
bool needs_dnn(const core::ops::Conv2d& op, const Dimensions& d);

// The images of a node and the window that slides over them.
inline trainer::cuda::SlidImages images_of(const Dimensions& d, std::int64_t kernel, std::int64_t stride,
                                           std::int64_t padding) {
  return {.samples = static_cast<std::int64_t>(d.samples),
          .height = static_cast<int>(d.height),
          .width = static_cast<int>(d.width),
          .channels = static_cast<std::int64_t>(d.in),
          .out_height = static_cast<int>(d.out_height),
          .out_width = static_cast<int>(d.out_width),
          .kernel = static_cast<int>(kernel),
          .stride = static_cast<int>(stride),
          .padding = static_cast<int>(padding)};
}

// Whether the values of the tensor are float32 in memory where activations are bfloat16: others than kernels read or
// write it. It is an input, a parameter, an output of the graph or a loss.
bool is_float(const core::Graph& graph, core::TensorId tensor);

// Float elements that hold so many bytes of scratch.
inline size_t floats_of(size_t bytes) {
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

// Activations and their gradients are of type E, float or Bfloat16, which run() chooses. copies.h sees to it that all
// to which the kernel is bound are of that type. Parameters and their gradients, what is kept, and losses are float.
class Base : public NodeKernel<float> {
 public:
  explicit Base(Site site)
      : NodeKernel(std::move(site.at)),
        queue_(site.queue),
        precision_(site.precision),
        writes_float_(is_float(graph(), node().output)),
        reads_float_(is_float(graph(), node().inputs.front())),
        bad_index_(site.bad_index) {}

 protected:
  static std::int64_t size(size_t value) { return static_cast<std::int64_t>(value); }
  std::int64_t rows() const { return size(d_.rows); }
  std::int64_t samples() const { return size(d_.samples); }
  std::int64_t count() const { return size(elements()); }
  template <typename E>
  const E* x(size_t i = 0) const {
    return static_cast<const E*>(bindings().inputs[i]);
  }
  template <typename E>
  E* y() const {
    return static_cast<E*>(bindings().output);
  }
  template <typename E>
  const E* dy() const {
    return static_cast<const E*>(bindings().output_gradient);
  }
  template <typename E>
  E* dx(size_t i = 0) const {
    return static_cast<E*>(bindings().input_gradients[i]);
  }
  bool wants_dx(size_t i = 0) const { return bindings().input_gradients[i] != nullptr; }
  CudaStream* stream() const { return queue_.stream(); }
  // Whether the first input and the output are float32 in memory: for kernels that need no copy of it then.
  bool reads_float() const { return !rounds() || reads_float_; }
  bool writes_float() const { return !rounds() || writes_float_; }
  bool rounds() const { return precision_ == Precision::kBfloat16; }
  // Whether libraries may round float32 operands to TF32.
  bool tf32() const { return precision_ == Precision::kTf32; }
  // What a launcher of kernels returned: an error of its own with the layer's name, one of earlier work with the GPU's.
  Status launched(CudaError error) const { return queue_.status_of(error, where()); }
  // What launcher.operator()<E>() returned.
  template <typename Launcher>
  Status run(const Launcher& launcher) const {
    return launched(rounds() ? launcher.template operator()<Bfloat16>() : launcher.template operator()<float>());
  }
  // Looks for a row of input `i` outside [0, limit). A later wait returns the error.
  Status check_indices(size_t i, std::int64_t limit) const;
  // The layer, as errors name it.
  std::string where() const;

  DeviceQueue& queue_;

 private:
  const Precision precision_;
  const bool writes_float_, reads_float_;
  std::uint64_t* const bad_index_;
};

}  // namespace lockstep::trainer::backend::cuda
