#include "tests/trainer/backend/cuda/fake_dnn_descriptors.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::trainer::cuda::fake {
namespace {

using Pass = Convolution::Pass;

thread_local std::string latest;

// An attribute of a kind of descriptor.
struct Slot {
  DnnKind kind;
  DnnAttribute attribute;
  DnnType type;
  std::int64_t least = 1, most = 1;  // elements
  bool optional = false;
};

constexpr std::int64_t kMany = 64;

const std::vector<Slot>& slots() {
  using enum DnnAttribute;
  static const std::vector<Slot> all = [] {
    std::vector<Slot> made = {
        {DnnKind::kTensor, kTensorId, DnnType::kInt64},
        {DnnKind::kTensor, kTensorType, DnnType::kDataType},
        {DnnKind::kTensor, kTensorAlignment, DnnType::kInt64},
        {DnnKind::kTensor, kTensorDimensions, DnnType::kInt64, 4, 4},
        {DnnKind::kTensor, kTensorStrides, DnnType::kInt64, 4, 4},
        {DnnKind::kConvolution, kConvolutionType, DnnType::kDataType},
        {DnnKind::kConvolution, DnnAttribute::kConvolutionMode, DnnType::kMode},
        {DnnKind::kConvolution, kConvolutionSpatial, DnnType::kInt64},
        {DnnKind::kConvolution, kConvolutionDilations, DnnType::kInt64, 2, 2},
        {DnnKind::kConvolution, kConvolutionStrides, DnnType::kInt64, 2, 2},
        {DnnKind::kConvolution, kConvolutionPrePaddings, DnnType::kInt64, 2, 2},
        {DnnKind::kConvolution, kConvolutionPostPaddings, DnnType::kInt64, 2, 2},
        {DnnKind::kOperationGraph, kGraphHandle, DnnType::kHandle, 1, 1, true},
        {DnnKind::kOperationGraph, kGraphOperations, DnnType::kDescriptor},
        {DnnKind::kEngineHeuristic, kHeuristicGraph, DnnType::kDescriptor},
        {DnnKind::kEngineHeuristic, DnnAttribute::kHeuristicMode, DnnType::kHeuristicMode},
        {DnnKind::kExecutionPlan, kPlanHandle, DnnType::kHandle},
        {DnnKind::kExecutionPlan, kPlanConfig, DnnType::kDescriptor},
        {DnnKind::kVariantPack, kPackIds, DnnType::kInt64, 1, kMany},
        {DnnKind::kVariantPack, kPackPointers, DnnType::kVoidPointer, 1, kMany},
        {DnnKind::kVariantPack, kPackWorkspace, DnnType::kVoidPointer, 1, 1, true},
    };
    for (const auto& [kind, first] : {std::pair(DnnKind::kForward, kForwardAlpha),
                                      {DnnKind::kDataGradient, kDataGradientAlpha},
                                      {DnnKind::kFilterGradient, kFilterGradientAlpha}}) {
      for (int i = 0; i < 6; ++i) {  // alpha, beta, the convolution and three tensors
        made.push_back({kind, static_cast<DnnAttribute>(static_cast<int>(first) + i),
                        i < 2 ? DnnType::kFloat : DnnType::kDescriptor});
      }
    }
    return made;
  }();
  return all;
}

template <size_t kCount>
std::array<std::int64_t, kCount> array_of(const Contents& of, DnnAttribute attribute) {
  std::array<std::int64_t, kCount> array{};
  const std::vector<std::int64_t> all = of.all<std::int64_t>(attribute);
  std::copy_n(all.begin(), kCount, array.begin());
  return array;
}

ConvolutionTensor tensor_of(const Contents& tensor) {
  return {.id = tensor.one<std::int64_t>(DnnAttribute::kTensorId),
          .bfloat16 = tensor.one<DnnDataType>(DnnAttribute::kTensorType) == DnnDataType::kBfloat16,
          .alignment = tensor.one<std::int64_t>(DnnAttribute::kTensorAlignment),
          .dimensions = array_of<4>(tensor, DnnAttribute::kTensorDimensions),
          .strides = array_of<4>(tensor, DnnAttribute::kTensorStrides)};
}

}  // namespace

size_t size_of(DnnType type) {
  switch (type) {
    case DnnType::kHandle:
    case DnnType::kInt64:
    case DnnType::kVoidPointer:
    case DnnType::kDescriptor:
      return 8;
    default:
      return 4;
  }
}

DnnStatus refuse(DnnStatus status, std::string why) {
  latest = std::move(why);
  return status;
}

const std::string& last_error() {
  return latest;
}

bool is_known(DnnKind kind) {
  return kind == DnnKind::kEngine || kind == DnnKind::kEngineConfig ||  // filled in by the library alone
         std::any_of(slots().begin(), slots().end(), [&](const Slot& slot) { return slot.kind == kind; });
}

DnnStatus may_set(const Contents& to, DnnAttribute attribute, DnnType type, std::int64_t count) {
  if (to.finalized) return refuse(DnnStatus::kBadParam, "the descriptor is finalized already");
  const auto slot = std::find_if(slots().begin(), slots().end(), [&](const Slot& candidate) {
    return candidate.kind == to.kind && candidate.attribute == attribute;
  });
  if (slot == slots().end()) return refuse(DnnStatus::kBadParam, "the descriptor has no such attribute");
  if (slot->type != type) return refuse(DnnStatus::kAttributeType, "the attribute is of another type");
  if (count < slot->least || count > slot->most) return refuse(DnnStatus::kBadParam, "the number of elements");
  return DnnStatus::kSuccess;
}

