// One training step of one rank, as part of the gang. It computes this rank's micro-batches, hands each gradient bucket
// to the synchronizer while earlier layers still compute, agrees, and commits.
//
// The global batch of a step is M micro-batches of fixed size. Nothing that outlives the step changes before commit, so
// a failed or aborted step can be repeated from the same state.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/hits.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/program.h"
#include "trainer/core/pulse.h"
#include "trainer/core/source.h"
#include "trainer/core/state.h"
#include "trainer/core/synchronizer.h"

namespace lockstep::trainer::core {

struct StepOptions {
  std::uint64_t seed = 0;
  std::int64_t micro_batches = 1;  // M; the global batch is M times the graph's batch
  double clip_norm = 0;            // largest gradient norm; 0: no clipping
  BucketSizes buckets;
  Recompute recompute = Recompute::kNothing;
  bool initialize = true;  // sets the state before the first step; false: zeros, which another state replaces
  Pulse* pulse = nullptr;  // reports the activity of the steps; null: unwatched. It must outlive the replica
  bool checksums = false;  // fill Replica::computed()
  // What the pulse announces while a batch is loaded: it may take so long without a beat. 0: it waits for no storage.
  Duration loading_rest{};
};

// A micro-batch that this rank computed.
struct ComputedBatch {
  std::int64_t index = 0;   // in the global batch
  std::uint32_t crc32 = 0;  // of the bytes of all inputs, one after the other, as the first layer reads them
};

struct StepReport {
  bool committed = false;    // false: the loss or a gradient was not finite, and nothing was changed
  std::int64_t step = 0;     // committed steps now
  double loss = 0;           // mean over the global batch, before the update
  double gradient_norm = 0;  // before clipping
  Control control;           // the wishes of all ranks together
  int leaving = 0;           // ranks that leave
  int redone = 0;            // times that the step was recomputed because a sum did not fit its exponent
};

// What held-out samples say of a state.
struct Evaluation {
  double loss = 0;             // mean of the samples; NaN: there are none, or it is not finite
  std::optional<double> top1;  // share of samples whose class has the largest score; empty: the graph does not classify
  std::optional<double> top5;  // one of the five largest; empty: there are no more than five classes
};

// Where the time of steps goes, in seconds on this rank, since creation.
struct StepTimes {
  double load = 0, forward = 0, backward = 0, wait = 0, commit = 0;  // wait: what computing does not hide
};

// What a replica is made of. All of it must outlive the replica.
struct ReplicaParts {
  const Graph& graph;
  Backend& backend;
  const Optimizer& optimizer;
  SampleSource& source;
  Synchronizer& synchronizer;  // of this replica alone
  comm::Communicator& communicator;
};

// A rank's replica of the training state and the machinery of its steps. One thread; only `abort` may be set by others.
// After an error, abort the communicator before the replica is destroyed: it may still write into the gradients.
class Replica {
 public:
  // `abort` must outlive the replica. kExhausted: not enough memory; kInvalid: from Synchronizer::attach().
  static Result<std::unique_ptr<Replica>> create(const ReplicaParts& parts, const StepOptions& options,
                                                 const std::atomic<bool>& abort);
  // Waits until the backend has done its work.
  ~Replica();

  // Later steps use `communicator`, which must outlive its use, and are committed by `generation`. Drops everything
  // that a failed step left.
  void use(comm::Communicator& communicator, std::int64_t generation);

  // Runs the step that follows the committed ones. Errors are those of the source, the communicator or a kernel, or
  // kCancelled after `abort`; then nothing was changed, and the backend has nothing to do. kInternal may also be a
  // backend that failed in the commit: the state is garbage.
  Result<StepReport> step(Control wish);

  // The micro-batches of the last step() on this rank, if options.checksums. A recomputed step lists its last pass.
  const std::vector<ComputedBatch>& computed() const { return computed_; }

  // Over all held-out samples, shared out among the ranks; every rank calls it and gets a bitwise identical result. The
  // state is complete first. Errors are those of step().
  Result<Evaluation> evaluate();

