// A fake of cuDNN's backend API for machines without a GPU, as a shared library (libfakecudnn.so) with the names of the
// real one. trainer/backend/cuda/dnn.h loads it unchanged. It is not NVIDIA's. A graph is one convolution. It is
// computed from what its finalized descriptors hold (fake_convolution.h), in the order of the stream of the fake
// runtime (tests/trainer/cuda/fake_cuda.h).
//
// As strict as the library may be:
//   * an attribute that a descriptor does not have, of another type or with another number of elements; a descriptor
//     that lacks an attribute when it is finalized, is set after that or is used before it: an error. Where the library
//     has defaults, for paddings or the factors alpha and beta, a program must say them here;
//   * sizes that do not fit each other, strides that are not of N, H, W, C, two tensors with one number: kBadParam;
//   * a pack that lacks a tensor of the plan, an address less aligned than its tensor says, no workspace for a plan
//     that needs one; these are kBadParam or kMisaligned;
//   * an address or an extent that is not of the device ends the process with a sentence, as in the fake runtime.
//
// Environment: FAKE_CUDNN_CUDART=N, the version of CUDA that it is built for (13020).
//
// The heuristics propose first what a program may not want: an engine whose bits differ from run to run; one that
// rounds its sums on the way; two on tensor cores, of which the first takes bfloat16 alone and the second rounds
// float32 to TF32; one that needs a terabyte; one that does not compile. Then comes one that suits, with a small
// workspace, except for grouped convolutions: these have only what the fallback adds. Where the tensors are not all of
// one type, there is none, as cuDNN 9.26 has none for it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tests/trainer/backend/cuda/fake_convolution.h"
#include "tests/trainer/backend/cuda/fake_dnn_descriptors.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/cuda/dnn.h"

namespace lockstep::trainer::cuda {

// What the program sees as opaque.
struct DnnHandle {
  CudaStream* stream = nullptr;
};
struct DnnDescriptor {
  std::shared_ptr<fake::Contents> contents;
};

namespace {

using fake::Contents;
using fake::Convolution;
using fake::convolution_of;
using fake::ConvolutionTensor;
using fake::Flaw;
using fake::refuse;
using fake::Value;
using fake::value_of;

const Contents& graph_of(const Contents& config) {
  return config.descriptor(DnnAttribute::kConfigEngine).descriptor(DnnAttribute::kEngineGraph);
}

// An engine of this fake. Its place in the list is its number.
struct Engine {
  std::int64_t workspace_bytes;
  Flaw flaw;
  std::vector<DnnNote> notes;
  DnnStatus planned = DnnStatus::kSuccess;
};

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {0, Flaw::kNondeterministic, {DnnNote::kNondeterministic}},
      {0, Flaw::kRoundsSums, {DnnNote::kReducedPrecisionReduction}},
      {0, Flaw::kNarrowsInputs, {DnnNote::kTensorCore, DnnNote::kDownConvertsInputs}},
      {0, Flaw::kRoundsInputs, {DnnNote::kTensorCore}},
      {std::int64_t{1} << 40, Flaw::kNone, {}},
      {0, Flaw::kNone, {}, DnnStatus::kCompilationFailed},
      {std::int64_t{1} << 17, Flaw::kNone, {DnnNote::kStrictNan}},
      {0, Flaw::kNone, {}}};
  return all;
}

const Engine& engine_of(const Contents& config) {
  const Contents& engine = config.descriptor(DnnAttribute::kConfigEngine);
  return engines()[static_cast<size_t>(engine.one<std::int64_t>(DnnAttribute::kEngineIndex))];
}

constexpr size_t kFirstSuiting = 6, kFirstFallback = 7;
constexpr std::int64_t kLargestKernel = 31;  // for a larger one there is no engine
constexpr std::int64_t kFailingKernel = 29;  // for which the heuristics fail, and the fallback does not

