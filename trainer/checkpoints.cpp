#include "trainer/checkpoints.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/storage_deadline.h"
#include "trainer/print.h"
#include "trainer/state_views.h"

namespace lockstep::trainer {

using checkpoint::Busy;

namespace {

// What a restarted run still has to report and to follow, stored in the checkpoint's metadata.
std::string to_metadata(const Rank& rank) {
  auto finite = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); };
  nlohmann::json metadata{{"first_held_out_loss", finite(rank.losses.first_held_out)},
                          {"loss", finite(rank.losses.last)}};
  if (rank.flags.follows_best()) metadata["best"] = nlohmann::json::parse(to_text(rank.best), nullptr, false);
  return metadata.dump();
}

Best best_in_metadata(const std::string& text) {
  const nlohmann::json metadata = nlohmann::json::parse(text, nullptr, false);
  return metadata.is_object() && metadata.contains("best") ? best_from(metadata["best"].dump()) : Best();
}

double from_metadata(const std::string& text, const char* key) {
  nlohmann::json metadata = nlohmann::json::parse(text, nullptr, false);
  if (!metadata.is_object() || !metadata.contains(key) || !metadata[key].is_number()) return std::nan("");
  return metadata[key].get<double>();
}

// The result of `work`, which reads checkpoints and holds all that it needs. Announces its deadline to the watcher.
template <typename Work>
auto read_in_time(Origin origin, Rank& rank, const std::string& what, Work work) {
  const core::Meanwhile reading(rank.board.pulse, core::Doing::kStarting,
                                rank.world.storage_deadline + checkpoint::kTimeToEnd);
  return from(origin, checkpoint::in_time(rank.world.storage_deadline, "reading " + what, std::move(work)));
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

// The newest checkpoint of `step`; empty: there is none.
Result<std::string> checkpoint_of(const std::string& directory, std::int64_t step) {
  LOCKSTEP_TRY(const auto list, checkpoint::list_valid(directory));
  for (const checkpoint::Listed& listed : list) {
    if (listed.manifest.step == step) return listed.name;
  }
  return std::string();
}

}  // namespace

Outcome<> Checkpoints::restore() {
  if (rank_.whole || !rank_.initial) {  // the state that this process held no longer counts
    rank_.whole = false;
    rank_.initial = true;
    LOCKSTEP_CHECK_OK(from(Origin::kInternal, rank_.state().initialize(rank_.flags.seed)));
    LOCKSTEP_CHECK_OK(drop_writer());
    saved_step_ = -1;
    rank_.losses = {};
    rank_.best = {};
  }
  if (rank_.flags.checkpoint_dir.empty()) return {};
  const std::string& directory = rank_.flags.checkpoint_dir;
  std::string name = rank_.world.restore;
  if (rank_.world.source != elastic::World::Source::kAgent && name.empty()) {
    std::array<char, 256> chosen{};
    if (rank_.leads()) {
      LOCKSTEP_TRY(auto newest, read_in_time(Origin::kRestore, rank_, directory,
                                             [directory] { return newest_checkpoint(directory); }));
      newest.copy(chosen.data(), chosen.size() - 1);
    }
    LOCKSTEP_TRY(auto ticket, from(Origin::kCommunication,
                                   rank_.communicator->submit(comm::Broadcast{chosen.data(), chosen.size(), 0})));
    LOCKSTEP_CHECK_OK(from(Origin::kCommunication, rank_.communicator->wait(ticket)));
    name = chosen.data();
  }
  if (!name.empty()) {
    rank_.initial = false;
    auto load = [directory, name, expected = identity(), buffers = state_buffers(rank_.state(), rank_.task->stored)] {
      return checkpoint::load(directory, name, expected, buffers);
    };
    LOCKSTEP_TRY(auto manifest, read_in_time(Origin::kRestore, rank_, directory + "/" + name, std::move(load)));
    LOCKSTEP_TRY(rank_.state().samples,
                 from(Origin::kRestore, samples_before(manifest.cursor, rank_.task->data.epoch_samples)));
    LOCKSTEP_CHECK_OK(from(Origin::kRestore, rank_.state().written()));
    // Without a coordinator no generation is counted; a continued run takes the next, so that names stay new.
    if (rank_.world.source != elastic::World::Source::kAgent) rank_.generation = manifest.generation + 1;
    rank_.state().committed_in = manifest.generation;
    saved_step_ = rank_.state().step;
    rank_.losses.first_held_out = from_metadata(manifest.metadata, "first_held_out_loss");
    rank_.losses.last = from_metadata(manifest.metadata, "loss");
    rank_.best = best_in_metadata(manifest.metadata);
    if (rank_.leads()) print(stdout, "restored {} at step {}\n", name, rank_.state().step);
  }
  return {};
}

