#include "trainer/backend/cuda/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trainer/backend/cuda/error_code.h"
#include "trainer/core/tensor.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::cuda {

namespace {

using Owned = std::unique_ptr<DnnDescriptor, DnnStatus (*)(DnnDescriptor*)>;

// Of the tensors of a graph.
constexpr std::int64_t kX = 1, kWeight = 2, kY = 3;

// What the library calls the parts of a pass.
struct Pass {
  const char* name;
  DnnKind kind;
  DnnAttribute alpha, beta, convolution, weight, x, y;
  std::array<std::int64_t, 3> ids;  // of run()'s a, b and result
};

const Pass& pass_of(ConvolutionPass pass) {
  static constexpr std::array<Pass, 3> kPasses = {{
      {"output",
       DnnKind::kForward,
       DnnAttribute::kForwardAlpha,
       DnnAttribute::kForwardBeta,
       DnnAttribute::kForwardConvolution,
       DnnAttribute::kForwardW,
       DnnAttribute::kForwardX,
       DnnAttribute::kForwardY,
       {kX, kWeight, kY}},
      {"input's gradient",
       DnnKind::kDataGradient,
       DnnAttribute::kDataGradientAlpha,
       DnnAttribute::kDataGradientBeta,
       DnnAttribute::kDataGradientConvolution,
       DnnAttribute::kDataGradientW,
       DnnAttribute::kDataGradientDx,
       DnnAttribute::kDataGradientDy,
       {kY, kWeight, kX}},
      {"weights' gradient",
       DnnKind::kFilterGradient,
       DnnAttribute::kFilterGradientAlpha,
       DnnAttribute::kFilterGradientBeta,
       DnnAttribute::kFilterGradientConvolution,
       DnnAttribute::kFilterGradientDw,
       DnnAttribute::kFilterGradientX,
       DnnAttribute::kFilterGradientDy,
       {kX, kY, kWeight}},
  }};
  return kPasses[static_cast<size_t>(pass)];
}

// Creates and sets up descriptors until one call fails.
class DnnCalls {
 public:
  explicit DnnCalls(const Dnn& dnn) : dnn_(dnn) {}

  void operator()(DnnStatus status) {
    if (failed() || status == DnnStatus::kSuccess) return;
    status_ = status;
    dnn_.last_error(text_.data(), text_.size());
    text_.back() = '\0';
  }
  Owned create(DnnKind kind) {
    DnnDescriptor* created = nullptr;
    if (!failed()) (*this)(dnn_.create_descriptor(kind, &created));
    return {created, dnn_.destroy_descriptor};
  }
  template <typename Element>
  void set(const Owned& descriptor, DnnAttribute attribute, DnnType type, std::int64_t count, const Element* elements) {
    if (!failed()) (*this)(dnn_.set(descriptor.get(), attribute, type, count, elements));
  }
  template <typename Element>
  void set(const Owned& descriptor, DnnAttribute attribute, DnnType type, const Element& element) {
    set(descriptor, attribute, type, 1, &element);
  }
  // Elements of a read-only attribute, at most `wanted`.
  template <typename Element>
  std::int64_t get(const Owned& descriptor, DnnAttribute attribute, DnnType type, std::int64_t wanted,
                   Element* elements) {
    std::int64_t count = 0;
    if (!failed()) (*this)(dnn_.get(descriptor.get(), attribute, type, wanted, &count, elements));
    return failed() ? 0 : count;
  }
  void finalize(const Owned& descriptor) {
    if (!failed()) (*this)(dnn_.finalize(descriptor.get()));
  }

  bool failed() const { return status_ != DnnStatus::kSuccess; }
  DnnStatus status() const { return status_; }
  std::string why() const { return fmt::format("{} ({})", dnn_.status_string(status_), text_.data()); }