std::shared_ptr<const Contents> config_for(const std::shared_ptr<const Contents>& graph, size_t number) {
  auto engine = std::make_shared<Contents>(Contents{.kind = DnnKind::kEngine, .finalized = true});
  engine->values[DnnAttribute::kEngineGraph] = {.type = DnnType::kDescriptor, .count = 1, .contents = {graph}};
  engine->values[DnnAttribute::kEngineIndex] =
      value_of(DnnType::kInt64, std::vector{static_cast<std::int64_t>(number)});
  engine->values[DnnAttribute::kEngineNotes] = value_of(DnnType::kNote, engines()[number].notes);
  auto config = std::make_shared<Contents>(Contents{.kind = DnnKind::kEngineConfig, .finalized = true});
  config->values[DnnAttribute::kConfigEngine] = {.type = DnnType::kDescriptor, .count = 1, .contents = {engine}};
  return config;
}

bool fails(const Contents& heuristic) {
  const auto graph = heuristic.values.at(DnnAttribute::kHeuristicGraph).contents.front();
  return heuristic.one<DnnHeuristic>(DnnAttribute::kHeuristicMode) == DnnHeuristic::kA &&
         convolution_of(graph->descriptor(DnnAttribute::kGraphOperations)).w.dimensions[2] == kFailingKernel;
}

Value results_of(const Contents& heuristic) {
  const auto graph = heuristic.values.at(DnnAttribute::kHeuristicGraph).contents.front();
  const Convolution convolution = convolution_of(graph->descriptor(DnnAttribute::kGraphOperations));
  const bool fallback = heuristic.one<DnnHeuristic>(DnnAttribute::kHeuristicMode) == DnnHeuristic::kFallback;
  const bool grouped = convolution.x.dimensions[1] != convolution.w.dimensions[1];
  size_t begin = fallback ? kFirstFallback : 0, end = fallback  ? engines().size()
                                                      : grouped ? kFirstSuiting
                                                                : kFirstFallback;
  const bool mixed =
      convolution.x.bfloat16 != convolution.w.bfloat16 || convolution.x.bfloat16 != convolution.y.bfloat16;
  if (mixed || convolution.w.dimensions[2] > kLargestKernel) begin = end;
  Value results{.type = DnnType::kDescriptor, .count = static_cast<std::int64_t>(end - begin)};
  for (; begin < end; ++begin) results.contents.push_back(config_for(graph, begin));
  return results;
}

bool aligned(const void* address, std::int64_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(to) == 0;
}

void* numbers_at(void* address, const ConvolutionTensor& tensor) {
  const size_t each = tensor.bfloat16 ? sizeof(std::uint16_t) : sizeof(float);
  return fake::inside(address, static_cast<size_t>(tensor.extent()) * each);
}

DnnStatus execute(DnnHandle& handle, const Contents& plan, const Contents& pack) {
  using enum DnnAttribute;
  const Contents& config = plan.descriptor(kPlanConfig);
  Convolution work = convolution_of(graph_of(config).descriptor(kGraphOperations));
  work.flaw = engine_of(config).flaw;
  const std::vector<std::int64_t> ids = pack.all<std::int64_t>(kPackIds);
  const std::vector<void*> pointers = pack.all<void*>(kPackPointers);
  std::array<void*, 3> addresses{};  // of x, w, y
  for (size_t i = 0; const ConvolutionTensor* tensor : {&work.x, &work.w, &work.y}) {
    const auto found = std::find(ids.begin(), ids.end(), tensor->id);
    if (found == ids.end()) return refuse(DnnStatus::kBadParam, "the pack lacks a tensor of the plan");
    addresses[i] = pointers[static_cast<size_t>(found - ids.begin())];
    if (addresses[i] == nullptr) return refuse(DnnStatus::kNullPointer, "the address of a tensor is null");
    if (!aligned(addresses[i], tensor->alignment)) return refuse(DnnStatus::kMisaligned, "the address of a tensor");
    ++i;
  }
  const auto workspace_bytes = static_cast<size_t>(plan.one<std::int64_t>(kPlanWorkspace));
  void* const workspace = pack.values.contains(kPackWorkspace) ? pack.one<void*>(kPackWorkspace) : nullptr;
  if (workspace_bytes > 0 && workspace == nullptr) return refuse(DnnStatus::kNullPointer, "the workspace is null");
  if (workspace_bytes > 0 && !aligned(workspace, 16)) return refuse(DnnStatus::kMisaligned, "the workspace");
  const CudaError error = fake::launch(handle.stream, [work, addresses, workspace, workspace_bytes] {
    // Whatever the workspace held is gone.
    if (workspace_bytes > 0) std::memset(fake::inside(workspace, workspace_bytes), 0xff, workspace_bytes);
    work.compute(numbers_at(addresses[0], work.x), numbers_at(addresses[1], work.w), numbers_at(addresses[2], work.y));
  });
  if (error != CudaError::kSuccess) return refuse(DnnStatus::kExecutionFailed, "the launch failed");
  return DnnStatus::kSuccess;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  return 92600;
}