// The leading rank has the writer. An existing writer may still hold a checkpoint of an earlier generation. The ranks
// agreed on its state, and the source of this generation holds it or a later one, so the next step confirms it.
// state_was_replaced() and restore() drop the writer otherwise.
Outcome<> Checkpoints::enter() {
  if (!saved_) saved_ = Clock::now();
  if (!rank_.leads() || rank_.flags.checkpoint_dir.empty()) {
    return drop_writer();
  }
  if (writer_) {
    writer_->set_generation(rank_.generation);
    return {};
  }
  return make_writer(false);
}

Outcome<> Checkpoints::state_was_replaced() {
  if (saved_step_ < rank_.state().step) return {};
  saved_step_ = -1;
  return drop_writer();  // a checkpoint in flight is of the old state
}

// A writer that waits for the storage cannot be destroyed, so then the process ends (Training::run()).
Outcome<> Checkpoints::drop_writer() {
  if (!writer_) return {};
  const core::Meanwhile saving(rank_.board.pulse, core::Doing::kSaving,
                               rank_.world.storage_deadline + checkpoint::kTimeToEnd);
  if (!writer_->close(rank_.world.storage_deadline)) {
    return fail(Origin::kSave, ErrorCode::kDeadlineExceeded,
                fmt::format("the storage of {} has not answered for {:.0f} s: is it there?", rank_.flags.checkpoint_dir,
                            std::chrono::duration<double>(rank_.world.storage_deadline).count()));
  }
  writer_.reset();
  return {};
}

bool Checkpoints::close(Duration deadline) {
  return !writer_ || writer_->close(deadline);
}

bool Checkpoints::due_by_step(std::int64_t step) const {
  return rank_.flags.checkpoint_every_steps > 0 && step % rank_.flags.checkpoint_every_steps == 0;
}

bool Checkpoints::wanted(std::int64_t next) const {
  if (!writer_ || next >= rank_.flags.steps) return false;
  const double every = rank_.world.checkpoint_every_seconds;
  return due_by_step(next) || (every > 0 && seconds_since(*saved_) >= every);
}

Outcome<> Checkpoints::make_writer(bool among_others) {
  checkpoint::WriterOptions options{.directory = rank_.flags.checkpoint_dir,
                                    .job_uid = rank_.world.job_uid,
                                    .identity = identity(),
                                    .generation = rank_.generation,
                                    .keep = rank_.flags.keep_checkpoints,
                                    .among_others = among_others};
  LOCKSTEP_CHECK_OK(drop_writer());
  LOCKSTEP_TRY(writer_, read_in_time(Origin::kSave, rank_, options.directory,
                                     [options] { return checkpoint::Writer::create(options); }));
  return {};
}

Outcome<> Checkpoints::save(Busy busy) {
  rank_.state().changed();  // the digest of a checkpoint comes from its bytes, not from the optimizer
  LOCKSTEP_TRY(bool agree, from(Origin::kCommunication, rank_.replica->ranks_agree()));
  if (!agree) {
    return fail(Origin::kInternal, ErrorCode::kInternal,
                fmt::format("the ranks hold different states after step {}", rank_.state().step));
  }
  LOCKSTEP_CHECK_OK(from(Origin::kCommunication, rank_.replica->complete()));
  saved_ = Clock::now();
  if (!writer_ || saved_step_ == rank_.state().step) return {};
  core::Meanwhile saving(rank_.board.pulse, core::Doing::kSaving,
                         rank_.world.storage_deadline + checkpoint::kTimeToEnd);
  LOCKSTEP_TRY(const checkpoint::Contents now, from(Origin::kSave, contents()));
  LOCKSTEP_TRY(bool taken, from(Origin::kSave, writer_->write(now, busy, rank_.world.storage_deadline)));
  if (taken) saved_step_ = rank_.state().step;
  return {};
}

// Waits until no checkpoint is in flight, and reports what was published. The one in flight is confirmed.
Outcome<> Checkpoints::drain() {
  core::Meanwhile saving(rank_.board.pulse, core::Doing::kSaving,
                         rank_.world.storage_deadline + checkpoint::kTimeToEnd);
  LOCKSTEP_TRY(auto last, from(Origin::kSave, writer_->flush(rank_.world.storage_deadline)));
  static_cast<void>(last);
  return publish();
}

Result<checkpoint::Contents> Checkpoints::contents() const {
  LOCKSTEP_TRY(auto tensors, state_tensors(rank_.state(), rank_.task->stored));
  const std::int64_t samples = rank_.state().samples, epoch = rank_.task->data.epoch_samples;
  return checkpoint::Contents{.step = rank_.state().step,
                              .cursor = {.epoch = samples / epoch, .index = samples % epoch},
                              .metadata = to_metadata(rank_),
                              .keep_step = rank_.flags.keep_best ? rank_.best.step : -1,
                              .state = std::move(tensors)};
}

