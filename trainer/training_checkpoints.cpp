// Checkpoints of a training: where it starts from, what it saves, and when a checkpoint is published.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/storage_deadline.h"
#include "trainer/print.h"
#include "trainer/state_views.h"
#include "trainer/training.h"

namespace lockstep::trainer {

using checkpoint::Busy;
using elastic::Origin;

namespace {

// Losses that a restarted run still has to report, stored in the checkpoint's metadata.
std::string to_metadata(double first_held_out_loss, double loss) {
  auto finite = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); };
  return nlohmann::json{{"first_held_out_loss", finite(first_held_out_loss)}, {"loss", finite(loss)}}.dump();
}

double from_metadata(const std::string& text, const char* key) {
  nlohmann::json metadata = nlohmann::json::parse(text, nullptr, false);
  if (!metadata.is_object() || !metadata.contains(key) || !metadata[key].is_number()) return std::nan("");
  return metadata[key].get<double>();
}

// The result of `work`, which reads checkpoints and holds all that it needs. Announces its deadline to the watcher.
template <typename Work>
auto read_in_time(core::Pulse& pulse, const elastic::World& world, const std::string& what, Work work) {
  const core::Meanwhile reading(pulse, core::Doing::kStarting, world.storage_deadline + checkpoint::kTimeToEnd);
  return checkpoint::in_time(world.storage_deadline, "reading " + what, std::move(work));
}

// The samples that a run has consumed at `cursor`.
Result<std::int64_t> samples_before(const checkpoint::DataCursor& cursor, std::int64_t epoch_samples) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (cursor.epoch < 0 || cursor.index < 0 || cursor.index >= epoch_samples || cursor.epoch >= kMost / epoch_samples) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the checkpoint continues at sample {} of epoch {}, but epochs have {} "
                            "samples",
                            cursor.index, cursor.epoch, epoch_samples));
  }
  return cursor.epoch * epoch_samples + cursor.index;
}

// A directory whose checkpoints are all unusable is not an empty one: a fresh start would hide the loss.
Status nothing_is_lost(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!checkpoint::parse_folder_name(name)) continue;
    auto manifest = checkpoint::verify(directory, name);
    if (!manifest && manifest.error().code != ErrorCode::kNotFound) return manifest.error();
  }
  return {};
}

// The newest checkpoint; empty: there is none.
Result<std::string> newest_checkpoint(const std::string& directory) {
  LOCKSTEP_TRY(auto list, checkpoint::list_valid(directory));
  if (!list.empty()) return list.front().name;
  LOCKSTEP_CHECK_OK(nothing_is_lost(directory));
  return std::string();
}

}  // namespace

// Every rank reads the same checkpoint: the one that the agent names, else the newest that rank 0 sees.
Status Training::restore() {
  if (whole_ || !initial_) {  // the state that this process held no longer counts
    whole_ = false;
    initial_ = true;
    LOCKSTEP_CHECK_OK(state().initialize(flags_.seed));
    writer_.reset();
    saved_step_ = -1;
    first_held_out_loss_ = loss_ = 0;
  }
  if (flags_.checkpoint_dir.empty()) return {};
  doing_ = Origin::kRestore;
  const std::string& directory = flags_.checkpoint_dir;
  std::string name = world_.restore;
  if (world_.source != elastic::World::Source::kAgent && name.empty()) {
    std::array<char, 256> chosen{};
    if (leads()) {
      LOCKSTEP_TRY(auto newest,
                   read_in_time(board_.pulse, world_, directory, [directory] { return newest_checkpoint(directory); }));
      newest.copy(chosen.data(), chosen.size() - 1);
    }
    doing_ = Origin::kCommunication;
    LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::Broadcast{chosen.data(), chosen.size(), 0}));
    LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
    name = chosen.data();
    doing_ = Origin::kRestore;
  }
  if (!name.empty()) {
    initial_ = false;
    auto load = [directory, name, expected = identity(), buffers = state_buffers(state())] {
      return checkpoint::load(directory, name, expected, buffers);
    };
    LOCKSTEP_TRY(auto manifest, read_in_time(board_.pulse, world_, directory + "/" + name, std::move(load)));
    LOCKSTEP_TRY(state().samples, samples_before(manifest.cursor, task_->data.epoch_samples));
    LOCKSTEP_CHECK_OK(state().written());
    // Without a coordinator no generation is counted; a continued run takes the next, so that names stay new.
    if (world_.source != elastic::World::Source::kAgent) generation_ = manifest.generation + 1;
    state().committed_in = manifest.generation;
    saved_step_ = state().step;
    first_held_out_loss_ = from_metadata(manifest.metadata, "first_held_out_loss");
    loss_ = from_metadata(manifest.metadata, "loss");
    if (leads()) print(stdout, "restored {} at step {}\n", name, state().step);
  }
  return {};
}

