#include "trainer/backend/cuda/copies.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/backend/cuda/kernels/elementwise.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::backend::cuda {

namespace {

enum class What : std::uint8_t { kInput, kParameter, kOutput, kInputGradient, kParameterGradient };
enum class Where : std::uint8_t { kKept, kForwardScratch, kBackwardScratch };

struct Copy {
  What what;
  size_t index;  // in the node's list
  size_t count;  // elements
  Where where;
  size_t at = 0;  // the block that is kept, or the first float of the scratch
};

// cuDNN multiplies the parameter with activations, and has one type for operands and result.
bool is_of_dnn(const core::Op& op, const Dimensions& d, size_t parameter) {
  const auto* const convolution = std::get_if<core::ops::Conv2d>(&op);
  return convolution != nullptr && needs_dnn(*convolution, d) && parameter == 0;
}

// cuBLASLt multiplies activations with the weight, and adds a bias of the result's type.
bool is_of_blas(const core::Graph& graph, const core::Node& node, size_t parameter) {
  if (!std::holds_alternative<core::ops::Linear>(node.op)) return false;
  return parameter == 0 || !is_float(graph, node.output);
}

// Scores and targets are compared in float32.
bool takes_float(const core::Op& op, size_t input) {
  return std::holds_alternative<core::ops::SoftmaxCrossEntropy>(op) ||
         (std::holds_alternative<core::ops::MeanSquaredError>(op) && input == 1);
}

bool writes_float(const core::Op& op) {
  return core::is_loss(op) || std::holds_alternative<core::ops::Linear>(op);
}

std::vector<Copy> copies_of(const core::Graph& graph, const core::Node& node, const Needs& needs) {
  const Dimensions d = dimensions_of(graph, node);
  const auto count = [&](core::TensorId id) { return static_cast<size_t>(core::count_of(graph.tensor(id).shape)); };
  const auto kept = [](bool later) { return later ? Where::kKept : Where::kForwardScratch; };
  std::vector<Copy> copies;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const core::TensorId id = node.inputs[i];
    const core::Tensor& tensor = graph.tensor(id);
    if (tensor.number == core::Number::kIndex) continue;
    if (is_float(graph, id) && !takes_float(node.op, i)) {
      copies.push_back({What::kInput, i, count(id), kept(needs.reads_inputs)});
    }
    if (tensor.role == core::Role::kParameter) {
      copies.push_back({What::kInputGradient, i, count(id), Where::kBackwardScratch});
    }
  }
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    const size_t elements = count(node.parameters[i]);
    if (is_of_dnn(node.op, d, i) || is_of_blas(graph, node, i)) {
      copies.push_back({What::kParameter, i, elements, Where::kKept});
    }
    if (is_of_dnn(node.op, d, i)) {
      copies.push_back({What::kParameterGradient, i, elements, Where::kBackwardScratch});
    }
  }
  if (is_float(graph, node.output) && !writes_float(node.op)) {
    copies.push_back({What::kOutput, 0, count(node.output), kept(needs.reads_output)});
  }
  return copies;
}

// Finds room for the copies after what the kernel needs.
void place(std::vector<Copy>& copies, Needs& needs) {
  for (Copy& copy : copies) {
    const size_t floats = floats_of(copy.count * sizeof(Bfloat16));
    if (copy.where == Where::kKept) {
      copy.at = needs.keeps.size();
      needs.keeps.push_back(floats);
      continue;
    }
    size_t& scratch = copy.where == Where::kForwardScratch ? needs.forward_scratch : needs.backward_scratch;
    copy.at = core::align_up(scratch, core::kAlignment / sizeof(float));
    scratch = copy.at + floats;
  }
}

class OnCopies final : public Kernel {
 public:
  // `wide`: of float32; `narrow`: of bfloat16.
  struct Conversion {
    void* wide;
    void* narrow;
    std::int64_t count;
  };
  struct Conversions {
    std::vector<Conversion> rounded, widened, added;  // before and after the forward pass; after the backward pass
    std::vector<Conversion> once;                     // of a mutation: before the first forward pass
  };

