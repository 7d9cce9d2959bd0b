// cuDNN's backend API as a table of function pointers that is filled at run time, as blas.h is for cuBLASLt. Neither
// the library nor its headers are needed to build.
//
// Declares the binary interface of cudnn_graph.h of cuDNN 9 as far as convolutions in float32 and bfloat16 need it. The
// library describes work by descriptors: each is created, gets its attributes, is finalized, and can only be read from
// then on. convolution.h has the convolutions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "operator/base/result.h"
#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

// The thousands are the kind of the error. Kinds are 1 not initialized, 2 a wrong argument, 3 not supported, 4 of the
// library itself, 5 of an execution. The library has more numbers of each kind, and a text for each.
enum class DnnStatus : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kVersionMismatch = 1002,  // the library's parts are of different versions
  kLoadingFailed = 1008,    // a part of the library is missing
  kBadParam = 2000,
  kNullPointer = 2002,
  kMisaligned = 2003,
  kNotFinalized = 2004,
  kSizeInsufficient = 2006,  // of a buffer
  kAttributeType = 2010,
  kNotSupported = 3000,
  kInternalError = 4000,
  kCompilationFailed = 4001,
  kHostAllocationFailed = 4003,
  kDeviceAllocationFailed = 4004,
  kExecutionFailed = 5000,
};

enum class DnnDataType : int { kFloat32 = 0, kBfloat16 = 9 };
enum class DnnConvolutionMode : int { kConvolution = 0, kCrossCorrelation = 1 };
enum class DnnHeuristic : int { kFallback = 2, kA = 3 };

// What an engine does to its numbers.
enum class DnnNote : int {
  kTensorCore = 0,  // of float32: in TF32
  kDownConvertsInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinograd4x4 = 6,
  kWinograd6x6 = 7,
  kWinograd13x13 = 8,
  kStrictNan = 9,
};
inline constexpr int kMostDnnNotes = 64;  // of an engine, of any version

enum class DnnKind : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kForward = 10,
  kFilterGradient = 11,
  kDataGradient = 12,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kDeviceProperties = 38,
};

// The type of an attribute's elements.
enum class DnnType : int {
  kHandle = 0,         // DnnHandle*
  kDataType = 1,       // DnnDataType
  kBoolean = 2,        // bool
  kInt64 = 3,          // int64_t
  kFloat = 4,          // float
  kVoidPointer = 6,    // void*
  kMode = 7,           // DnnConvolutionMode
  kHeuristicMode = 8,  // DnnHeuristic
  kNote = 11,          // DnnNote
  kDescriptor = 15,    // DnnDescriptor*
  kChar = 24,          // char
};

// Behind each the type of its elements; one element unless it says more.
enum class DnnAttribute : int {
  kConvolutionType = 100,          // kDataType, of products and sums
  kConvolutionMode = 101,          // kMode
  kConvolutionDilations = 102,     // kInt64, one for each spatial dimension
  kConvolutionStrides = 103,       // kInt64, likewise
  kConvolutionPostPaddings = 104,  // kInt64, likewise
  kConvolutionPrePaddings = 105,   // kInt64, likewise
  kConvolutionSpatial = 106,       // kInt64, the number of spatial dimensions

  kHeuristicMode = 200,     // kHeuristicMode
  kHeuristicGraph = 201,    // kDescriptor, kOperationGraph
  kHeuristicResults = 202,  // kDescriptor, any number of kEngineConfig, the best first; read only
  kHeuristicDevice = 204,   // kDescriptor, kDeviceProperties

  kConfigEngine = 300,  // kDescriptor, kEngine

  kPlanHandle = 400,     // kHandle
  kPlanConfig = 401,     // kDescriptor, kEngineConfig
  kPlanWorkspace = 402,  // kInt64, bytes; read only
  kPlanDevice = 407,     // kDescriptor, kDeviceProperties

