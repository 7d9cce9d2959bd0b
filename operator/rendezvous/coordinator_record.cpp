// The record and the term of a job: who may act on it, and the one operation on it that may be under way.
#include <algorithm>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kWriterDigits = 16;

}  // namespace

// The terms of leaders begin again when somebody deletes the Lease; those of a job never do. The proposal that is out
// has a term that its members may have left.
void CoordinatorState::evaluate_term(Now now) {
  if (foreign_term_ < term_) return;
  changed_ = changed_ || now.leads == deposed_;
  deposed_ = !now.leads;
  if (deposed_) return;
  term_ = foreign_term_ + 1;
  write_next_.reset();
  if (!proposal_) return;
  if (proposal_->permitted) return discard_proposal();
  proposal_.reset();
}

bool CoordinatorState::claimed() const {
  if (!record_) return false;
  if (record_->generation == 0) return true;
  return record_->term == term_ && is_mine(*record_);
}

bool CoordinatorState::is_mine(const Record& record) const {
  return !writer_.empty() && record.writer == writer_;
}

void CoordinatorState::know(const Record& record) {
  record_ = record;
  auto& members = record_->members;
  if (record.format < kRecordFormat) {
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  }
  std::vector<Place> places;
  places.reserve(members.size());
  for (const Record::Member& member : members) places.push_back({member.slot, member.incarnation});
  recorded_ = Roster(std::move(places), 1);
}

void CoordinatorState::write(Record next) {
  if (writer_.empty()) writer_ = make_key_().substr(0, kWriterDigits);
  next.format = kRecordFormat;
  next.term = term_;
  next.writer = writer_;
  if (store_work_ != StoreWork::kNone) {
    write_next_ = std::move(next);
    return;
  }
  writing_ = std::move(next);
  store_work_ = StoreWork::kWrite;
  actions_.push_back(WriteRecord{version_, writing_});
}

void CoordinatorState::evaluate_store(Now now) {
  if (store_work_ != StoreWork::kNone || deposed_ || now.time < store_retry_at_) return;
  if (!record_) {
    store_work_ = StoreWork::kLoad;
    actions_.push_back(LoadRecord{});
  } else if (!claimed()) {
    // The leader before may still be at work. From this write on none of its own succeeds: it starts no generation
    // and finishes no job that this coordinator does not know of.
    if (now.leads) write(*record_);
  } else if (write_next_) {
    write(*std::exchange(write_next_, std::nullopt));
  } else if (step_ == Step::kFinished && !record_->finished) {
    Record next = *record_;
    next.finished = true;
    next.progress = progress_;
    next.checkpoint = checkpoint_;
    write(next);
  } else if (checkpoint_ != record_->checkpoint && record_->generation > 0 &&
             // What a stopping job writes last is what it goes on from, perhaps under another leader.
             (step_ == Step::kStopping || step_ == Step::kStopped ||
              (step_ == Step::kUp && record_->generation == gang_->generation &&
               now.time - checkpoint_written_at_ >= timing_.checkpoint_every))) {
    checkpoint_written_at_ = now.time;
    Record next = *record_;
    next.checkpoint = checkpoint_;
    write(next);
  }
}

}  // namespace lockstep::rendezvous