Convolution convolution_of(const Contents& operation) {
  using enum DnnAttribute;
  Convolution made;
  std::array<DnnAttribute, 6> at{};  // alpha, beta, convolution, x, w, y
  switch (operation.kind) {
    case DnnKind::kForward:
      at = {kForwardAlpha, kForwardBeta, kForwardConvolution, kForwardX, kForwardW, kForwardY};
      break;
    case DnnKind::kDataGradient:
      made.pass = Pass::kDataGradient;
      at = {kDataGradientAlpha, kDataGradientBeta, kDataGradientConvolution,
            kDataGradientDx,    kDataGradientW,    kDataGradientDy};
      break;
    default:
      made.pass = Pass::kFilterGradient;
      at = {kFilterGradientAlpha, kFilterGradientBeta, kFilterGradientConvolution,
            kFilterGradientX,     kFilterGradientDw,   kFilterGradientDy};
  }
  made.alpha = operation.one<float>(at[0]);
  made.beta = operation.one<float>(at[1]);
  const Contents& how = operation.descriptor(at[2]);
  made.flips = how.one<DnnConvolutionMode>(DnnAttribute::kConvolutionMode) == DnnConvolutionMode::kConvolution;
  made.strides = array_of<2>(how, kConvolutionStrides);
  made.dilations = array_of<2>(how, kConvolutionDilations);
  made.before = array_of<2>(how, kConvolutionPrePaddings);
  made.after = array_of<2>(how, kConvolutionPostPaddings);
  made.x = tensor_of(operation.descriptor(at[3]));
  made.w = tensor_of(operation.descriptor(at[4]));
  made.y = tensor_of(operation.descriptor(at[5]));
  return made;
}

DnnStatus check(const Contents& of) {
  using enum DnnAttribute;
  for (const Slot& slot : slots()) {
    if (slot.kind == of.kind && !slot.optional && !of.values.contains(slot.attribute)) {
      return refuse(DnnStatus::kBadParam,
                    "the attribute " + std::to_string(static_cast<int>(slot.attribute)) + " is missing");
    }
  }
  const auto all_at_least = [&](DnnAttribute attribute, std::int64_t least) {
    const std::vector<std::int64_t> all = of.all<std::int64_t>(attribute);
    return std::all_of(all.begin(), all.end(), [&](std::int64_t value) { return value >= least; });
  };
  switch (of.kind) {
    case DnnKind::kTensor: {
      const std::int64_t alignment = of.one<std::int64_t>(kTensorAlignment);
      if (alignment < 4 || (alignment & (alignment - 1)) != 0) return refuse(DnnStatus::kBadParam, "the alignment");
      const auto type = of.one<DnnDataType>(kTensorType);
      if (type != DnnDataType::kFloat32 && type != DnnDataType::kBfloat16) {
        return refuse(DnnStatus::kNotSupported, "the type");
      }
      if (!all_at_least(kTensorDimensions, 1)) return refuse(DnnStatus::kBadParam, "a dimension is not positive");
      const auto [n, c, h, w] = array_of<4>(of, kTensorDimensions);
      if (array_of<4>(of, kTensorStrides) != std::array<std::int64_t, 4>{h * w * c, 1, w * c, c}) {
        return refuse(DnnStatus::kNotSupported, "a tensor is not in the order N, H, W, C");
      }
      return DnnStatus::kSuccess;
    }
    case DnnKind::kConvolution:
      if (of.one<DnnDataType>(kConvolutionType) != DnnDataType::kFloat32 ||
          of.one<std::int64_t>(kConvolutionSpatial) != 2) {
        return refuse(DnnStatus::kNotSupported, "a convolution that is not one of images with sums in float32");
      }
      if (!all_at_least(kConvolutionStrides, 1) || !all_at_least(kConvolutionDilations, 1) ||
          !all_at_least(kConvolutionPrePaddings, 0) || !all_at_least(kConvolutionPostPaddings, 0)) {
        return refuse(DnnStatus::kBadParam, "a stride, a dilation or a padding is too small");
      }
      return DnnStatus::kSuccess;
    case DnnKind::kForward:
    case DnnKind::kDataGradient:
    case DnnKind::kFilterGradient: {
      const Convolution convolution = convolution_of(of);
      if (!convolution.fits()) return refuse(DnnStatus::kBadParam, "the sizes of the tensors do not fit each other");
      const std::int64_t x = convolution.x.id, w = convolution.w.id, y = convolution.y.id;
      if (x == w || w == y || y == x) return refuse(DnnStatus::kBadParam, "two tensors have one number");
      return DnnStatus::kSuccess;
    }
    case DnnKind::kVariantPack: {
      std::vector<std::int64_t> ids = of.all<std::int64_t>(kPackIds);
      if (of.values.at(kPackPointers).count != of.values.at(kPackIds).count) {
        return refuse(DnnStatus::kBadParam, "there are not as many pointers as numbers of tensors");
      }
      std::sort(ids.begin(), ids.end());
      if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
        return refuse(DnnStatus::kBadParam, "a tensor is named twice");
      }
      return DnnStatus::kSuccess;
    }
    default:
      return DnnStatus::kSuccess;
  }
}

}  // namespace lockstep::trainer::cuda::fake