  kForwardAlpha = 700,        // kFloat: y = alpha conv(x, w) + beta y
  kForwardBeta = 701,         // kFloat
  kForwardConvolution = 702,  // kDescriptor, kConvolution
  kForwardW = 703,            // kDescriptor, kTensor
  kForwardX = 704,
  kForwardY = 705,
  kDataGradientAlpha = 706,  // as those of kForward
  kDataGradientBeta = 707,
  kDataGradientConvolution = 708,
  kDataGradientW = 709,
  kDataGradientDx = 710,
  kDataGradientDy = 711,
  kFilterGradientAlpha = 712,
  kFilterGradientBeta = 713,
  kFilterGradientConvolution = 714,
  kFilterGradientDw = 715,
  kFilterGradientX = 716,
  kFilterGradientDy = 717,

  kGraphHandle = 800,      // kHandle
  kGraphOperations = 801,  // kDescriptor, any number of operations

  kTensorAlignment = 900,   // kInt64, bytes
  kTensorType = 901,        // kDataType
  kTensorDimensions = 902,  // kInt64, of each dimension: N, C, H, W
  kTensorStrides = 903,     // kInt64, elements, of each dimension
  kTensorId = 906,          // kInt64, unique in a graph

  kPackIds = 1000,        // kInt64, any number of tensors' ids
  kPackPointers = 1001,   // kVoidPointer, as many, of the device
  kPackWorkspace = 1003,  // kVoidPointer, of the device

  kEngineGraph = 1300,   // kDescriptor, kOperationGraph
  kEngineIndex = 1301,   // kInt64, among the engines for the graph
  kEngineNotes = 1303,   // kNote, any number; read only
  kEngineDevice = 1307,  // kDescriptor, kDeviceProperties

  kDeviceJson = 2702,  // kChar, the bytes of a text and its final 0
};

struct DnnHandle;      // opaque: cudnnHandle_t is a pointer to it
struct DnnDescriptor;  // opaque: cudnnBackendDescriptor_t is a pointer to it

// Every pointer is set. The functions promise what NVIDIA's manual says of those of the same name
// (cudnnBackendSetAttribute is `set`).
struct Dnn {
  size_t (*get_version)() = nullptr;         // 92600 is 9.26.0
  size_t (*get_cudart_version)() = nullptr;  // of the CUDA that it is built for: 13020 is 13.2
  const char* (*status_string)(DnnStatus status) = nullptr;
  // What the calling thread's latest error was about, in the library's words: at most `bytes` with the final 0.
  void (*last_error)(char* text, size_t bytes) = nullptr;
  DnnStatus (*create)(DnnHandle** handle) = nullptr;
  DnnStatus (*destroy)(DnnHandle* handle) = nullptr;
  DnnStatus (*set_stream)(DnnHandle* handle, CudaStream* stream) = nullptr;

  DnnStatus (*create_descriptor)(DnnKind kind, DnnDescriptor** descriptor) = nullptr;
  DnnStatus (*destroy_descriptor)(DnnDescriptor* descriptor) = nullptr;
  DnnStatus (*set)(DnnDescriptor* descriptor, DnnAttribute attribute, DnnType type, std::int64_t count,
                   const void* elements) = nullptr;
  // Writes at most `wanted` elements, and their number to `*count`; with 0 wanted the number that there are. Elements
  // that are descriptors must be created before, and are filled in.
  DnnStatus (*get)(DnnDescriptor* descriptor, DnnAttribute attribute, DnnType type, std::int64_t wanted,
                   std::int64_t* count, void* elements) = nullptr;
  DnnStatus (*finalize)(DnnDescriptor* descriptor) = nullptr;
  DnnStatus (*execute)(DnnHandle* handle, DnnDescriptor* plan, DnnDescriptor* pack) = nullptr;
};

// Opens the library, by name (as the dynamic linker finds it) or by path, and keeps it loaded until the process ends.
// It computes some convolutions with cuBLASLt. The process ends when a plan is made and no cuBLASLt of the same major
// version of CUDA is loaded or can be. An empty name means libcudnn.so.9. kNotFound says which library or symbol is
// missing and what to do. Needs no GPU.
Result<Dnn> open_dnn(const std::string& library = "");

}  // namespace lockstep::trainer::cuda
