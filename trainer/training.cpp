#include "trainer/training.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/backend/make_backend.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/print.h"
#include "trainer/state_views.h"

namespace lockstep::trainer {

using checkpoint::Busy;
using elastic::Origin;
using std::chrono::seconds;

namespace {

constexpr seconds kWriteDeadline(120);  // for a checkpoint of any size that fits a machine
constexpr seconds kAbortDeadline(2);
constexpr seconds kFarewellDeadline(1);  // for the last words to the agent

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Losses that a restarted run still has to report, as the checkpoint's metadata.
std::string to_metadata(double first_held_out_loss, double loss) {
  auto finite = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); };
  return nlohmann::json{{"first_held_out_loss", finite(first_held_out_loss)}, {"loss", finite(loss)}}.dump();
}

double from_metadata(const std::string& text, const char* key) {
  nlohmann::json metadata = nlohmann::json::parse(text, nullptr, false);
  if (!metadata.is_object() || !metadata.contains(key) || !metadata[key].is_number()) return std::nan("");
  return metadata[key].get<double>();
}

}  // namespace

Training::Training(Flags flags, elastic::StopToken& stop)
    : flags_(std::move(flags)), stop_(stop), throughput_(flags_.steps), started_(Clock::now()) {}

Training::~Training() = default;

int Training::run() {
  Result<int> outcome = train();
  if (outcome) {
    if (agent_) agent_->flush(kFarewellDeadline);
    return *outcome;
  }
  int suspect = communicator_ ? communicator_->suspect() : -1;
  elastic::Ending ending = elastic::ending_of(outcome.error(), doing_, suspect);
  print(stderr, "lockstep-trainer: {}\n", ending.report.message);
  if (agent_) agent_->failure(ending.report);  // before the peers notice, so that the cause comes first
  bool clean = !communicator_ || communicator_->abort(kAbortDeadline);
  if (agent_) agent_->flush(kFarewellDeadline);
  if (!clean) std::_Exit(ending.exit_code);  // the communicator may still write into memory that we would free
  return ending.exit_code;
}

Result<int> Training::train() {
  LOCKSTEP_CHECK_OK(set_up());
  LOCKSTEP_CHECK_OK(restore());
  LOCKSTEP_CHECK_OK(begin());
  while (state().step < flags_.steps) {
    LOCKSTEP_CHECK_OK(looked_after());
    doing_ = Origin::kCommunication;
    LOCKSTEP_TRY(auto report, replica_->step(wish()));
    LOCKSTEP_CHECK_OK(after_step(report));
    if (report.control.stop) return stopped();
    if (report.control.checkpoint) LOCKSTEP_CHECK_OK(save(due_by_step(state().step) ? Busy::kWait : Busy::kSkip));
    if (flags_.eval_every > 0 && state().step % flags_.eval_every == 0) LOCKSTEP_CHECK_OK(evaluate());
  }
  return finish();
}

Status Training::set_up() {
  doing_ = Origin::kConfig;
  LOCKSTEP_TRY(world_, elastic::world_from_environment());
  LOCKSTEP_TRY(agent_, elastic::AgentLink::open(world_.agent_fd, stop_));
  LOCKSTEP_CHECK_OK(resolve(flags_, world_));
  LOCKSTEP_TRY(backend_, backend::make_backend(flags_.backend, flags_.threads));
  doing_ = Origin::kData;
  LOCKSTEP_TRY(task_, make_task(flags_, backend_->real()));
  if (flags_.generate > 0) {  // refused before training, not after it
    doing_ = Origin::kConfig;
    LOCKSTEP_TRY(opening_, make_opening(flags_, *task_));
  }
  if (!flags_.metrics_file.empty() && leads()) {
    doing_ = Origin::kConfig;
    LOCKSTEP_TRY(metrics_, report::MetricsFile::open(flags_.metrics_file));
  }
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(auto options, elastic::ring_options(world_));
  LOCKSTEP_TRY(communicator_, comm::make_communicator(std::move(options)));
  doing_ = Origin::kConfig;
  LOCKSTEP_TRY(replica_,
               core::Replica::create(task_->graph, *backend_, *task_->optimizer, *task_->source, *communicator_,
                                     {.seed = flags_.seed,
                                      .micro_batches = flags_.batch_size / flags_.micro_batch_size,
                                      .clip_norm = *flags_.clip_norm,
                                      .deterministic = flags_.deterministic},
                                     abort_));
  return {};
}

