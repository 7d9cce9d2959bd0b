// Convolutions of images by cuDNN, in float32, TF32 or bfloat16, planned once for their sizes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "trainer/backend/cuda/dnn.h"

namespace lockstep::trainer::cuda {

// The library, and the GPU that plans are for: that of the handle, or one that a finalized descriptor of the kind
// kDeviceProperties describes. A plan without a handle cannot run.
struct DnnPlace {
  const Dnn& dnn;
  DnnHandle* handle = nullptr;
  DnnDescriptor* device = nullptr;
};

// x (samples, height, width, channels) with weight (outputs, kernel, kernel, channels / groups) is y (samples,
// out_height, out_width, outputs). All of them and their gradients are row-major and of `type`. Sums are of float32 and
// round once. `tf32`, for float32: the library may round what it multiplies to TF32. `padding`: zeros on each side.
struct ConvolutionShape {
  std::int64_t samples = 0, height = 0, width = 0, channels = 0;
  std::int64_t out_height = 0, out_width = 0, outputs = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1;
  DnnDataType type = DnnDataType::kFloat32;
  bool tf32 = false;
};

enum class ConvolutionPass : std::uint8_t {
  kForward,         // (x, weight) -> y
  kInputGradient,   // (dy, weight) -> dx
  kWeightGradient,  // (x, dy) -> dweight
};

// The most workspace that the backend lets a plan use. Engines for channels first reorder the images there: with less,
// the gradients of large batches of images are left to the naive engine.
inline constexpr size_t kConvolutionWorkspaceBytes = size_t{2} << 30;

// One pass of a convolution. One thread.
class ConvolutionPlan {
 public:
  // `adds`: run() adds to the result, else it overwrites. The plan has the first suitable engine in the order of the
  // library's heuristics. Such an engine is deterministic and transforms nothing (no FFT, no Winograd). It rounds
  // nothing but its result: no sums in bfloat16, and TF32 only if the shape allows it. It needs at most
  // `most_workspace` bytes. What `place` refers to must outlive the plan. kInternal: the library has no such engine.
  // kExhausted: the library lacks memory.
  static Result<ConvolutionPlan> plan(const DnnPlace& place, const ConvolutionShape& shape, ConvolutionPass pass,
                                      bool adds, size_t most_workspace = kConvolutionWorkspaceBytes);

  // Enqueues result = pass(a, b), or result += pass(a, b) if the plan adds. Addresses are of the device and multiples
  // of kAlignment; `workspace` has workspace_bytes(), for the time of the work. Allocates nothing of the device and
  // never waits.
  DnnStatus run(const void* a, const void* b, void* result, void* workspace, CudaStream* stream) const;

  size_t workspace_bytes() const { return workspace_bytes_; }
  std::int64_t engine() const { return engine_; }  // its number, which differs between versions of the library
  const std::vector<DnnNote>& notes() const { return notes_; }

 private:
  using Owned = std::unique_ptr<DnnDescriptor, DnnStatus (*)(DnnDescriptor*)>;

  ConvolutionPlan(const DnnPlace& place, std::array<std::int64_t, 3> ids, Owned config, Owned plan)
      : dnn_(&place.dnn), handle_(place.handle), ids_(ids), config_(std::move(config)), plan_(std::move(plan)) {}

  const Dnn* dnn_;
  DnnHandle* handle_;
  std::array<std::int64_t, 3> ids_;  // of a, b and result
  Owned config_, plan_;              // the plan refers to its configuration
  size_t workspace_bytes_ = 0;
  std::int64_t engine_ = -1;
  std::vector<DnnNote> notes_;
};

}  // namespace lockstep::trainer::cuda