// The leading rank has the writer. An existing writer may still hold a checkpoint of an earlier generation. The ranks
// agreed on its state, and the source of this generation holds it or a later one, so the next step confirms it.
// take_state() and restore() drop the writer otherwise.
Status Training::prepare_writer() {
  if (!leads() || flags_.checkpoint_dir.empty()) {
    writer_.reset();
    return {};
  }
  if (writer_) {
    writer_->set_generation(generation_);
    return {};
  }
  return make_writer(false);
}

Status Training::make_writer(bool among_others) {
  doing_ = Origin::kSave;
  checkpoint::WriterOptions options{.directory = flags_.checkpoint_dir,
                                    .job_uid = world_.job_uid,
                                    .identity = identity(),
                                    .generation = generation_,
                                    .keep = flags_.keep_checkpoints,
                                    .among_others = among_others};
  LOCKSTEP_TRY(writer_, read_in_time(board_.pulse, world_, options.directory,
                                     [options] { return checkpoint::Writer::create(options); }));
  return {};
}

Status Training::save(Busy busy) {
  doing_ = Origin::kCommunication;
  state().changed();  // the digest of a checkpoint comes from its bytes, not from the optimizer
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());
  doing_ = Origin::kInternal;
  if (!agree)
    return fail(ErrorCode::kInternal, fmt::format("the ranks hold different states after step {}", state().step));
  saved_ = Clock::now();
  if (!writer_ || saved_step_ == state().step) return {};
  doing_ = Origin::kSave;
  core::Meanwhile saving(board_.pulse, core::Doing::kSaving, world_.storage_deadline + checkpoint::kTimeToEnd);
  LOCKSTEP_TRY(const checkpoint::Snapshot now, snapshot());
  LOCKSTEP_TRY(bool taken, writer_->write(now, busy, world_.storage_deadline));
  if (taken) saved_step_ = state().step;
  return {};
}

// Waits until no checkpoint is in flight, and reports what was published. The one in flight is confirmed.
Status Training::drain_writer() {
  doing_ = Origin::kSave;
  core::Meanwhile saving(board_.pulse, core::Doing::kSaving, world_.storage_deadline + checkpoint::kTimeToEnd);
  LOCKSTEP_TRY(auto last, writer_->flush(world_.storage_deadline));
  static_cast<void>(last);
  return take_published();
}

Result<checkpoint::Snapshot> Training::snapshot() const {
  LOCKSTEP_TRY(auto tensors, state_tensors(state()));
  const std::int64_t samples = state().samples;
  return checkpoint::Snapshot{
      .step = state().step,
      .cursor = {.epoch = samples / task_->data.epoch_samples, .index = samples % task_->data.epoch_samples},
      .metadata = to_metadata(first_held_out_loss_, loss_),
      .state = std::move(tensors)};
}

