#include "trainer/training.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "trainer/backend/make_backend.h"
#include "trainer/checkpoint/storage_deadline.h"
#include "trainer/print.h"
#include "trainer/state_views.h"
#include "trainer/sync/all_reduce.h"

namespace lockstep::trainer {

using checkpoint::Busy;
using elastic::Origin;
using std::chrono::seconds;

namespace {

constexpr seconds kFarewellDeadline(1);  // for the last messages to the agent

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
}

// Of the state, without its few statistics and exponents.
std::uint64_t state_bytes(const Task& task, core::ElementType real) {
  return core::lay_out(task.graph).count * core::size_of(real) * (1 + core::slots_of(task.optimizer.rule).size());
}

}  // namespace

Training::Training(Flags flags, elastic::StopToken& stop)
    : flags_(std::move(flags)), stop_(stop), throughput_(flags_.steps), started_(Clock::now()) {}

Training::~Training() {
  board_.use(nullptr, 0);
  if (!interruption_) return;
  // Before the link, whose thread would abort the communicator and wake the source.
  interruption_->use(nullptr);
  interruption_->on_raise({});
}

int Training::run() {
  Result<int> outcome = train();
  if (outcome) {
    if (agent_) agent_->flush(kFarewellDeadline);
    return *outcome;
  }
  int suspect = communicator_ ? communicator_->suspect() : unlinked_;
  elastic::Ending ending = elastic::ending_of({outcome.error(), doing_}, suspect);
  print(stderr, "lockstep-trainer: {}\n", ending.report.message);
  if (agent_) agent_->failure(ending.report);  // before the peers notice, so that the cause arrives first
  bool clean = !communicator_ || communicator_->abort(kAbortDeadline);
  if (agent_) agent_->flush(kFarewellDeadline);
  // The communicator, or a thread that waits for the storage, may still use memory that destructors would free.
  if (!clean || ending.exit_code == rendezvous::kExitWatchdog) std::_Exit(ending.exit_code);
  return ending.exit_code;
}

Result<int> Training::train() {
  LOCKSTEP_CHECK_OK(set_up());
  if (world_.standby) {
    LOCKSTEP_TRY(auto exit_code, stand_by());
    if (exit_code) return *exit_code;
  }
  while (true) {
    Status entered = enter();
    Result<int> outcome = entered ? go_on() : Result<int>(entered.error());
    if (outcome || !may_regroup(outcome.error())) return outcome;
    LOCKSTEP_TRY(auto exit_code, regroup(outcome.error()));
    if (exit_code) return *exit_code;
  }
}

// Trains to the end within one generation.
Result<int> Training::go_on() {
  LOCKSTEP_CHECK_OK(catch_up());
  while (state().step < flags_.steps) {
    LOCKSTEP_CHECK_OK(looked_after());
    pass_time();
    doing_ = Origin::kCommunication;
    core::Control wished = wish();
    LOCKSTEP_TRY(auto report, replica_->step(wished));
    LOCKSTEP_CHECK_OK(after_step(report));
    if (report.control.stop || report.leaving == world_.size) return stopped();
    if (report.leaving > 0 && state().step < flags_.steps) return part(wished.leave, report.leaving);
    if (report.control.yield && state().step < flags_.steps) return yield();
    if (report.control.checkpoint) LOCKSTEP_CHECK_OK(save(due_by_step(state().step) ? Busy::kWait : Busy::kSkip));
    if (flags_.eval_every > 0 && state().step % flags_.eval_every == 0) LOCKSTEP_CHECK_OK(evaluate());
  }
  return finish();
}

