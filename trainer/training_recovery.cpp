// From one generation to the next without losing the state of this process.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "trainer/core/state_transfer.h"
#include "trainer/elastic/regroup.h"
#include "trainer/print.h"
#include "trainer/training.h"

namespace lockstep::trainer {

using elastic::Origin;

namespace {

// The digest of a state in the messages of the link.
std::string to_text(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

Result<core::Version> version_of(const rendezvous::StateVersion& version) {
  std::uint64_t digest = 0;
  const std::string& text = version.digest;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is not the digest of a state", text));
  }
  return core::Version{version.generation, version.step, digest};
}

}  // namespace

bool Training::can_regroup() const {
  return agent_->present() && world_.source == elastic::World::Source::kAgent;
}

// An agent that has not received `up` expects only the end of this process, unless it said otherwise.
bool Training::may_regroup(const Error& error) const {
  return can_regroup() && doing_ == Origin::kCommunication && elastic::peers_doing(error.code) &&
         (introduced_ || stands_by_ || agent_->has_order());
}

// The version that this process can continue from. A state that no generation has agreed on has no digest: no rank may
// start from it.
rendezvous::StateVersion Training::holds() const {
  if (!whole_) return {};
  core::Version version = state().version();
  return {version.committed_in, version.step, to_text(version.digest)};
}

// Leaves the generation, which failed because of `why`, and connects with the next one. An exit code: the process must
// end instead.
Result<std::optional<int>> Training::regroup(const Error& why) {
  bool interrupted = agent_->has_order();  // the agent knows
  bool yielded = std::exchange(yielded_, false);
  if (!interrupted) {
    const bool stepped = state().version().committed_in == generation_;
    agent_->broken({generation_, yielded ? -1 : communicator_->suspect(), why.message, yielded, stepped});
  }
  if (!communicator_->abort(kAbortDeadline)) {
    return fail(ErrorCode::kUnavailable, "the communicator could not be ended: " + why.message);
  }
  return next_generation();
}

// Waits, with everything loaded, and without a rank until a generation takes this process in.
Result<std::optional<int>> Training::stand_by() {
  stands_by_ = true;
  agent_->up(true);
  return next_generation();
}

// Waits, without links, for a generation and connects with it.
Result<std::optional<int>> Training::next_generation() {
  interruption_->use(nullptr);
  core::Meanwhile regrouping(board_.pulse, core::Doing::kRegrouping);
  board_.use(nullptr, generation_);
  communicator_.reset();
  doing_ = Origin::kInternal;
  auto next = elastic::regroup(*agent_, *interruption_, stop_, world_, holds());
  if (!next && next.error().code == ErrorCode::kCancelled) {
    LOCKSTEP_CHECK_OK(save_alone());
    if (leads()) print(stdout, "stopped between generations, after step {} of {}\n", state().step, flags_.steps);
    return std::optional<int>(rendezvous::kExitStopped);
  }
  if (!next) return next.error();
  world_ = std::move(next->world);
  communicator_ = std::move(next->communicator);
  entry_ = {.init_ms = std::chrono::duration_cast<std::chrono::milliseconds>(next->linking).count()};
  board_.use(communicator_.get(), world_.generation);
  return std::optional<int>();
}

// Takes part in streaming the source's state to the ranks that hold another one.
Status Training::take_state() {
  const rendezvous::StateSource& source = world_.state_source;
  if (!source.send) return {};  // all hold it, which begin() checks
  doing_ = Origin::kInternal;
  LOCKSTEP_TRY(const core::Version version, version_of(source.version));
  doing_ = Origin::kCommunication;
  const core::Held held = whole_ ? core::Held::kState : core::Held::kNothing;
  if (!whole_) initial_ = false;
  LOCKSTEP_TRY(const core::Transferred taken,
               core::transfer_state(state(), *communicator_, source.rank, version, {first_held_out_loss_, loss_}, held,
                                    replica_->spare()));
  first_held_out_loss_ = taken.notes.first_held_out_loss;
  loss_ = taken.notes.loss;
  whole_ = true;
  if (!taken.installed) return {};
  print(stdout, "received the state of step {} from rank {}\n", state().step, source.rank);
  if (saved_step_ >= state().step) {  // the checkpoint in flight is of a state that the transfer replaces
    writer_.reset();
    saved_step_ = -1;
  }
  return {};
}

}  // namespace lockstep::trainer