 private:
  const Dnn& dnn_;
  DnnStatus status_ = DnnStatus::kSuccess;
  std::array<char, 512> text_{};
};

// Of images or weights whose memory is in the order N, H, W, C.
Owned tensor(DnnCalls& calls, DnnDataType type, std::int64_t id, std::int64_t n, std::int64_t h, std::int64_t w,
             std::int64_t c) {
  const std::array<std::int64_t, 4> dimensions = {n, c, h, w}, strides = {h * w * c, 1, w * c, c};
  Owned made = calls.create(DnnKind::kTensor);
  calls.set(made, DnnAttribute::kTensorId, DnnType::kInt64, id);
  calls.set(made, DnnAttribute::kTensorType, DnnType::kDataType, type);
  calls.set(made, DnnAttribute::kTensorAlignment, DnnType::kInt64, std::int64_t{core::kAlignment});
  calls.set(made, DnnAttribute::kTensorDimensions, DnnType::kInt64, 4, dimensions.data());
  calls.set(made, DnnAttribute::kTensorStrides, DnnType::kInt64, 4, strides.data());
  calls.finalize(made);
  return made;
}

// How the kernel slides, in each spatial dimension.
struct Window {
  std::array<std::int64_t, 2> strides, dilations, before, after;
};

Window window_of(const ConvolutionShape& s) {
  Window window{.strides = {s.stride, s.stride},
                .dilations = {1, 1},
                .before = {s.padding, s.padding},
                .after = {s.padding, s.padding}};
  const std::int64_t wide = (s.out_width - 1) * (s.stride + 1) + s.kernel - s.width - s.padding;
  if (mutation() == Mutation::kWrongStride && wide >= 0) {
    window.strides[1] += 1;
    window.after[1] = wide;
  }
  if (mutation() == Mutation::kShiftedPadding && s.padding > 0) {
    window.before[1] += 1;
    window.after[1] -= 1;
  }
  if (mutation() == Mutation::kWrongDilation) {
    window.dilations[1] = 2;
    window.after[1] += s.kernel - 1;
  }
  return window;
}

Owned convolution(DnnCalls& calls, const ConvolutionShape& shape) {
  const Window window = window_of(shape);
  Owned made = calls.create(DnnKind::kConvolution);
  calls.set(made, DnnAttribute::kConvolutionType, DnnType::kDataType, DnnDataType::kFloat32);
  calls.set(made, DnnAttribute::kConvolutionMode, DnnType::kMode, DnnConvolutionMode::kCrossCorrelation);
  calls.set(made, DnnAttribute::kConvolutionSpatial, DnnType::kInt64, std::int64_t{2});
  calls.set(made, DnnAttribute::kConvolutionDilations, DnnType::kInt64, 2, window.dilations.data());
  calls.set(made, DnnAttribute::kConvolutionStrides, DnnType::kInt64, 2, window.strides.data());
  calls.set(made, DnnAttribute::kConvolutionPrePaddings, DnnType::kInt64, 2, window.before.data());
  calls.set(made, DnnAttribute::kConvolutionPostPaddings, DnnType::kInt64, 2, window.after.data());
  calls.finalize(made);
  return made;
}

// One operation is the whole graph.
Owned graph_of(DnnCalls& calls, const DnnPlace& place, const ConvolutionShape& s, const Pass& pass, bool adds) {
  const Owned x = tensor(calls, s.type, kX, s.samples, s.height, s.width, s.channels);
  const Owned weight = tensor(calls, s.type, kWeight, s.outputs, s.kernel, s.kernel, s.channels / s.groups);
  const Owned y = tensor(calls, s.type, kY, s.samples, s.out_height, s.out_width, s.outputs);
  const Owned how = convolution(calls, s);
  const Owned operation = calls.create(pass.kind);
  calls.set(operation, pass.alpha, DnnType::kFloat, 1.0F);
  calls.set(operation, pass.beta, DnnType::kFloat, adds ? 1.0F : 0.0F);
  calls.set(operation, pass.convolution, DnnType::kDescriptor, how.get());
  calls.set(operation, pass.weight, DnnType::kDescriptor, weight.get());
  calls.set(operation, pass.x, DnnType::kDescriptor, x.get());
  calls.set(operation, pass.y, DnnType::kDescriptor, y.get());
  calls.finalize(operation);
  Owned graph = calls.create(DnnKind::kOperationGraph);
  if (place.handle != nullptr) calls.set(graph, DnnAttribute::kGraphHandle, DnnType::kHandle, place.handle);
  calls.set(graph, DnnAttribute::kGraphOperations, DnnType::kDescriptor, operation.get());
  calls.finalize(graph);
  return graph;
}

// What the heuristics propose, the best first.
std::vector<Owned> candidates(DnnCalls& calls, const DnnPlace& place, const Owned& graph, DnnHeuristic mode) {
  const Owned heuristic = calls.create(DnnKind::kEngineHeuristic);
  calls.set(heuristic, DnnAttribute::kHeuristicGraph, DnnType::kDescriptor, graph.get());
  calls.set(heuristic, DnnAttribute::kHeuristicMode, DnnType::kHeuristicMode, mode);
  if (place.device != nullptr) {
    calls.set(heuristic, DnnAttribute::kHeuristicDevice, DnnType::kDescriptor, place.device);
  }
  calls.finalize(heuristic);
  const std::int64_t count =
      calls.get<DnnDescriptor*>(heuristic, DnnAttribute::kHeuristicResults, DnnType::kDescriptor, 0, nullptr);
  std::vector<Owned> configs;
  std::vector<DnnDescriptor*> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.push_back(calls.create(DnnKind::kEngineConfig));
    raw.push_back(configs.back().get());
  }
  const std::int64_t found =
      calls.get(heuristic, DnnAttribute::kHeuristicResults, DnnType::kDescriptor, count, raw.data());
  configs.erase(configs.begin() + std::min<std::int64_t>(found, count), configs.end());
  return configs;
}

struct Engine {
  std::int64_t number = -1;
  std::vector<DnnNote> notes;
};

