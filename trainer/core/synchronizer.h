// The seam between a step and the way in which ranks agree on an update. The replica (step.h) computes micro-batches.
// The synchronizer says which of them this rank computes, what travels between ranks and when, and what a step commits.
// All-reduce (sync/all_reduce.h) is one; parameter servers, local SGD and compression are others.
//
// The calls of one step, all on the training thread:
//
//   begin()                    which micro-batches
//   for each micro-batch:
//     need(bucket)             before the forward pass reads a parameter of the bucket
//     ready(bucket)            after the work that writes the last gradient of the bucket is enqueued
//   for each micro-batch:
//     computed(loss)           when the results of its forward pass are on the host, perhaps while later ones compute
//   finish(wish)               waits for the backend and for the other ranks
//   commit(optimize)           the only call that changes what outlives a step
//
// Between steps, before the state is evaluated or saved, need() is called for every bucket, on every rank alike.
//
// The memory of gradients and parameters is the backend's, and work on it is enqueued (backend.h). ready(), computed()
// and commit() do not wait.
//
// begin() drops what an earlier run of the step has staged, so a step that failed or was aborted is repeated from the
// same state. Private state, such as the residuals of compression, is staged in the same way and installed by commit().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/core/layout.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::core {

// How the states of the ranks relate between two steps.
enum class StateModel : std::uint8_t {
  kReplicated,  // the state is bitwise identical on all ranks
  kSharded,     // each rank holds a part
  kServer,      // servers hold the state; what a rank holds is a copy that may be old
  kDivergent,   // the ranks hold different states until they average them
};

// What a rank wishes, or what all ranks together do: a wish of one rank reaches all ranks after the same step.
struct Control {
  bool stop = false;        // end after this step
  bool checkpoint = false;  // write a checkpoint after this step
  bool leave = false;       // this rank ends after this step, and the others continue without it
  bool yield = false;       // the generation ends after this step, so that others can join
};

// The micro-batches of the global batch that this rank computes: first, first + stride, and so on below `end`.
struct Share {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t end = 0;
  std::int64_t samples = 1;  // a gradient is the sum of the samples' gradients divided by this number

  bool empty() const { return first >= end; }
};

// The place of a micro-batch among those of this rank.
struct Turn {
  bool first = true;  // later ones add to its gradients
  bool last = true;   // the gradients are complete after it
};

// What the ranks agreed on.
struct Agreement {
  enum class Outcome : std::uint8_t {
    kCommit,
    kRepeat,     // a sum did not fit: the same samples are computed again
    kNotFinite,  // the loss or a gradient is not a finite number
  };
  Outcome outcome = Outcome::kCommit;
  double loss = 0;  // mean of the samples; with kCommit
  Control control;  // the wishes of all ranks together
  int leaving = 0;  // ranks that leave
};

// What a synchronizer works on. The replica owns all of it and outlives the synchronizer's use.
struct Attachment {
  const Graph& graph;
  const Layout& layout;
  Backend& backend;
  State& state;                    // changed by commit() alone, but for what need() fetches from others
  Memory& gradients;               // laid out by `layout`; each bucket is zeros, or this step's from ready() on
  std::span<double> statistics;    // on the host: finish() leaves the means over the global batch here
  std::int64_t micro_batches = 1;  // of a global batch
};

class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Only kReplicated states are compared between ranks (Replica::ranks_agree()), and survive the loss of a rank in the
  // memory of the others (Replica::shareable()).
  virtual StateModel model() const = 0;

  // Once, before any other call. Allocates what the steps need. kInvalid: the synchronizer cannot do what is asked;
  // kExhausted: not enough memory.
  virtual Status attach(const Attachment& to) = 0;

  // The peers of later steps. Drops everything that is staged. The communicator outlives its use.
  virtual void use(comm::Communicator& communicator) = 0;

  // Begins a run of the step that follows the committed ones. `attempt` counts the runs that ended with kRepeat.
  virtual Result<Share> begin(int attempt) = 0;

  // Returns when the parameters of bucket number `bucket` are those of the committed steps. It calls State::changed()
  // if it changed any. The backend may still read what the state keeps on the host: wait for it before a change there.
  virtual Status need(size_t bucket) {
    static_cast<void>(bucket);
    return {};
  }

  // The gradients of bucket number `bucket` contain another micro-batch when the backend has done its work so far.
  // After `turn.last` they are complete and may travel. Buckets come in the order of the layout.
  virtual Status ready(size_t bucket, Turn turn) = 0;

  // The results of a micro-batch's forward pass, in order: the sum of its samples' losses, and its statistics.
  virtual void computed(double loss, std::span<const double> statistics, Turn turn) = 0;

  // Waits until the ranks agree. After kCommit, and the work so far, the gradients are those that the optimizer gets.
  // Errors are those of the communicator or the backend; then nothing that outlives the step has changed.
  virtual Result<Agreement> finish(const Control& wish) = 0;

  // Installs what is staged. `optimize` runs the optimizer over the gradients; a synchronizer that updates parameters
  // elsewhere does not call it. Cannot fail. The caller waits for the work that it enqueues before the step counts.
  virtual void commit(const std::function<void()>& optimize) = 0;
};

}  // namespace lockstep::trainer::core