// Every rank reads the same checkpoint: the one that the agent names, else the newest that rank 0 sees.
Status Training::restore() {
  generation_ = world_.generation;
  if (flags_.checkpoint_dir.empty()) return {};
  doing_ = Origin::kRestore;
  std::string name = world_.restore;
  if (world_.source != elastic::World::Source::kAgent && name.empty()) {
    std::array<char, 256> chosen{};
    if (leads()) {
      LOCKSTEP_TRY(auto list, checkpoint::list_valid(flags_.checkpoint_dir));
      if (list.empty()) LOCKSTEP_CHECK_OK(nothing_is_lost());
      if (!list.empty()) list.front().name.copy(chosen.data(), chosen.size() - 1);
    }
    doing_ = Origin::kCommunication;
    LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::Broadcast{chosen.data(), chosen.size(), 0}));
    LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
    name = chosen.data();
    doing_ = Origin::kRestore;
  }
  if (!name.empty()) {
    LOCKSTEP_TRY(auto manifest, checkpoint::load(flags_.checkpoint_dir, name, identity(), state_buffers(state())));
    // Without a coordinator nobody counts generations; a continued run takes the next, so that names stay new.
    if (world_.source != elastic::World::Source::kAgent) generation_ = manifest.generation + 1;
    saved_step_ = state().step;
    first_held_out_loss_ = from_metadata(manifest.metadata, "first_held_out_loss");
    loss_ = from_metadata(manifest.metadata, "loss");
    if (leads()) print(stdout, "restored {} at step {}\n", name, state().step);
  }
  first_step_ = state().step;
  if (!leads()) return {};
  doing_ = Origin::kSave;
  LOCKSTEP_TRY(writer_, checkpoint::Writer::create({.directory = flags_.checkpoint_dir,
                                                    .job_uid = world_.job_uid,
                                                    .identity = identity(),
                                                    .generation = generation_,
                                                    .keep = flags_.keep_checkpoints}));
  return {};
}

// A directory whose checkpoints are all unusable is not an empty one: starting anew there would hide the loss.
Status Training::nothing_is_lost() const {
  std::error_code error;
  for (std::filesystem::directory_iterator it(flags_.checkpoint_dir, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!checkpoint::parse_folder_name(name)) continue;
    auto manifest = checkpoint::verify(flags_.checkpoint_dir, name);
    if (!manifest && manifest.error().code != ErrorCode::kNotFound) return manifest.error();
  }
  return {};
}

Status Training::looked_after() {
  if (stop_.reason() != elastic::StopReason::kAgentLost) return {};
  doing_ = Origin::kInternal;
  return fail(ErrorCode::kUnavailable, "the link to the agent ended, so nobody looks after this process");
}

Status Training::begin() {
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());
  doing_ = Origin::kInternal;
  if (!agree) return fail(ErrorCode::kInternal, "the ranks did not start from the same state");
  agent_->up();
  if (leads()) print_configuration();
  if (state().step == 0) {
    LOCKSTEP_CHECK_OK(evaluate());
    first_held_out_loss_ = held_out_loss_;
  }
  step_started_ = saved_ = Clock::now();
  return {};
}

