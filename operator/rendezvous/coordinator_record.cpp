// The record and the term of a job: what follows when either turns out to be another one.
#include <utility>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {

// The proposal that is out has a term that its members may have left.
void CoordinatorState::evaluate_term(Now now) {
  const RecordKeeper::TermChange change = keeper_.settle_term(now.leads);
  changed_ = changed_ || change.news;
  if (!change.moved) return;
  if (mode() == Mode::kProposing) return discard_proposal();
  modes_.set_proposal(std::nullopt);
}

void CoordinatorState::on_loaded(const Result<GenerationStore::Versioned>& loaded, Now now) {
  observe(now);
  changed_ = true;
  const RecordKeeper::Loaded what = keeper_.on_loaded(loaded, now.time);
  if (what != RecordKeeper::Loaded::kFailed) note_checkpoint(keeper_.record()->checkpoint);
  if (what == RecordKeeper::Loaded::kForeign && mode() != Mode::kLoading) {
    // Another coordinator has written it since this one last read it: what that one started runs. Nothing is started
    // of a job that stops.
    contacts_.evict_from(now.time + timing_.no_eviction_for);
    if (modes_.stop() == nullptr) enter(mode::Loading{});
  }
  evaluate(now);
}

void CoordinatorState::on_written(const Result<std::string>& version, Now now) {
  observe(now);
  changed_ = true;
  if (const auto generation = keeper_.on_written(version, now.time)) {
    if (Proposal* proposal = modes_.proposal(); proposal != nullptr && proposal->generation == *generation) {
      proposal->recorded = true;
      proposal->recorded_at = now.time;
    }
  } else if (mode() == Mode::kProposing) {
    discard_proposal();
  }
  evaluate(now);
}

void CoordinatorState::write(Record next) {
  if (auto write = keeper_.write(std::move(next))) actions_.push_back(std::move(*write));
}

void CoordinatorState::evaluate_store(Now now) {
  RecordKeeper::Wanted wanted;
  if (mode() == Mode::kFinished) wanted.finished_with = &generation_.progress();
  wanted.stops = mode() == Mode::kStopping || mode() == Mode::kStopped;
  if (mode() == Mode::kUp) wanted.up = gang().generation;
  if (auto operation = keeper_.next_operation(wanted, now)) actions_.push_back(std::move(*operation));
}

// An agent leaves once its exits are acknowledged. Of a job that stops, the last checkpoint would then be known to this
// process alone, so it is recorded first. Should this leader end before, the agents tell the next one.
void CoordinatorState::acknowledge_exits() {
  if (!contacts_.owes_acknowledgements() || !plan_ || checkpoint_awaited()) return;
  for (SendToMember& each : contacts_.take_acknowledgements()) actions_.push_back(std::move(each));
}

bool CoordinatorState::checkpoint_awaited() const {
  return plan_->stop && plan_->goes_on && keeper_.checkpoint_awaited();
}

}  // namespace lockstep::rendezvous
