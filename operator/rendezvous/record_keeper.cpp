#include "operator/rendezvous/record_keeper.h"

#include <chrono>
#include <vector>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kWriterDigits = 16;
constexpr int kFirstByRank = 2;  // the first format with members in order of rank

bool newer(const CheckpointReport& a, const std::optional<CheckpointReport>& b) {
  return !b || std::pair(a.generation, a.step) > std::pair(b->generation, b->step);
}

}  // namespace

RecordKeeper::TermChange RecordKeeper::settle_term(bool leads) {
  if (foreign_term_ < term_) return {};
  const bool news = leads == deposed_;
  deposed_ = !leads;
  if (deposed_) return {news, false};
  term_ = foreign_term_ + 1;
  write_next_.reset();
  return {news, true};
}

bool RecordKeeper::claimed() const {
  if (!record_) return false;
  if (record_->generation == 0) return true;
  return record_->term == term_ && is_mine(*record_);
}

void RecordKeeper::know(const Record& record) {
  record_ = record;
  auto& members = record_->members;
  if (record.format < kFirstByRank || kMutation == Mutation::kRankFromSlot) {
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  }
  std::vector<Place> places;
  places.reserve(members.size());
  for (const Record::Member& member : members) places.push_back({member.slot, member.incarnation});
  recorded_ = Roster(std::move(places), 1);
}

// A gang that re-forms waits for the record, and a job writes it rarely.
constexpr Duration kMostPause = std::chrono::seconds(30);

// Nothing is tried for `least`, or for longer where the server asks for it (Retry-After), up to kMostPause.
void RecordKeeper::note_failure(const Error& error, Duration least, MonotonicTime now) {
  const auto asked = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(error.retry_after_seconds));
  error_ = error.message;
  retry_at_ = now + std::max(least, std::min(asked, kMostPause));
}

RecordKeeper::Loaded RecordKeeper::on_loaded(const Result<GenerationStore::Versioned>& loaded, MonotonicTime now) {
  work_ = Work::kNone;
  if (!loaded) {
    note_failure(loaded.error(), timing_.store_retry, now);
    return Loaded::kFailed;
  }
  error_.clear();
  know(loaded->record);
  version_ = loaded->version;
  seen_ = true;
  note_number(record_->generation);
  if (record_->generation == 0 || is_mine(*record_)) return Loaded::kKnown;
  note_foreign_term(record_->term);
  return Loaded::kForeign;
}

std::optional<std::int64_t> RecordKeeper::on_written(const Result<std::string>& version, MonotonicTime now) {
  work_ = Work::kNone;
  if (version) {
    error_.clear();
    version_ = *version;
    know(writing_);
    return writing_.generation;
  }
  // The write may have succeeded. Its number is not used again, and the stored record is read again.
  record_.reset();
  write_next_.reset();
  const bool conflict = version.error().code == ErrorCode::kConflict;
  note_failure(version.error(), conflict ? Duration::zero() : timing_.store_retry, now);
  return std::nullopt;
}

std::optional<CoordinatorAction> RecordKeeper::write(Record next) {
  if (writer_.empty()) writer_ = make_key_().substr(0, kWriterDigits);
  next.format = kRecordFormat;
  next.term = term_;
  next.writer = writer_;
  if (work_ != Work::kNone) {
    write_next_ = std::move(next);
    return std::nullopt;
  }
  writing_ = std::move(next);
  work_ = Work::kWrite;
  return WriteRecord{version_, writing_};
}

std::optional<CoordinatorAction> RecordKeeper::next_operation(const Wanted& wanted, Now now) {
  if (work_ != Work::kNone || deposed_ || now.time < retry_at_) return std::nullopt;
  if (!record_) {
    work_ = Work::kLoad;
    return LoadRecord{};
  }
  if (!claimed()) {
    // The leader before may still be at work. From this write on none of its own succeeds: it starts no generation
    // and finishes no job that this coordinator does not know of.
    return now.leads ? write(*record_) : std::nullopt;
  }
  if (write_next_) return write(*std::exchange(write_next_, std::nullopt));
  if (wanted.finished_with != nullptr && !record_->finished) {
    Record next = *record_;
    next.finished = true;
    next.progress = *wanted.finished_with;
    next.checkpoint = checkpoint_;
    return write(std::move(next));
  }
  if (checkpoint_ == record_->checkpoint || record_->generation == 0) return std::nullopt;
  const bool due = record_->generation == wanted.up && now.time - checkpoint_written_at_ >= timing_.checkpoint_every;
  // What a stopping job writes last is what it goes on from, perhaps under another leader.
  if (!wanted.stops && !due) return std::nullopt;
  checkpoint_written_at_ = now.time;
  Record next = *record_;
  next.checkpoint = checkpoint_;
  return write(std::move(next));
}

bool RecordKeeper::note_checkpoint(const std::optional<CheckpointReport>& checkpoint) {
  if (!checkpoint || !newer(*checkpoint, checkpoint_)) return false;
  checkpoint_ = checkpoint;
  return true;
}

bool RecordKeeper::checkpoint_awaited() const {
  if (!checkpoint_) return false;
  return !record_ || (record_->generation > 0 && record_->checkpoint != checkpoint_);
}

}  // namespace lockstep::rendezvous
