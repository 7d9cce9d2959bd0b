// The seam between the graph and the machine that computes it. A backend *lowers* a graph to steps and says what memory
// each needs. Core *plans* where all of it lies (program.h), and the backend *binds* the steps to these addresses. So a
// backend may compute several nodes at once, choose how it stores activations, and keep what its backward pass needs.
// `ref` (double, naive) and `cpu` (oneDNN) are behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/graph.h"
#include "trainer/core/pixels.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::cuda {
struct CudaEvent;  // cuda/types.h
}  // namespace lockstep::trainer::cuda

namespace lockstep::trainer::core {

struct Optimizer;
struct Update;

// What a run of the steps is for. Random numbers are keyed by (seed, step, sample, layer, element) alone.
struct RunContext {
  enum class Mode : std::uint8_t { kTrain, kEvaluate };
  Mode mode = Mode::kTrain;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // place of the micro-batch's first sample in the global batch
  double loss_scale = 1;          // the gradient is that of loss_scale times the sum of the samples' losses
  bool overwrites = false;        // overwrite the gradients that StepMemory::overwrites marks
};

// One or more nodes that a backend computes at once. Tensors are named by their id.
struct Step {
  std::vector<size_t> nodes;              // of the graph, ascending
  std::vector<TensorId> reads;            // values of inputs and activations, in the forward pass
  std::vector<TensorId> writes;           // values of activations, in the forward pass
  std::vector<TensorId> backward_reads;   // values of inputs and activations, in the backward pass
  std::vector<TensorId> gradient_reads;   // gradients of activations
  std::vector<TensorId> gradient_writes;  // gradients of activations and parameters that are inputs of a node
  // Parameters whose gradients it overwrites if it is told to, with the bits of adding to zeros. Zeros may have a sign.
  std::vector<TensorId> overwrites;
  std::vector<size_t> keeps;    // bytes of each block that the forward pass leaves for the backward pass
  size_t forward_scratch = 0;   // bytes that only the forward pass uses
  size_t backward_scratch = 0;  // bytes that only the backward pass uses
  bool cheap = false;           // recompute() costs little beside a convolution or a matrix product
};

// A lowered graph: its steps, and the bytes of each tensor.
struct Lowered {
  std::vector<Step> steps;  // in the order of the forward pass; the backward pass runs from the last to the first
  std::vector<size_t> value_bytes;     // by tensor; 0: an activation that never is in memory
  std::vector<size_t> gradient_bytes;  // by tensor: of an activation's gradient; 0: it has none
};

// The memory of one step, in the order that its Step says.
struct StepMemory {
  std::vector<void*> keeps;
  void* forward_scratch = nullptr;
  void* backward_scratch = nullptr;
  std::vector<bool> adds;        // by gradient_writes: add to the gradient, else overwrite it
  std::vector<bool> overwrites;  // by Step::overwrites: overwrite the gradient where RunContext::overwrites is set
};

// Where everything is. By tensor: addresses of the backend's memory; null: there is none. Statistics are float64.
struct Addresses {
  std::vector<void*> values;               // of inputs, parameters and activations
  std::vector<void*> gradients;            // of parameters and activations
  std::vector<const double*> statistics;   // committed: read in evaluation
  std::vector<double*> staged_statistics;  // of this micro-batch: written in training, committed by others
  std::vector<StepMemory> steps;
};

// Steps at fixed addresses, ready to run. A run is enqueued: it never allocates and never waits. An error, whose
// sentence names the layer, is returned here or by a later Backend::wait(); what the run writes is garbage then. One
// thread.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual Status forward(size_t step, const RunContext& context) = 0;
  // After forward() in training mode, and before backward(): writes what the step writes again, bitwise identical,
  // from what it reads and keeps. It uses the forward pass's scratch.
  virtual Status recompute(size_t step, const RunContext& context) = 0;
  // The step of a loss has no output gradient: it starts at RunContext::loss_scale times the loss's weight.
  virtual Status backward(size_t step, const RunContext& context) = 0;
};

