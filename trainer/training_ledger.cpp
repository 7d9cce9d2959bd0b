// The lines that a training writes into its ledger (report/ledger.h).
#include <filesystem>
#include <system_error>

#include "trainer/training.h"

namespace lockstep::trainer {

using elastic::Origin;

Status Training::open_ledger() {
  if (flags_.ledger.empty()) return {};
  doing_ = Origin::kConfig;
  report::LedgerProcess process{.model = flags_.model,
                                .backend = flags_.backend,
                                .seed = flags_.seed,
                                .deterministic = flags_.deterministic,
                                .steps = flags_.steps,
                                .batch_size = flags_.batch_size,
                                .micro_batch_size = flags_.micro_batch_size,
                                .context = task_->data.context};
  if (task_->data.text) {
    for (const data::TextFile& file : task_->data.text->files) {
      std::error_code error;  // the relative name is enough if the working directory is unknown
      const std::filesystem::path absolute = std::filesystem::absolute(file.path, error);
      process.data.push_back(error ? file.path : absolute.string());
    }
  }
  LOCKSTEP_TRY(ledger_, report::Ledger::open(flags_.ledger, world_.job_uid, process));
  return {};
}

Status Training::enter_in_ledger() {
  if (!ledger_) return {};
  doing_ = Origin::kSave;
  const core::Version version = state().version();
  return ledger_->enter({.generation = generation_,
                         .rank = world_.rank,
                         .world = world_.size,
                         .step = version.step,
                         .committed_in = version.committed_in,
                         .digest = version.digest});
}

Status Training::commit_to_ledger() {
  if (!ledger_) return {};
  doing_ = Origin::kSave;
  const core::Version version = state().version();  // which the optimizer has kept up
  report::LedgerStep line{.step = version.step,
                          .generation = version.committed_in,
                          .rank = world_.rank,
                          .world = world_.size,
                          .batches = {},
                          .digest = version.digest};
  for (const core::ComputedBatch& batch : replica_->computed()) line.batches.emplace_back(batch.index, batch.crc32);
  return ledger_->step(line);
}

}  // namespace lockstep::trainer
