// The seam between the graph and the machine that computes it: a backend compiles each node once to a Kernel, which
// then runs many times over memory at fixed addresses. `ref` (double, naive) and `cpu` (oneDNN) are behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/graph.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

// What a run of the kernels is for. Random numbers are keyed by (seed, step, sample, layer, element) alone.
struct RunContext {
  enum class Mode : std::uint8_t { kTrain, kEvaluate };
  Mode mode = Mode::kTrain;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // place of the micro-batch's first sample in the global batch
  double loss_scale = 1;          // the gradient is that of loss_scale times the sum of the samples' losses
};

// Memory that a node's kernel works on: one address for each tensor of the node, in the node's order. Addresses of
// real tensors are of the backend's element type, statistics are float64, indices int32.
struct Bindings {
  std::vector<const void*> inputs;
  std::vector<const void*> parameters;
  std::vector<const void*> statistics;  // the committed values: read in evaluation
  std::vector<void*> saved;
  std::vector<double*> staged_statistics;  // of this micro-batch: written in training, committed by others
  void* output = nullptr;
  // Of the backward pass. A null input gradient is not wanted. `accumulate[i]`: add to input gradient i, else
  // overwrite. Parameter gradients are always added to. The loss node has no output gradient: it reads
  // RunContext::loss_scale.
  const void* output_gradient = nullptr;
  std::vector<void*> input_gradients;
  std::vector<bool> accumulate;
  std::vector<void*> parameter_gradients;
};

// One node, ready to run. Runs never allocate and never wait. After an error, whose sentence names the layer, what the
// run writes is garbage.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status forward(const RunContext& context) = 0;
  virtual Status backward(const RunContext& context) = 0;
};

// Zeroed bytes of a backend's memory, aligned to kAlignment.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual size_t bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  // Of every real tensor: kFloat32 or kFloat64.
  virtual ElementType real() const = 0;
  // Threads that compute one micro-batch.
  virtual int threads() const = 0;
  // Everything that the bits of a micro-batch's gradient depend on besides its inputs: library and version,
  // instruction set, threads. Equal strings promise equal bits.
  virtual std::string numerics() const = 0;

  // kExhausted when there is not enough memory.
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes) = 0;
  // The bindings' addresses must stay valid as long as the kernel exists.
  virtual Result<std::unique_ptr<Kernel>> compile(const Graph& graph, const Node& node, Bindings bindings) = 0;
  // Called on the computing thread before kernels run on it (sets its number of threads). Cheap.
  virtual void enter() = 0;
};

}  // namespace lockstep::trainer::core