  OnCopies(DeviceQueue& queue, std::string where, Conversions conversions, std::unique_ptr<Kernel> kernel)
      : queue_(queue), where_(std::move(where)), conversions_(std::move(conversions)), kernel_(std::move(kernel)) {}
  Status forward(const RunContext& context) override {
    for (const Conversion& it : std::exchange(conversions_.once, {})) {
      LOCKSTEP_CHECK_OK(give(static_cast<const float*>(it.wide), static_cast<Bfloat16*>(it.narrow), it.count, false));
    }
    LOCKSTEP_CHECK_OK(round());
    LOCKSTEP_CHECK_OK(kernel_->forward(context));
    return widen();
  }
  Status recompute(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(round());
    LOCKSTEP_CHECK_OK(kernel_->recompute(context));
    return widen();
  }
  Status backward(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(kernel_->backward(context));
    for (const Conversion& it : conversions_.added) {
      LOCKSTEP_CHECK_OK(give(static_cast<const Bfloat16*>(it.narrow), static_cast<float*>(it.wide), it.count, true));
    }
    return {};
  }

 private:
  Status round() const {
    for (const Conversion& it : conversions_.rounded) {
      LOCKSTEP_CHECK_OK(give(static_cast<const float*>(it.wide), static_cast<Bfloat16*>(it.narrow), it.count, false));
    }
    return {};
  }
  Status widen() const {
    for (const Conversion& it : conversions_.widened) {
      LOCKSTEP_CHECK_OK(give(static_cast<const Bfloat16*>(it.narrow), static_cast<float*>(it.wide), it.count, false));
    }
    return {};
  }
  template <typename From, typename To>
  Status give(const From* from, To* to, std::int64_t count, bool accumulate) const {
    return queue_.status_of(trainer::cuda::give(queue_.stream(), from, to, count, accumulate), where_);
  }

  DeviceQueue& queue_;
  const std::string where_;
  Conversions conversions_;
  const std::unique_ptr<Kernel> kernel_;
};

// Binds the kernel to the copy in place of what it is of. A null gradient is not wanted.
void bind(const Copy& copy, Bindings& bindings, OnCopies::Conversions& conversions) {
  const auto replace = [&](auto& address, std::vector<OnCopies::Conversion>& with) {
    if (address == nullptr) return false;
    void* const scratch = copy.where == Where::kForwardScratch ? bindings.forward_scratch : bindings.backward_scratch;
    void* const narrow = copy.where == Where::kKept ? bindings.keeps[copy.at] : static_cast<float*>(scratch) + copy.at;
    with.push_back({const_cast<void*>(static_cast<const void*>(std::exchange(address, narrow))), narrow,
                    static_cast<std::int64_t>(copy.count)});
    return true;
  };
  switch (copy.what) {
    case What::kInput:
      replace(bindings.inputs[copy.index], conversions.rounded);
      break;
    case What::kParameter:
      replace(bindings.parameters[copy.index], trainer::cuda::mutation() == trainer::cuda::Mutation::kKeepCopies
                                                   ? conversions.once
                                                   : conversions.rounded);
      break;
    case What::kOutput:
      replace(bindings.output, conversions.widened);
      break;
    case What::kInputGradient:
      if (replace(bindings.input_gradients[copy.index], conversions.added)) bindings.accumulate[copy.index] = false;
      break;
    case What::kParameterGradient:
      replace(bindings.parameter_gradients[copy.index], conversions.added);
      break;
  }
}

}  // namespace

Needs with_copies(const core::Graph& graph, const core::Node& node, Needs needs) {
  std::vector<Copy> copies = copies_of(graph, node, needs);
  place(copies, needs);
  return needs;
}

Result<std::unique_ptr<Kernel>> make_on_copies(Site site, const Needs& needs,
                                               const std::function<Result<std::unique_ptr<Kernel>>(Site)>& make) {
  std::vector<Copy> copies = copies_of(site.at.graph, site.at.node, needs);
  Needs all = needs;
  place(copies, all);
  OnCopies::Conversions conversions;
  for (const Copy& copy : copies) bind(copy, site.at.bindings, conversions);
  DeviceQueue& queue = site.queue;
  std::string where = "layer '" + site.at.node.name + "'";
  LOCKSTEP_TRY(auto kernel, make(std::move(site)));
  if (copies.empty()) return kernel;
  return std::unique_ptr<Kernel>(
      std::make_unique<OnCopies>(queue, std::move(where), std::move(conversions), std::move(kernel)));
}

}  // namespace lockstep::trainer::backend::cuda