Status Training::set_up() {
  doing_ = Origin::kConfig;
  LOCKSTEP_TRY(world_, elastic::world_from_environment());
  LOCKSTEP_TRY(interruption_, elastic::Interruption::create());
  LOCKSTEP_TRY(agent_, elastic::AgentLink::open(world_.agent_fd, stop_));
  agent_->watch([&board = board_] { return board.look(); });
  agent_->on_regroup([&interruption = *interruption_] { interruption.raise(); });
  LOCKSTEP_CHECK_OK(resolve(flags_, world_));
  world_.shared_memory = flags_.transport == "auto";
  if (flags_.transport == "nccl") {
    LOCKSTEP_TRY(world_.nccl, comm::make_nccl_setup(flags_.nccl_library, flags_.cudart_library, world_.local_rank));
  }
  LOCKSTEP_TRY(backend_, backend::make_backend(flags_.backend, flags_.threads));
  doing_ = Origin::kData;
  LOCKSTEP_TRY(task_, make_task(flags_, backend_->real()));
  interruption_->on_raise([&source = *task_->data.source] { source.wake(); });
  if (!flags_.checkpoint_dir.empty()) {
    world_.storage_deadline = checkpoint::storage_deadline(state_bytes(*task_, backend_->real()));
  }
  agent_->identity(identity_line());
  if (flags_.generate > 0) {  // refused before training, not after it
    doing_ = Origin::kConfig;
    LOCKSTEP_TRY(opening_, make_opening(flags_, *task_));
  }
  LOCKSTEP_CHECK_OK(prepare_metrics());
  LOCKSTEP_CHECK_OK(open_ledger());
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(auto options, elastic::ring_options(world_));
  options.cancel_fd = interruption_->fd();
  Clock::time_point linking = Clock::now();
  LOCKSTEP_TRY(communicator_, comm::make_communicator(std::move(options), &unlinked_));
  entry_.init_ms = milliseconds_since(linking);
  interruption_->use(communicator_.get());
  board_.use(communicator_.get(), world_.generation);
  doing_ = Origin::kConfig;
  // Random numbers would be overwritten by the state of another rank.
  initial_ = world_.state_source.rank < 0 && !world_.standby;
  synchronizer_ = std::make_unique<sync::AllReduce>(sync::AllReduceOptions{.deterministic = flags_.deterministic});
  LOCKSTEP_TRY(replica_, core::Replica::create({task_->graph, *backend_, task_->optimizer, *task_->data.source,
                                                *synchronizer_, *communicator_},
                                               {.seed = flags_.seed,
                                                .micro_batches = flags_.batch_size / flags_.micro_batch_size,
                                                .clip_norm = *flags_.clip_norm,
                                                .initialize = initial_,
                                                .pulse = &board_.pulse,
                                                .checksums = ledger_ != nullptr},
                                               interruption_->flag()));
  return {};
}

// What all ranks must have in common. Without --deterministic each may round in its own way: the all-reduce gives all
// of them the same bits.
std::string Training::identity_line() const {
  const std::string numerics = numerics_id();
  return rendezvous::identity_line({{"gradients", backend_->real() == core::ElementType::kFloat64 ? "fp64" : "fp32"},
                                    {"numerics", numerics.empty() ? "any" : numerics}});
}

// With connected links: brings all ranks of the generation to one state, from which they continue.
Status Training::enter() {
  generation_ = world_.generation;
  LOCKSTEP_CHECK_OK(prepare_metrics());
  Clock::time_point linked = Clock::now();
  LOCKSTEP_CHECK_OK(world_.state_source.rank >= 0 ? take_state() : restore());
  entry_.transfer_ms = milliseconds_since(linked);
  replica_->use(*communicator_, generation_);
  return begin();
}

// The leading rank writes the metrics file.
Status Training::prepare_metrics() {
  doing_ = Origin::kConfig;
  if (!leads() || flags_.metrics_file.empty()) {
    metrics_.reset();
  } else if (!metrics_) {
    LOCKSTEP_TRY(metrics_, report::MetricsFile::open(flags_.metrics_file));
  }
  return {};
}

Status Training::looked_after() {
  if (stop_.reason() != elastic::StopReason::kAgentLost) return {};
  doing_ = Origin::kInternal;
  return fail(ErrorCode::kUnavailable, "the link to the agent ended, so nothing supervises this process");
}

// Waits for the rest of --min-step-seconds since the last step began, or until the generation is interrupted.
void Training::pass_time() const {
  const auto end = step_started_ + std::chrono::duration<double>(flags_.min_step_seconds);
  while (!interruption_->raised()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return;
    pollfd interrupted{interruption_->fd(), POLLIN, 0};
    static_cast<void>(::poll(&interrupted, 1, static_cast<int>(left)));  // the loop checks again, whatever the result
  }
}

Status Training::begin() {
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());
  doing_ = Origin::kInternal;
  if (!agree) return fail(ErrorCode::kInternal, "the ranks did not start from the same state");
  LOCKSTEP_CHECK_OK(prepare_writer());  // reads the storage: between two collectives a rank waits for it once
  whole_ = true;
  board_.pulse.enter(core::Doing::kOther);
  LOCKSTEP_CHECK_OK(enter_in_ledger());
  agent_->up(can_regroup(), entry_);
  bool first = !std::exchange(introduced_, true);
  if (first) first_step_ = state().step;
  if (leads()) {
    if (state().step > 0) tell_progress();  // there may be no further step that reports it
    if (first) print_configuration();
    bool regrouped = !first || world_.state_source.rank >= 0;
    if (regrouped) print(stdout, "regrouped into generation {} at step {}\n", generation_, state().step);
  }
  LOCKSTEP_CHECK_OK(take_published());
  if (first) saved_ = Clock::now();
  step_started_ = Clock::now();
  return {};
}

