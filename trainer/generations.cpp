#include "trainer/generations.h"

#include <fmt/format.h>

#include <utility>

#include "operator/base/number.h"
#include "trainer/core/state_transfer.h"
#include "trainer/elastic/ending.h"
#include "trainer/elastic/regroup.h"
#include "trainer/print.h"

namespace lockstep::trainer {

namespace {

// The digest of a state in the messages of the link.
std::string to_text(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

Result<core::Version> version_of(const rendezvous::StateVersion& version) {
  const std::string& text = version.digest;
  const auto digest = as_number<std::uint64_t>(text, 16);
  if (text.size() != 16 || !digest) {
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is not the digest of a state", text));
  }
  return core::Version{version.generation, version.step, *digest};
}

}  // namespace

// An agent that has not received `up` expects only the end of this process, unless it said otherwise.
bool Generations::may_regroup(const Failure& failure) const {
  return rank_.can_regroup() && failure.origin == Origin::kCommunication && elastic::caused_by_peer(failure.why.code) &&
         (introduced_ || stands_by_ || rank_.agent->has_order());
}

bool Generations::introduce() {
  rank_.agent->up(rank_.can_regroup(), rank_.entry);
  return !std::exchange(introduced_, true);
}

Failure Generations::yield() {
  // No rank ends its links before all have committed; a rank that is interrupted here has committed too.
  static_cast<void>(rank_.replica->ranks_agree());
  yielded_ = true;
  return fail(
      Origin::kCommunication, ErrorCode::kUnavailable,
      fmt::format("generation {} ended after step {}, so that others can join", rank_.generation, rank_.state().step));
}

// The version that other ranks can continue from. A state that no generation has agreed on, or that is not replicated,
// has no digest: no rank may start from it.
rendezvous::StateVersion Generations::holds() const {
  if (!rank_.whole) return {};
  const core::Version version = rank_.replica->shareable();
  if (version == core::Version{}) return {};
  return {version.committed_in, version.step, to_text(version.digest)};
}

Outcome<std::optional<int>> Generations::regroup(const Error& why) {
  bool interrupted = rank_.agent->has_order();  // the agent knows
  bool yielded = std::exchange(yielded_, false);
  if (!interrupted) {
    const bool stepped = rank_.state().committed_in == rank_.generation;
    rank_.agent->broken(
        {rank_.generation, yielded ? -1 : rank_.communicator->suspect(), why.message, yielded, stepped});
  }
  if (!rank_.communicator->abort(kAbortDeadline)) {
    return fail(Origin::kCommunication, ErrorCode::kUnavailable, "the communicator could not be ended: " + why.message);
  }
  return next();
}

Outcome<std::optional<int>> Generations::stand_by() {
  stands_by_ = true;
  rank_.agent->up(true);
  return next();
}

// Waits, without links, for a generation and connects with it.
Outcome<std::optional<int>> Generations::next() {
  rank_.interruption->use(nullptr);
  core::Meanwhile regrouping(rank_.board.pulse, core::Doing::kRegrouping);
  rank_.board.use(nullptr, rank_.generation);
  rank_.communicator.reset();
  auto next = elastic::regroup(*rank_.agent, *rank_.interruption, rank_.stop, rank_.world, holds());
  if (!next && next.error().code == ErrorCode::kCancelled) {
    LOCKSTEP_CHECK_OK(checkpoints_.save_alone());
    if (rank_.leads()) {
      print(stdout, "stopped between generations, after step {} of {}\n", rank_.state().step, rank_.flags.steps);
    }
    return std::optional<int>(rendezvous::kExitStopped);
  }
  if (!next) return Failure{next.error(), Origin::kInternal};
  rank_.world = std::move(next->world);
  rank_.communicator = std::move(next->communicator);
  rank_.entry = {.init_ms = std::chrono::duration_cast<std::chrono::milliseconds>(next->linking).count()};
  rank_.board.use(rank_.communicator.get(), rank_.world.generation);
  return std::optional<int>();
}

Outcome<> Generations::take_state() {
  const rendezvous::StateSource& source = rank_.world.state_source;
  if (!source.send) return {};  // all hold it, which Training::enter() checks
  LOCKSTEP_TRY(const core::Version version, from(Origin::kInternal, version_of(source.version)));
  const core::Held held = rank_.whole ? core::Held::kState : core::Held::kNothing;
  if (!rank_.whole) rank_.initial = false;
  LOCKSTEP_TRY(
      const core::Transferred taken,
      from(Origin::kCommunication,
           core::transfer_state(rank_.state(), *rank_.communicator, source.rank, version,
                                {rank_.losses.first_held_out, rank_.losses.last}, held, rank_.replica->spare())));
  rank_.losses.first_held_out = taken.notes.first_held_out_loss;
  rank_.losses.last = taken.notes.loss;
  if (taken.installed) {
    rank_.whole = false;  // until it has the best evaluation of this state too
    rank_.initial = false;
    print(stdout, "received the state of step {} from rank {}\n", rank_.state().step, source.rank);
    LOCKSTEP_CHECK_OK(checkpoints_.state_was_replaced());
  }
  LOCKSTEP_CHECK_OK(share_best(rank_, source.rank));
  rank_.whole = true;
  return {};
}

}  // namespace lockstep::trainer