core::Control Training::wish() const {
  core::Control wish{.stop = stop_.requested()};
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

Status Training::after_step(const core::StepReport& report) {
  if (!report.committed) {
    doing_ = Origin::kNumerics;
    return fail(ErrorCode::kInvalid,
                fmt::format("the loss or a gradient was not finite in step {}; a smaller --learning-rate or a "
                            "--clip-norm may help",
                            state().step + 1));
  }
  double took = seconds_since(step_started_);
  step_started_ = Clock::now();
  loss_ = report.loss;
  auto samples = static_cast<double>(flags_.batch_size);
  throughput_.add(report.step, samples, took);
  LOCKSTEP_CHECK_OK(take_published());
  if (!leads()) return {};
  std::int64_t epoch = report.step * flags_.batch_size / task_->epoch_samples;
  agent_->progress({.step = report.step,
                    .total_steps = flags_.steps,
                    .epoch = epoch,
                    .loss = report.loss,
                    .samples_per_second = throughput_.samples_per_second(),
                    .eta_seconds = throughput_.eta_seconds()});
  report::ProgressLine line{
      report.step, flags_.steps, epoch, report.loss, throughput_.samples_per_second(), throughput_.eta_seconds()};
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

Status Training::save(Busy busy) {
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());
  doing_ = Origin::kInternal;
  if (!agree)
    return fail(ErrorCode::kInternal, fmt::format("the ranks hold different bits after step {}", state().step));
  saved_ = Clock::now();
  if (!writer_ || saved_step_ == state().step) return {};
  doing_ = Origin::kSave;
  std::int64_t samples = state().step * flags_.batch_size;
  checkpoint::Snapshot snapshot{
      .step = state().step,
      .cursor = {.epoch = samples / task_->epoch_samples, .index = samples % task_->epoch_samples},
      .metadata = to_metadata(first_held_out_loss_, loss_),
      .state = state_tensors(state())};
  LOCKSTEP_TRY(bool taken, writer_->write(snapshot, busy, kWriteDeadline));
  if (taken) saved_step_ = state().step;
  return {};
}

// A collective has just succeeded: what was written before it may be published, and what was published is reported.
Status Training::take_published() {
  if (!writer_) return {};
  writer_->confirm(state().step);
  doing_ = Origin::kSave;
  while (auto outcome = writer_->poll()) {
    if (!*outcome) return outcome->error();
    const checkpoint::Published& published = **outcome;
    agent_->checkpoint({.name = published.name,
                        .step = published.step,
                        .generation = published.generation,
                        .digest = published.digest});
    print(stdout, "checkpoint {}  digest {}\n", published.name, published.digest);
  }
  return {};
}

// Writes the last checkpoint and waits until it may be started from. Every rank calls it.
Status Training::settle_checkpoints() {
  if (writer_) {
    // What is still in flight is from an earlier step, which the last step has confirmed.
    writer_->confirm(state().step);
    doing_ = Origin::kSave;
    LOCKSTEP_TRY(auto earlier, writer_->flush(kWriteDeadline));
    static_cast<void>(earlier);
    LOCKSTEP_CHECK_OK(take_published());
  }
  LOCKSTEP_CHECK_OK(save(Busy::kWait));
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());  // the collective that comes after the checkpoint
  static_cast<void>(agree);
  if (writer_) {
    doing_ = Origin::kSave;
    writer_->confirm(state().step + 1);
    LOCKSTEP_TRY(auto last, writer_->flush(kWriteDeadline));
    static_cast<void>(last);
    LOCKSTEP_CHECK_OK(take_published());
  }
  // Nobody leaves before: whoever looks after the ranks may end the others as soon as one is gone. If a disk is slower
  // than the patience of a collective, they leave one by one all the same; nothing depends on it any more.
  static_cast<void>(replica_->ranks_agree());
  return {};
}

Result<int> Training::stopped() {
  LOCKSTEP_CHECK_OK(settle_checkpoints());
  if (leads()) print(stdout, "stopped after step {} of {}\n", state().step, flags_.steps);
  return rendezvous::kExitStopped;
}

Result<int> Training::finish() {
  if (evaluated_step_ != state().step) LOCKSTEP_CHECK_OK(evaluate());
  LOCKSTEP_CHECK_OK(settle_checkpoints());
  if (leads()) {
    doing_ = Origin::kInternal;
    if (flags_.generate > 0) LOCKSTEP_CHECK_OK(write_sample());
    LOCKSTEP_TRY(auto digest, checkpoint::state_digest(state_tensors(state())));
    print_result(digest);
  }
  return 0;
}

checkpoint::Identity Training::identity() const {
  checkpoint::Identity identity{.model = flags_.model, .model_hash = task_->configuration, .seed = flags_.seed};
  if (flags_.deterministic) {
    identity.numerics_id = fmt::format("{}/micro-batch-{}", backend_->numerics(), flags_.micro_batch_size);
  }
  return identity;
}

}  // namespace lockstep::trainer