size_t cudnnGetCudartVersion() {
  const char* const set = std::getenv("FAKE_CUDNN_CUDART");
  return set == nullptr ? 13020 : static_cast<size_t>(std::atol(set));
}

const char* cudnnGetErrorString(DnnStatus status) {
  static const std::map<DnnStatus, const char*> texts = {
      {DnnStatus::kSuccess, "CUDNN_STATUS_SUCCESS"},
      {DnnStatus::kNotInitialized, "CUDNN_STATUS_NOT_INITIALIZED"},
      {DnnStatus::kBadParam, "CUDNN_STATUS_BAD_PARAM"},
      {DnnStatus::kNullPointer, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
      {DnnStatus::kMisaligned, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"},
      {DnnStatus::kNotFinalized, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
      {DnnStatus::kAttributeType, "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE"},
      {DnnStatus::kNotSupported, "CUDNN_STATUS_NOT_SUPPORTED"},
      {DnnStatus::kExecutionFailed, "CUDNN_STATUS_EXECUTION_FAILED"}};
  const auto text = texts.find(status);
  return text == texts.end() ? "unknown" : text->second;
}

void cudnnGetLastErrorString(char* text, size_t bytes) {
  const size_t length = std::min(fake::last_error().size(), bytes - 1);
  std::memcpy(text, fake::last_error().data(), length);
  text[length] = '\0';
}

DnnStatus cudnnCreate(DnnHandle** handle) {
  *handle = new DnnHandle;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnDestroy(DnnHandle* handle) {
  delete handle;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnSetStream(DnnHandle* handle, CudaStream* stream) {
  handle->stream = stream;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendCreateDescriptor(DnnKind kind, DnnDescriptor** descriptor) {
  if (!fake::is_known(kind)) return refuse(DnnStatus::kNotSupported, "a descriptor of this kind");
  *descriptor = new DnnDescriptor{std::make_shared<Contents>(Contents{.kind = kind})};
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendDestroyDescriptor(DnnDescriptor* descriptor) {
  delete descriptor;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendSetAttribute(DnnDescriptor* descriptor, DnnAttribute attribute, DnnType type, std::int64_t count,
                                   const void* elements) {
  if (descriptor == nullptr || elements == nullptr) return refuse(DnnStatus::kNullPointer, "an argument is null");
  Contents& to = *descriptor->contents;
  if (const DnnStatus status = fake::may_set(to, attribute, type, count); status != DnnStatus::kSuccess) return status;
  Value value{.type = type, .count = count};
  if (type == DnnType::kDescriptor) {
    for (std::int64_t i = 0; i < count; ++i) {
      const DnnDescriptor* element = static_cast<DnnDescriptor* const*>(elements)[i];
      if (element == nullptr) return refuse(DnnStatus::kNullPointer, "a descriptor is null");
      if (!element->contents->finalized) return refuse(DnnStatus::kNotFinalized, "a descriptor is not finalized");
      value.contents.push_back(element->contents);
    }
  } else {
    value.bytes.resize(static_cast<size_t>(count) * fake::size_of(type));
    std::memcpy(value.bytes.data(), elements, value.bytes.size());
  }
  to.values[attribute] = std::move(value);
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendGetAttribute(DnnDescriptor* descriptor, DnnAttribute attribute, DnnType type, std::int64_t wanted,
                                   std::int64_t* count, void* elements) {
  if (descriptor == nullptr) return refuse(DnnStatus::kNullPointer, "the descriptor is null");
  const Contents& from = *descriptor->contents;
  if (!from.finalized) return refuse(DnnStatus::kNotInitialized, "the descriptor is not finalized");
  const auto found = from.values.find(attribute);
  if (found == from.values.end()) return refuse(DnnStatus::kBadParam, "the descriptor has no such attribute");
  const Value& value = found->second;
  if (value.type != type) return refuse(DnnStatus::kAttributeType, "the attribute is of another type");
  const auto written = static_cast<size_t>(std::min(wanted, value.count));
  if (count != nullptr) *count = wanted == 0 ? value.count : static_cast<std::int64_t>(written);
  if (written == 0) return DnnStatus::kSuccess;
  if (elements == nullptr) return refuse(DnnStatus::kNullPointer, "there is no room for the elements");
  if (type != DnnType::kDescriptor) {
    std::memcpy(elements, value.bytes.data(), written * fake::size_of(type));
    return DnnStatus::kSuccess;
  }
  for (size_t i = 0; i < written; ++i) {
    DnnDescriptor* const element = static_cast<DnnDescriptor**>(elements)[i];
    if (element == nullptr || element->contents->kind != value.contents[i]->kind) {
      return refuse(DnnStatus::kBadParam, "a descriptor to be filled is of another kind");
    }
    element->contents = std::make_shared<Contents>(*value.contents[i]);
  }
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendFinalize(DnnDescriptor* descriptor) {
  if (descriptor == nullptr) return refuse(DnnStatus::kNullPointer, "the descriptor is null");
  Contents& of = *descriptor->contents;
  if (of.finalized) return refuse(DnnStatus::kBadParam, "the descriptor is finalized already");
  if (const DnnStatus status = fake::check(of); status != DnnStatus::kSuccess) return status;
  if (of.kind == DnnKind::kEngineHeuristic) {
    if (fails(of)) return refuse(DnnStatus::kInternalError, "the heuristics fail");
    of.values[DnnAttribute::kHeuristicResults] = results_of(of);
  }
  if (of.kind == DnnKind::kExecutionPlan) {
    const Engine& engine = engine_of(of.descriptor(DnnAttribute::kPlanConfig));
    if (engine.planned != DnnStatus::kSuccess) return refuse(engine.planned, "the engine cannot be compiled");
    of.values[DnnAttribute::kPlanWorkspace] = value_of(DnnType::kInt64, std::vector{engine.workspace_bytes});
  }
  of.finalized = true;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendExecute(DnnHandle* handle, DnnDescriptor* plan, DnnDescriptor* pack) {
  if (handle == nullptr || plan == nullptr || pack == nullptr) {
    return refuse(DnnStatus::kNullPointer, "an argument is null");
  }
  if (!plan->contents->finalized || !pack->contents->finalized) {
    return refuse(DnnStatus::kNotFinalized, "the plan or the pack is not finalized");
  }
  if (plan->contents->kind != DnnKind::kExecutionPlan || pack->contents->kind != DnnKind::kVariantPack) {
    return refuse(DnnStatus::kBadParam, "a descriptor is of another kind");
  }
  return execute(*handle, *plan->contents, *pack->contents);
}

}  // extern "C"

}  // namespace lockstep::trainer::cuda