// This process is told to end while it waits for another generation. It saves a replicated state without a collective:
// all ranks agreed to commit the last step of their generation. Every rank does so, since none knows which others are
// left and whether they live long enough; of one version one checkpoint is enough.
Outcome<> Checkpoints::save_alone() {
  if (rank_.flags.checkpoint_dir.empty() || !rank_.whole) return {};
  if (rank_.synchronizer->model() != core::StateModel::kReplicated) return {};
  if (writer_) {  // the write in flight is of this step, which is committed, or of an earlier one
    writer_->confirm(rank_.state().step + 1);
    LOCKSTEP_CHECK_OK(drain());
    if (saved_step_ == rank_.state().step) return {};
  }
  LOCKSTEP_CHECK_OK(make_writer(true));
  LOCKSTEP_TRY(const checkpoint::Contents now, from(Origin::kSave, contents()));
  // None is in flight, so it is taken.
  LOCKSTEP_TRY(const bool taken, from(Origin::kSave, writer_->write(now, Busy::kWait, rank_.world.storage_deadline)));
  static_cast<void>(taken);
  writer_->confirm(rank_.state().step + 1);
  Outcome<> drained = drain();
  if (!drained && drained.error().why.code == ErrorCode::kAlreadyExists) return adopt();
  return drained;
}

// Another rank saved the same state first. It may have died before it reported that, so this one reports the checkpoint
// too.
Outcome<> Checkpoints::adopt() {
  const std::string name = checkpoint::folder_name(rank_.state().step, rank_.generation);
  auto verify = [directory = rank_.flags.checkpoint_dir, name] { return checkpoint::verify(directory, name); };
  LOCKSTEP_TRY(const auto manifest,
               read_in_time(Origin::kSave, rank_, rank_.flags.checkpoint_dir + "/" + name, std::move(verify)));
  LOCKSTEP_TRY(const checkpoint::Contents now, from(Origin::kSave, contents()));
  LOCKSTEP_TRY(const std::string digest, from(Origin::kSave, checkpoint::state_digest(now.state)));
  if (manifest.digest != digest) {
    return fail(Origin::kSave, ErrorCode::kAlreadyExists,
                fmt::format("checkpoint {} of {} exists already and holds another state, of digest {} instead of {}: "
                            "give this job a checkpoint directory of its own",
                            name, rank_.flags.checkpoint_dir, manifest.digest, digest));
  }
  tell({name, manifest.step, manifest.generation, digest});
  return {};
}

void Checkpoints::tell(const checkpoint::Published& published) const {
  rank_.agent->checkpoint(
      {.name = published.name, .step = published.step, .generation = published.generation, .digest = published.digest});
  print(stdout, "checkpoint {}  digest {}\n", published.name, published.digest);
}

Outcome<> Checkpoints::publish() {
  if (!writer_) return {};
  writer_->confirm(rank_.state().step);
  while (auto outcome = writer_->poll()) {
    if (!*outcome) return Failure{outcome->error(), Origin::kSave};
    tell(**outcome);
  }
  return {};
}

Outcome<> Checkpoints::settle() {
  if (writer_ && saved_step_ != rank_.state().step) {
    // A checkpoint in flight is of an earlier step, which the last step has confirmed.
    writer_->confirm(rank_.state().step);
    LOCKSTEP_CHECK_OK(drain());
  }
  LOCKSTEP_CHECK_OK(save(Busy::kWait));
  // The collective that comes after the checkpoint.
  LOCKSTEP_TRY(bool agree, from(Origin::kCommunication, rank_.replica->ranks_agree()));
  static_cast<void>(agree);
  if (writer_) {
    writer_->confirm(rank_.state().step + 1);
    LOCKSTEP_CHECK_OK(drain());
  }
  // No rank leaves before: a supervisor may end the others as soon as one is gone. If a disk is slower than the
  // deadline of a collective, they leave one by one all the same, which does no harm here.
  static_cast<void>(rank_.replica->ranks_agree());
  return {};
}

Outcome<std::string> Checkpoints::best() const {
  const std::string& directory = rank_.flags.checkpoint_dir;
  return read_in_time(Origin::kRestore, rank_, directory,
                      [directory, step = rank_.best.step] { return checkpoint_of(directory, step); });
}

checkpoint::Identity Checkpoints::identity() const {
  return {.model = rank_.flags.model,
          .model_hash = rank_.task->configuration,
          .seed = rank_.flags.seed,
          .numerics_id = rank_.numerics_id()};
}

}  // namespace lockstep::trainer