// Zeroed bytes of a backend's memory, aligned to kAlignment. The address is the backend's: nothing else reads or writes
// there, unless Backend::host() says where.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual size_t bytes() const = 0;
};

// A place in the order of the work that a backend was given.
struct Mark {
  std::uint64_t number = 0;
};

// Work on a backend's memory is enqueued and runs in the order of the calls, perhaps after they have returned. Memory
// of the host that a call names must stay until the work is done. One thread enqueues.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  // Of real inputs, parameters, outputs and losses: kFloat32 or kFloat64. Other activations are the backend's own.
  virtual ElementType real() const = 0;
  // Threads that compute one micro-batch.
  virtual int threads() const = 0;
  // Everything that the bits of a micro-batch's gradient depend on besides its inputs: library and version,
  // instruction set, threads. Equal strings promise bitwise identical results.
  virtual std::string numerics() const = 0;

  // kExhausted when there is not enough memory.
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes) = 0;
  // `trains`: with the backward pass. kInvalid: the backend lacks an op; the message names it.
  virtual Result<Lowered> lower(const Graph& graph, bool trains) = 0;
  // `lowered` is what lower() made of `graph`. The graph and the addresses must stay valid as long as the executable
  // exists.
  virtual Result<std::unique_ptr<Executable>> bind(const Graph& graph, const Lowered& lowered,
                                                   const Addresses& addresses) = 0;
  // Called on the computing thread before steps run on it (sets its number of threads). Cheap.
  virtual void enter() = 0;

  // Where the host may read and write the memory at `address`, as long as no work on it is enqueued. Null: nowhere.
  virtual std::byte* host(std::byte* address) = 0;
  virtual void clear(std::byte* to, size_t bytes) = 0;
  virtual void write(std::byte* to, const void* from, size_t bytes) = 0;  // `from`: memory of the host
  virtual void read(void* to, const std::byte* from, size_t bytes) = 0;   // `to`: memory of the host
  // Writes `count` real numbers, those that the bytes stand for (pixels.h). `from` and `values`: memory of the host.
  virtual void write_pixels(std::byte* to, const std::uint8_t* from, size_t count, const PixelValues& values) = 0;

  // The place after all work so far; whether the work before it is done; waits until it is. wait() returns the first
  // error of work that no earlier wait() has returned. What that work writes is garbage then.
  virtual Mark mark() = 0;
  virtual bool reached(Mark mark) = 0;
  virtual Status wait(Mark mark) = 0;

  // The GPU that the memory is of, as the CUDA runtime of this process counts. Negative: of none.
  virtual int gpu() const { return -1; }
  // Where gpu() is one: an event that happens when the work before the mark is done. It may happen later: after work
  // that the backend was given before another library began to wait. Valid as long as the backend.
  virtual cuda::CudaEvent* event(Mark mark) {
    static_cast<void>(mark);
    return nullptr;
  }

  // Arithmetic over arenas of real numbers, bitwise the same for every number of threads and ranks. Results go to
  // memory of the host.
  //
  // Rounds `count` values to integers (fixed_point.h), adds them to `sums` (int64; overwrites them unless `add`) and
  // clears the values. `flags` gathers what was met.
  virtual void round_and_clear(std::byte* values, size_t count, int exponent, bool add, std::byte* sums,
                               RoundingFlags* flags) = 0;
  // The reverse; `largest`: the largest |sum|.
  virtual void unround(const std::byte* sums, size_t count, int exponent, std::byte* values,
                       std::uint64_t* largest) = 0;
  // The Euclidean norm of an arena (norm.h).
  virtual void norm(const std::byte* values, size_t count, double* norm) = 0;

  // Applies `optimizer` (optimizer.h) to parameters and slots, which it has written when it returns. A pure function of
  // the update: bitwise identical on every rank. Returns the sum of the digests (digest.h) of parameters and slots as
  // it left them, where array_of() says which array is which. It cannot fail: half an update leaves no state to
  // continue from, so a backend whose device breaks in it ends the process.
  virtual std::uint64_t update(const Optimizer& optimizer, const Update& update) = 0;
};

}  // namespace lockstep::trainer::core
