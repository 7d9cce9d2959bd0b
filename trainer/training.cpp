#include "trainer/training.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "trainer/elastic/ending.h"
#include "trainer/print.h"

namespace lockstep::trainer {

using checkpoint::Busy;

namespace {

constexpr std::chrono::seconds kFarewellDeadline(1);  // for the last messages to the agent

}  // namespace

Training::Training(Flags flags, elastic::StopToken& stop) : rank_(std::move(flags), stop) {}

int Training::run() {
  Outcome<int> outcome = train();
  elastic::AgentLink* agent = rank_.agent.get();
  if (outcome) {
    if (agent != nullptr) agent->flush(kFarewellDeadline);
    if (storage_hangs_ || !checkpoints_.close(kAbortDeadline)) std::_Exit(*outcome);
    return *outcome;
  }
  const elastic::Ending ending = elastic::ending_of(outcome.error(), rank_.suspect());
  print(stderr, "lockstep-trainer: {}\n", ending.report.message);
  if (agent != nullptr) agent->failure(ending.report);  // before the peers notice, so that the cause arrives first
  const bool clean = !rank_.communicator || rank_.communicator->abort(kAbortDeadline);
  if (agent != nullptr) agent->flush(kFarewellDeadline);
  // The communicator, or a thread that waits for the storage, may still use memory that destructors would free. Storage
  // that hangs changes neither the reason nor the exit code: what it was writing is dropped.
  const bool hangs = ending.exit_code == rendezvous::kExitWatchdog || !checkpoints_.close(kAbortDeadline);
  if (!clean || hangs) std::_Exit(ending.exit_code);
  return ending.exit_code;
}

Outcome<int> Training::train() {
  LOCKSTEP_CHECK_OK(set_up());
  if (rank_.world.standby) {
    LOCKSTEP_TRY(auto exit_code, generations_.stand_by());
    if (exit_code) return *exit_code;
  }
  while (true) {
    Outcome<int> outcome = one_generation();
    if (outcome || !generations_.may_regroup(outcome.error())) return outcome;
    LOCKSTEP_TRY(auto exit_code, generations_.regroup(outcome.error().why));
    if (exit_code) return *exit_code;
  }
}

// Trains to the end within one generation.
Outcome<int> Training::one_generation() {
  LOCKSTEP_CHECK_OK(enter());
  LOCKSTEP_CHECK_OK(catch_up());
  const std::int64_t last = rank_.flags.steps;
  while (step() < last && !ends_early()) {
    LOCKSTEP_CHECK_OK(supervised());
    wait_for_min_step_time();
    const core::Control wished = wish();
    auto stepped = rank_.replica->step(wished);
    LOCKSTEP_TRY(const auto report, from(rank_.origin_of_step(), std::move(stepped)));
    LOCKSTEP_CHECK_OK(committed(report));
    if (report.control.stop || report.leaving == rank_.world.size) return stopped();
    if (report.leaving > 0 && step() < last) return ranks_leave(wished.leave, report.leaving);
    if (report.control.yield && step() < last) return generations_.yield();
    if (evaluation_is_due()) LOCKSTEP_CHECK_OK(evaluate());  // before the checkpoint, which has its outcome
    if (report.control.checkpoint || best_is_due()) {
      const bool waits = checkpoints_.due_by_step(step()) || best_is_due();
      LOCKSTEP_CHECK_OK(checkpoints_.save(waits ? Busy::kWait : Busy::kSkip));
    }
  }
  return finish();
}

// With an agent a rank connects before it loads. Peers that keep their memory wait for its links for seconds
// (elastic/regroup.h). For what it does with them they wait as long as its storage may take (elastic/world.h).
Outcome<> Training::set_up() {
  LOCKSTEP_CHECK_OK(find_place(rank_));
  const bool connects_first = rank_.world.source == elastic::World::Source::kAgent;
  if (connects_first) LOCKSTEP_CHECK_OK(connect(rank_));
  LOCKSTEP_CHECK_OK(load(rank_));
  LOCKSTEP_CHECK_OK(reports_.open_metrics());
  LOCKSTEP_CHECK_OK(reports_.open_ledger());
  if (!connects_first) LOCKSTEP_CHECK_OK(connect(rank_));
  return make_replica(rank_);
}

// With connected links: brings all ranks of the generation to one state, from which they continue.
Outcome<> Training::enter() {
  rank_.generation = rank_.world.generation;
  LOCKSTEP_CHECK_OK(reports_.open_metrics());  // another rank may lead than before
  const Clock::time_point linked = Clock::now();
  const bool streams = rank_.world.state_source.rank >= 0;
  LOCKSTEP_CHECK_OK(streams ? generations_.take_state() : checkpoints_.restore());
  rank_.entry.transfer_ms = milliseconds_since(linked);
  rank_.replica->use(*rank_.communicator, rank_.generation);
  LOCKSTEP_TRY(const bool agree, from(Origin::kCommunication, rank_.replica->ranks_agree()));
  if (!agree) return fail(Origin::kInternal, ErrorCode::kInternal, "the ranks did not start from the same state");
  LOCKSTEP_CHECK_OK(checkpoints_.enter());  // reads the storage: between two collectives a rank waits for it once
  rank_.whole = true;
  rank_.board.pulse.enter(core::Doing::kOther);
  LOCKSTEP_CHECK_OK(reports_.enter_in_ledger());
  reports_.entered(generations_.introduce());
  LOCKSTEP_CHECK_OK(checkpoints_.publish());
  step_started_ = Clock::now();
  return {};
}

// What follows from the number of the step that the ranks share. A rank that was interrupted in the middle of it, or
// has just joined, does it with the others: all submit the same collectives.
Outcome<> Training::catch_up() {
  evaluated_step_ = -1;
  if (step() == 0) {
    LOCKSTEP_CHECK_OK(evaluate());
    rank_.losses.first_held_out = rank_.evaluation.loss;
  }
  if (step() == 0) return {};
  const bool repeats = rank_.world.state_source.rank >= 0;
  // A checkpoint of a run that was told to stop is older than the evaluation of its step.
  const bool uncounted = rank_.flags.follows_best() && rank_.best.counted < step();
  if (evaluation_is_due() && (repeats || uncounted)) LOCKSTEP_CHECK_OK(evaluate());
  const bool due = repeats && checkpoints_.due_by_step(step()) && step() < rank_.flags.steps;
  return due || best_is_due() ? checkpoints_.save(Busy::kWait) : Outcome<>();
}

bool Training::evaluation_is_due() const {
  return rank_.flags.eval_every > 0 && step() % rank_.flags.eval_every == 0;
}

// Whether the evaluation of this step is the best so far, and a checkpoint has to keep its state.
bool Training::best_is_due() const {
  return rank_.flags.keep_best && rank_.best.step == step() && step() < rank_.flags.steps;
}

bool Training::ends_early() const {
  const std::int64_t most = rank_.flags.early_stop_evaluations;
  return most > 0 && rank_.best.step >= 0 && rank_.best.misses >= most;
}

Outcome<> Training::supervised() const {
  if (rank_.stop.reason() != elastic::StopReason::kAgentLost) return {};
  return fail(Origin::kInternal, ErrorCode::kUnavailable,
              "the link to the agent ended, so nothing supervises this process");
}

// Waits for the rest of --min-step-seconds since the last step began, or until the generation is interrupted.
void Training::wait_for_min_step_time() const {
  const auto end = step_started_ + std::chrono::duration<double>(rank_.flags.min_step_seconds);
  while (!rank_.interruption->raised()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return;
    pollfd interrupted{rank_.interruption->fd(), POLLIN, 0};
    static_cast<void>(::poll(&interrupted, 1, static_cast<int>(left)));  // the loop checks again, whatever the result
  }
}

core::Control Training::wish() const {
  const bool leave = rank_.can_regroup() && rank_.stop.reason() == elastic::StopReason::kSignal;
  return {.stop = rank_.stop.requested() && !leave,
          .checkpoint = checkpoints_.wanted(step() + 1),
          .leave = leave,
          .yield = rank_.can_regroup() && rank_.agent->yields() == rank_.generation};
}

Outcome<> Training::committed(const core::StepReport& report) {
  if (!report.committed) {
    return fail(Origin::kNumerics, ErrorCode::kInvalid,
                fmt::format("the loss or a gradient was not finite in step {}; a smaller --learning-rate or a "
                            "--clip-norm may help",
                            step() + 1));
  }
  LOCKSTEP_CHECK_OK(reports_.commit_to_ledger());
  LOCKSTEP_CHECK_OK(reports_.skipped());
  const double took = seconds_since(step_started_);
  step_started_ = Clock::now();
  rank_.losses.last = report.loss;
  LOCKSTEP_CHECK_OK(checkpoints_.publish());
  return reports_.step(report, took);
}

Outcome<> Training::evaluate() {
  auto evaluated = rank_.replica->evaluate();
  LOCKSTEP_TRY(rank_.evaluation, from(rank_.origin_of_step(), std::move(evaluated)));
  evaluated_step_ = step();
  reports_.evaluated();
  rank_.best.count(step(), rank_.evaluation.loss);
  step_started_ = Clock::now();
  return share_best(rank_, 0);  // what follows from it all ranks do alike, whatever a failure kept one from counting
}

Outcome<int> Training::stopped() {
  LOCKSTEP_CHECK_OK(checkpoints_.settle());
  if (rank_.leads()) print(stdout, "stopped after step {} of {}\n", step(), rank_.flags.steps);
  return rendezvous::kExitStopped;
}

// Some ranks end after this step, and the others continue without them, with their state in memory. All save it all the
// same: the others may be told to end before a replacement joins.
Outcome<int> Training::ranks_leave(bool leaves, int leaving) {
  LOCKSTEP_CHECK_OK(checkpoints_.settle());
  if (leaves) {
    print(stdout, "left after step {} of {}\n", step(), rank_.flags.steps);
    return rendezvous::kExitStopped;
  }
  return fail(Origin::kCommunication, ErrorCode::kUnavailable,
              fmt::format("{} of {} ranks left after step {}", leaving, rank_.world.size, step()));
}

Outcome<int> Training::finish() {
  const bool early = step() < rank_.flags.steps;
  if (evaluated_step_ != step()) LOCKSTEP_CHECK_OK(evaluate());
  LOCKSTEP_CHECK_OK(checkpoints_.settle());
  LOCKSTEP_CHECK_OK(reports_.skipped());
  if (!rank_.leads()) return 0;
  const Best& best = rank_.best;
  if (early) {
    print(stdout, "ended after step {} of {}: {} evaluations in a row did not improve the held-out loss of step {}\n",
          step(), rank_.flags.steps, best.misses, best.step);
  }
  if (rank_.flags.keep_best && best.step >= 0) name_best();
  LOCKSTEP_CHECK_OK(reports_.result());
  return 0;
}

// All is saved, so storage that fails here does not fail the run.
void Training::name_best() {
  const Best& best = rank_.best;
  auto name = checkpoints_.best();
  if (!name) {
    const Error& why = name.error().why;
    storage_hangs_ = why.code == ErrorCode::kDeadlineExceeded;
    print(stderr, "lockstep-trainer: the checkpoint of the best evaluation, of step {}, was not looked up: {}\n",
          best.step, why.message);
  } else if ((*name).empty()) {
    print(stdout, "no checkpoint of the best evaluation, of step {}, is left\n", best.step);
  } else {
    print(stdout, "best checkpoint {}  held-out loss {:.4f}\n", *name, best.loss);
  }
}

}  // namespace lockstep::trainer