// What follows from the number of the step that the ranks share. A rank that was interrupted in the middle of it and a
// rank that has just joined do it with the others, so that all submit the same collectives.
Status Training::catch_up() {
  std::int64_t step = state().step;
  evaluated_step_ = -1;
  if (step == 0) {
    LOCKSTEP_CHECK_OK(evaluate());
    first_held_out_loss_ = held_out_loss_;
  }
  if (step == 0 || world_.state_source.rank < 0) return {};
  if (due_by_step(step) && step < flags_.steps) LOCKSTEP_CHECK_OK(save(Busy::kWait));
  if (flags_.eval_every > 0 && step % flags_.eval_every == 0) LOCKSTEP_CHECK_OK(evaluate());
  return {};
}

core::Control Training::wish() const {
  bool leave = can_regroup() && stop_.reason() == elastic::StopReason::kSignal;
  core::Control wish{.stop = stop_.requested() && !leave, .checkpoint = false, .leave = leave};
  wish.yield = can_regroup() && agent_->yields() == generation_;
  if (writer_) {
    std::int64_t next = state().step + 1;
    bool by_time = world_.checkpoint_every_seconds > 0 && seconds_since(saved_) >= world_.checkpoint_every_seconds;
    wish.checkpoint = (due_by_step(next) || by_time) && next < flags_.steps;
  }
  return wish;
}

bool Training::due_by_step(std::int64_t step) const {
  return flags_.checkpoint_every_steps > 0 && step % flags_.checkpoint_every_steps == 0;
}

void Training::tell_progress() const {
  agent_->progress({.step = state().step,
                    .total_steps = flags_.steps,
                    .epoch = epoch(),
                    .loss = loss_,
                    .samples_per_second = throughput_.samples_per_second(),
                    .eta_seconds = throughput_.eta_seconds()});
}

Status Training::after_step(const core::StepReport& report) {
  if (!report.committed) {
    doing_ = Origin::kNumerics;
    return fail(ErrorCode::kInvalid,
                fmt::format("the loss or a gradient was not finite in step {}; a smaller --learning-rate or a "
                            "--clip-norm may help",
                            state().step + 1));
  }
  LOCKSTEP_CHECK_OK(commit_to_ledger());
  double took = seconds_since(step_started_);
  step_started_ = Clock::now();
  loss_ = report.loss;
  auto samples = static_cast<double>(flags_.batch_size);
  throughput_.add(report.step, samples, took);
  LOCKSTEP_CHECK_OK(take_published());
  if (!leads()) return {};
  tell_progress();
  report::ProgressLine line{
      report.step, flags_.steps, epoch(), report.loss, throughput_.samples_per_second(), throughput_.eta_seconds()};
  if (report.step % flags_.log_every == 0 || report.step == flags_.steps) {
    print(stdout, "{}\n", report::format_progress(line));
  }
  doing_ = Origin::kSave;
  return metrics_ ? metrics_->write_step(line, took) : Status();
}

Status Training::evaluate() {
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(held_out_loss_, replica_->evaluate());
  evaluated_step_ = state().step;
  if (leads()) {
    print(stdout, "eval step {}  held-out loss {:.4f}\n", state().step, held_out_loss_);
  }
  step_started_ = Clock::now();
  return {};
}

Result<int> Training::stopped() {
  LOCKSTEP_CHECK_OK(settle_checkpoints());
  if (leads()) print(stdout, "stopped after step {} of {}\n", state().step, flags_.steps);
  return rendezvous::kExitStopped;
}

// Some ranks end after this step, and the others continue without them, with their state in memory. All save it all the
// same: the others may be told to end before a replacement joins.
Result<int> Training::part(bool leaves, int leaving) {
  LOCKSTEP_CHECK_OK(settle_checkpoints());
  if (leaves) {
    print(stdout, "left after step {} of {}\n", state().step, flags_.steps);
    return rendezvous::kExitStopped;
  }
  doing_ = Origin::kCommunication;
  return fail(ErrorCode::kUnavailable,
              fmt::format("{} of {} ranks left after step {}", leaving, world_.size, state().step));
}

// All ranks are here, and do the work due after this step together with those that join.
Error Training::yield() {
  // No rank ends its links before all have committed; a rank that is interrupted here has committed too.
  static_cast<void>(replica_->ranks_agree());
  yielded_ = true;
  doing_ = Origin::kCommunication;
  return fail(ErrorCode::kUnavailable,
              fmt::format("generation {} ended after step {}, so that others can join", generation_, state().step));
}

Result<int> Training::finish() {
  if (evaluated_step_ != state().step) LOCKSTEP_CHECK_OK(evaluate());
  LOCKSTEP_CHECK_OK(settle_checkpoints());
  if (leads()) {
    doing_ = Origin::kInternal;
    if (flags_.generate > 0) LOCKSTEP_CHECK_OK(write_sample());
    LOCKSTEP_TRY(const checkpoint::State tensors, state_tensors(state()));
    LOCKSTEP_TRY(auto digest, checkpoint::state_digest(tensors));
    print_result(digest);
  }
  return 0;
}

}  // namespace lockstep::trainer
