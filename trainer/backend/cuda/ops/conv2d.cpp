#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "trainer/backend/cuda/error_code.h"
#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/bias.h"
#include "trainer/backend/cuda/kernels/depthwise.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::backend::cuda {

namespace {

using trainer::cuda::ConvolutionPass;
using trainer::cuda::ConvolutionPlan;
using trainer::cuda::DnnDataType;
using trainer::cuda::DnnStatus;
using trainer::cuda::SlidImages;

std::int64_t rows_after(const Dimensions& d) {
  return static_cast<std::int64_t>(d.samples * d.out_height * d.out_width);
}

// What both kinds have in common.
class ConvolutionBase : public Base {
 public:
  ConvolutionBase(const core::ops::Conv2d& op, Site site) : Base(std::move(site)), op_(op) {}

 protected:
  const float* bias() const { return op_.bias ? parameter(1) : nullptr; }
  Status bias_gradient() const {
    if (!op_.bias) return {};
    return run([&]<typename E>() {
      return trainer::cuda::add_column_sums(stream(), dy<E>(), dparameter(1), rows_after(d_), size(d_.out),
                                            bindings().backward_scratch);
    });
  }

  const core::ops::Conv2d op_;
};

class ConvolutionKernel final : public ConvolutionBase {
 public:
  ConvolutionKernel(const core::ops::Conv2d& op, Site site)
      : ConvolutionBase(op, site), dnn_(*site.dnn), scratch_(site.scratch) {}

  // The passes that the memory of this node calls for.
  Status plan() {
    LOCKSTEP_CHECK_OK(plan(output_, ConvolutionPass::kForward, false));
    if (dparameter(0) == nullptr) return {};
    LOCKSTEP_CHECK_OK(plan(weight_gradient_, ConvolutionPass::kWeightGradient, !rounds()));
    if (!wants_dx()) return {};
    return plan(input_gradient_, ConvolutionPass::kInputGradient, accumulate());
  }
  Status forward(const RunContext&) override {
    const Bindings& of = bindings();
    LOCKSTEP_CHECK_OK(convolve(*output_, of.inputs[0], of.parameters[0], of.output));
    if (bias() == nullptr) return {};
    return run(
        [&]<typename E>() { return trainer::cuda::add_bias(stream(), bias(), y<E>(), rows_after(d_), size(d_.out)); });
  }
  Status backward(const RunContext&) override {
    const Bindings& of = bindings();
    LOCKSTEP_CHECK_OK(convolve(*weight_gradient_, of.inputs[0], of.output_gradient, of.parameter_gradients[0]));
    LOCKSTEP_CHECK_OK(bias_gradient());
    if (!input_gradient_) return {};
    return convolve(*input_gradient_, of.output_gradient, of.parameters[0], of.input_gradients[0]);
  }

 private:
  Status plan(std::optional<ConvolutionPlan>& plan, ConvolutionPass pass, bool adds) {
    Result<ConvolutionPlan> planned =
        ConvolutionPlan::plan(dnn_,
                              {.samples = samples(),
                               .height = size(d_.height),
                               .width = size(d_.width),
                               .channels = size(d_.in),
                               .out_height = size(d_.out_height),
                               .out_width = size(d_.out_width),
                               .outputs = size(d_.out),
                               .kernel = op_.kernel,
                               .stride = op_.stride,
                               .padding = op_.padding,
                               .groups = op_.groups,
                               .type = rounds() ? DnnDataType::kBfloat16 : DnnDataType::kFloat32,
                               .tf32 = tf32()},
                              pass, adds);
    if (!planned) return planned.error().in(where());
    plan.emplace(std::move(*planned));
    const size_t part = trainer::cuda::mutation() == trainer::cuda::Mutation::kLittleScratch ? 2 : 1;
    const Status reserved = scratch_.reserve(plan->workspace_bytes() / part);
    return reserved ? Status() : reserved.error().in(where());
  }
  Status convolve(const ConvolutionPlan& plan, const void* a, const void* b, void* result) const {
    const DnnStatus status = plan.run(a, b, result, scratch_.data(), stream());
    if (status == DnnStatus::kSuccess) return {};
    LOCKSTEP_CHECK_OK(queue_.health());  // earlier work may have failed
    std::array<char, 512> text{};
    dnn_.dnn.last_error(text.data(), text.size());
    return fail(trainer::cuda::code_of(status), where() + ": cuDNN could not compute a convolution: " +
                                                    dnn_.dnn.status_string(status) + " (" + text.data() + ")");
  }

  const trainer::cuda::DnnPlace& dnn_;
  trainer::cuda::DeviceScratch& scratch_;
  std::optional<ConvolutionPlan> output_, weight_gradient_, input_gradient_;
};

class DepthwiseKernel final : public ConvolutionBase {
 public:
  DepthwiseKernel(const core::ops::Conv2d& op, Site site)
      : ConvolutionBase(op, std::move(site)), images_(images_of(d_, op.kernel, op.stride, op.padding)) {}
  Status forward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::depthwise_forward(stream(), images_, x<E>(), parameter(0), bias(), y<E>(),
                                              bindings().forward_scratch);
    });
  }
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(run([&]<typename E>() {
      return trainer::cuda::depthwise_backward_weight(stream(), images_, x<E>(), dy<E>(), dparameter(0),
                                                      bindings().backward_scratch);
    }));
    LOCKSTEP_CHECK_OK(bias_gradient());
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::depthwise_backward_input(stream(), images_, dy<E>(), parameter(0), dx<E>(), accumulate(),
                                                     bindings().backward_scratch);
    });
  }

 private:
  const SlidImages images_;
};

}  // namespace

bool needs_dnn(const core::ops::Conv2d& op, const Dimensions& d) {
  return op.groups != static_cast<std::int64_t>(d.in) || d.in != d.out;
}

Needs needs_of(const core::ops::Conv2d& op, const Dimensions& d) {
  size_t forward = 0;
  size_t backward = op.bias ? trainer::cuda::column_sums_scratch(rows_after(d), static_cast<std::int64_t>(d.out)) : 0;
  if (!needs_dnn(op, d)) {
    const SlidImages images = images_of(d, op.kernel, op.stride, op.padding);
    forward = trainer::cuda::depthwise_scratch(images);
    backward = std::max({backward, forward, trainer::cuda::depthwise_weight_scratch(images)});
  }
  return {.reads_inputs = true, .forward_scratch = floats_of(forward), .backward_scratch = floats_of(backward)};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Conv2d& op, Site site) {
  if (!needs_dnn(op, dimensions_of(site.at.graph, site.at.node))) {
    return std::unique_ptr<Kernel>(std::make_unique<DepthwiseKernel>(op, std::move(site)));
  }
  auto kernel = std::make_unique<ConvolutionKernel>(op, std::move(site));
  LOCKSTEP_CHECK_OK(kernel->plan());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace lockstep::trainer::backend::cuda