Engine engine_of(DnnCalls& calls, const Owned& config) {
  const Owned described = calls.create(DnnKind::kEngine);
  DnnDescriptor* raw = described.get();
  calls.get(config, DnnAttribute::kConfigEngine, DnnType::kDescriptor, 1, &raw);
  Engine engine;
  calls.get(described, DnnAttribute::kEngineIndex, DnnType::kInt64, 1, &engine.number);
  engine.notes.resize(kMostDnnNotes);
  const std::int64_t count =
      calls.get(described, DnnAttribute::kEngineNotes, DnnType::kNote, kMostDnnNotes, engine.notes.data());
  engine.notes.resize(static_cast<size_t>(std::min<std::int64_t>(count, kMostDnnNotes)));
  return engine;
}

// Tensor cores take bfloat16 as it is, and float32 rounded to TF32.
bool may_use_tensor_cores(const ConvolutionShape& shape) {
  if (shape.type == DnnDataType::kBfloat16 || mutation() == Mutation::kTf32Unasked) return true;
  return shape.tf32 && mutation() != Mutation::kNoTf32;
}

// Results are bitwise identical in every run, of operands as they are or as TF32. A note that is not known may mean
// anything.
bool suits(const Engine& engine, const ConvolutionShape& shape) {
  return std::all_of(engine.notes.begin(), engine.notes.end(), [&shape](DnnNote note) {
    return note == DnnNote::kStrictNan || (note == DnnNote::kTensorCore && may_use_tensor_cores(shape));
  });
}

}  // namespace

Result<ConvolutionPlan> ConvolutionPlan::plan(const DnnPlace& place, const ConvolutionShape& shape,
                                              ConvolutionPass pass, bool adds, size_t most_workspace) {
  const Pass& of = pass_of(pass);
  const auto cannot = [&](ErrorCode code, const std::string& why) {
    return fail(code, fmt::format("cuDNN cannot plan the {} of a convolution of ({}, {}, {}, {}) with {} kernels "
                                  "of {} x {}; stride {}, padding {}, {} groups: {}",
                                  of.name, shape.samples, shape.height, shape.width, shape.channels, shape.outputs,
                                  shape.kernel, shape.kernel, shape.stride, shape.padding, shape.groups, why));
  };
  DnnCalls calls(place.dnn);
  const Owned graph = graph_of(calls, place, shape, of, adds);
  if (calls.failed()) return cannot(code_of(calls.status()), calls.why());
  std::string why_not = "it has no engine for it";
  for (const DnnHeuristic mode : {DnnHeuristic::kA, DnnHeuristic::kFallback}) {
    DnnCalls asking(place.dnn);  // a mode that fails leaves the next
    std::vector<Owned> configs = candidates(asking, place, graph, mode);
    if (asking.failed()) {
      why_not = asking.why();
      continue;
    }
    for (Owned& config : configs) {
      DnnCalls attempt(place.dnn);  // an engine that fails leaves the next
      Engine engine = engine_of(attempt, config);
      if (!attempt.failed() && !suits(engine, shape)) continue;
      Owned planned = attempt.create(DnnKind::kExecutionPlan);
      if (place.handle != nullptr) attempt.set(planned, DnnAttribute::kPlanHandle, DnnType::kHandle, place.handle);
      if (place.device != nullptr) attempt.set(planned, DnnAttribute::kPlanDevice, DnnType::kDescriptor, place.device);
      attempt.set(planned, DnnAttribute::kPlanConfig, DnnType::kDescriptor, config.get());
      attempt.finalize(planned);
      std::int64_t workspace = 0;
      attempt.get(planned, DnnAttribute::kPlanWorkspace, DnnType::kInt64, 1, &workspace);
      if (attempt.failed()) {
        if (lacks_memory(attempt.status())) return cannot(ErrorCode::kExhausted, attempt.why());
        why_not = attempt.why();
        continue;
      }
      if (static_cast<std::uint64_t>(workspace) > most_workspace) {
        why_not = fmt::format("an engine needs a workspace of {} bytes, and may use {}", workspace, most_workspace);
        continue;
      }
      ConvolutionPlan plan(place, of.ids, std::move(config), std::move(planned));
      plan.workspace_bytes_ = static_cast<size_t>(workspace);
      plan.engine_ = engine.number;
      plan.notes_ = std::move(engine.notes);
      return plan;
    }
  }
  return cannot(ErrorCode::kInternal, why_not);
}

DnnStatus ConvolutionPlan::run(const void* a, const void* b, void* result, void* workspace, CudaStream* stream) const {
  const Dnn& dnn = *dnn_;
  const std::array<const void*, 3> pointers = {a, b, result};
  DnnCalls call(dnn);
  const Owned pack = call.create(DnnKind::kVariantPack);
  call.set(pack, DnnAttribute::kPackIds, DnnType::kInt64, 3, ids_.data());
  call.set(pack, DnnAttribute::kPackPointers, DnnType::kVoidPointer, 3, pointers.data());
  call.set(pack, DnnAttribute::kPackWorkspace, DnnType::kVoidPointer, workspace);
  call.finalize(pack);
  if (!call.failed()) call(dnn.set_stream(handle_, stream));
  if (!call.failed()) call(dnn.execute(handle_, plan_.get(), pack.get()));
  return call.status();
}

}  // namespace lockstep::trainer::cuda