// This process is told to end while it waits for another generation. It saves its state without a collective: all ranks
// agreed to commit the last step of their generation. Every rank does so, since none knows which others are left and
// whether they live long enough; of one version one checkpoint is enough.
Status Training::save_alone() {
  if (flags_.checkpoint_dir.empty() || !whole_) return {};
  doing_ = Origin::kSave;
  if (writer_) {  // the write in flight is of this step, which is committed, or of an earlier one
    writer_->confirm(state().step + 1);
    LOCKSTEP_CHECK_OK(drain_writer());
    if (saved_step_ == state().step) return {};
  }
  LOCKSTEP_CHECK_OK(make_writer(true));
  doing_ = Origin::kSave;
  LOCKSTEP_TRY(const checkpoint::Snapshot now, snapshot());
  auto taken = writer_->write(now, Busy::kWait, world_.storage_deadline);  // none is in flight
  if (!taken && taken.error().code == ErrorCode::kAlreadyExists) return adopt_checkpoint();
  if (!taken) return taken.error();
  writer_->confirm(state().step + 1);
  return drain_writer();
}

// Another rank saved the same state first. It may have died before it reported that, so this one reports the checkpoint
// too.
Status Training::adopt_checkpoint() {
  const std::string name = checkpoint::folder_name(state().step, generation_);
  auto verify = [directory = flags_.checkpoint_dir, name] { return checkpoint::verify(directory, name); };
  LOCKSTEP_TRY(const auto manifest,
               read_in_time(board_.pulse, world_, flags_.checkpoint_dir + "/" + name, std::move(verify)));
  LOCKSTEP_TRY(const checkpoint::Snapshot now, snapshot());
  LOCKSTEP_TRY(const std::string digest, checkpoint::state_digest(now.state));
  if (manifest.digest != digest) {
    return fail(ErrorCode::kAlreadyExists,
                fmt::format("checkpoint {} of {} exists already and holds another state, of digest {} instead of {}: "
                            "give this job a checkpoint directory of its own",
                            name, flags_.checkpoint_dir, manifest.digest, digest));
  }
  tell_of_checkpoint({name, manifest.step, manifest.generation, digest});
  return {};
}

void Training::tell_of_checkpoint(const checkpoint::Published& published) {
  agent_->checkpoint(
      {.name = published.name, .step = published.step, .generation = published.generation, .digest = published.digest});
  print(stdout, "checkpoint {}  digest {}\n", published.name, published.digest);
}

// A collective has just succeeded: publishes what was written before it, and reports what was published.
Status Training::take_published() {
  if (!writer_) return {};
  writer_->confirm(state().step);
  doing_ = Origin::kSave;
  while (auto outcome = writer_->poll()) {
    if (!*outcome) return outcome->error();
    tell_of_checkpoint(**outcome);
  }
  return {};
}

// Writes the last checkpoint and waits until it is published. Every rank calls it.
Status Training::settle_checkpoints() {
  if (writer_ && saved_step_ != state().step) {
    // A checkpoint in flight is of an earlier step, which the last step has confirmed.
    writer_->confirm(state().step);
    LOCKSTEP_CHECK_OK(drain_writer());
  }
  LOCKSTEP_CHECK_OK(save(Busy::kWait));
  doing_ = Origin::kCommunication;
  LOCKSTEP_TRY(bool agree, replica_->ranks_agree());  // the collective that comes after the checkpoint
  static_cast<void>(agree);
  if (writer_) {
    writer_->confirm(state().step + 1);
    LOCKSTEP_CHECK_OK(drain_writer());
  }
  // No rank leaves before: a supervisor may end the others as soon as one is gone. If a disk is slower than the
  // deadline of a collective, they leave one by one all the same, which does no harm here.
  static_cast<void>(replica_->ranks_agree());
  return {};
}

checkpoint::Identity Training::identity() const {
  return {.model = flags_.model, .model_hash = task_->configuration, .seed = flags_.seed, .numerics_id = numerics_id()};
}

// Everything that the bits of a micro-batch's gradient depend on; empty: its last bits do not matter.
std::string Training::numerics_id() const {
  if (!flags_.deterministic) return "";
  return fmt::format("{}/micro-batch-{}", backend_->numerics(), flags_.micro_batch_size);
}

}  // namespace lockstep::trainer