  // Whether the samples are the cause of the last error of step() or evaluate(). They are if the source failed, or a
  // kernel met an index that the model does not have (kCorrupt).
  bool samples_failed() const { return samples_failed_; }

  // Whether the states of all ranks fit together: replicated ones are bitwise identical, others are not compared. Every
  // rank calls it at the same place and gets the same answer. Errors are the communicator's.
  Result<bool> ranks_agree();

  // Asks the synchronizer for all parameters, so that the state is that of the committed steps: to be called before the
  // state is saved. Every rank calls it at the same place. Errors are those of Synchronizer::need().
  Status complete();

  // The version of the state that another rank may continue from. Version{}: none may, because the synchronizer's state
  // is not replicated, or the backend failed.
  Version shareable();

  State& state() { return *state_; }
  const Layout& layout() const { return layout_; }
  const StepTimes& times() const { return times_; }
  size_t arena_bytes() const { return program_->arena_bytes(); }
  // The memory of activations, if the host reaches it. It holds nothing between two calls of step() and evaluate().
  std::span<std::byte> spare() { return program_->arena(); }
  // For a program that predicts with the state as it is (complete() comes first): valid until the next step() or change
  // of the state.
  ProgramMemory prediction();

 private:
  // A micro-batch whose forward pass is enqueued, and its results on the host when the backend has reached the mark.
  struct InFlight {
    std::int64_t index = 0;  // in the global batch
    Turn turn;
    Batch samples;
    std::vector<std::byte> inputs;  // what the first layer read, if options.checksums
    std::vector<std::byte> losses;
    std::vector<double> statistics;
    Mark mark;
  };

  // What is written to the inputs before its step begins.
  struct Ahead {
    std::optional<std::int64_t> position;  // of its first sample; empty: the inputs hold something else
    Batch samples;
    Mark written;
  };

  Replica(const ReplicaParts& parts, const StepOptions& options, const std::atomic<bool>& abort);

  template <typename T>
  Result<T> settled(Result<T> result);
  Result<StepReport> run_step(const Control& wish);
  Result<Evaluation> run_evaluation();
  void clear_gradients(const Share& share);
  Status compute(const Share& share);
  Status compute_micro_batch(InFlight& batch, const Share& share);
  Status forward(const RunContext& context);
  Status backward(const RunContext& context, Turn turn);
  Result<Batch> taken(Result<Batch> batch);
  Status ran(Status work);
  Status load(const Batch& batch, std::int64_t step);
  void load_ahead(const Share& share);
  Status evaluate_batch(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& words);
  void read_results(InFlight& batch);
  Status take_results(const InFlight& batch);
  void refresh();
  std::int64_t samples_of_step() const { return options_.micro_batches * parts_.graph.batch; }
  Status commit(double gradient_scale);
  void optimize(double gradient_scale);
  void commit_statistics();

  const ReplicaParts parts_;
  comm::Communicator* communicator_;
  std::int64_t generation_ = 0;  // what commit writes into the state
  StepOptions options_;
  const std::atomic<bool>& abort_;
  Pulse unwatched_;
  Pulse& pulse_;

  Layout layout_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Program> program_;
  std::vector<void*> inputs_;  // of the program
  std::vector<size_t> input_bytes_;

  std::unique_ptr<Memory> statistics_;  // the state's, where the backend reads them
  std::uint64_t refreshed_ = 0;         // State::changes() that they are of
  static constexpr std::int64_t kInFlight = 2;
  std::array<InFlight, kInFlight> in_flight_;
  Ahead ahead_;

  // Staged until commit.
  std::unique_ptr<Memory> gradients_;
  std::unique_ptr<Memory> batch_statistics_;  // of the last micro-batch
  std::vector<double> staged_statistics_;     // means over the global batch
  std::vector<ComputedBatch> computed_;

  std::vector<void*> slot_addresses_;
  const std::optional<Classification> classification_;
  bool samples_failed_ = false;
  StepTimes times_;
};

}  // namespace lockstep::trainer::core
