// The record of one job as its coordinator knows it, and the term under which it may write it. Pure; part of
// CoordinatorState, which carries out the one operation that may be under way.
//
// A write whose outcome is not known makes the record unknown: it is loaded again before the next write. After a
// failure other than a conflict the next operation waits for CoordinatorTiming::store_retry, and after any for as long
// as the server asks (Retry-After). The terms of leaders begin again when somebody deletes the Lease; those of a job
// never do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_actions.h"
#include "operator/rendezvous/coordinator_timing.h"
#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

class RecordKeeper {
 public:
  // `term` is the leader's; the job's may be higher. `make_key` gives at least 16 characters, fresh each time.
  RecordKeeper(std::int64_t term, const CoordinatorTiming& timing, std::function<std::string()> make_key)
      : term_(term), timing_(timing), make_key_(std::move(make_key)) {}

  // ---- the term ----

  std::int64_t term() const { return term_; }
  // The record or a member tells of another coordinator of that term.
  void note_foreign_term(std::int64_t term) { foreign_term_ = std::max(foreign_term_, term); }
  struct TermChange {
    bool news = false;   // deposed() has changed
    bool moved = false;  // term() is a new one: what was promised to the one before does not count
  };
  // Moves the job above every term that was told of, where this process leads; otherwise this coordinator is deposed.
  TermChange settle_term(bool leads);
  // Another coordinator's term was told of and this process does not lead: it must not act.
  bool deposed() const { return deposed_; }

  // ---- the record ----

  // Empty: it is not known, or not known any longer.
  const std::optional<Record>& record() const { return record_; }
  // Its members, with one rank each.
  const Roster& recorded() const { return recorded_; }
  // It was known at least once.
  bool seen() const { return seen_; }
  // The record is known, and no other coordinator can act on it: it has no generation, or it is of this coordinator and
  // its term.
  bool claimed() const;
  // Why the last operation failed; empty: it did not.
  const std::string& error() const { return error_; }

  enum class Loaded {
    kFailed,
    kKnown,
    kForeign,  // another coordinator wrote it
  };
  Loaded on_loaded(const Result<GenerationStore::Versioned>& loaded, MonotonicTime now);
  // The generation whose record was written; empty where it is not known whether it was.
  std::optional<std::int64_t> on_written(const Result<std::string>& version, MonotonicTime now);

  // Writes `next` with this coordinator's term and name: now, or when the operation under way is done.
  std::optional<CoordinatorAction> write(Record next);
  // What was to be written later is not written.
  void forget_next() { write_next_.reset(); }
  // What the record has to say besides which generation it is.
  struct Wanted {
    const Progress* finished_with = nullptr;  // every rank has exited with 0
    bool stops = false;                       // the newest checkpoint is what the job goes on from
    std::int64_t up = 0;                      // the generation that is up: checkpoints are recorded; 0: none is
  };
  // The next operation, where none is under way and one is due.
  std::optional<CoordinatorAction> next_operation(const Wanted& wanted, Now now);

  // ---- checkpoints and numbers ----

  const std::optional<CheckpointReport>& checkpoint() const { return checkpoint_; }  // the newest that was told of
  // False when it is not the newest.
  bool note_checkpoint(const std::optional<CheckpointReport>& checkpoint);
  // The record does not have the newest checkpoint yet.
  bool checkpoint_awaited() const;
  // A generation of that number was seen or tried.
  void note_number(std::int64_t generation) { highest_ = std::max(highest_, generation); }
  // A number that no generation ever had.
  std::int64_t next_number() { return ++highest_; }
  void reuse_number() { --highest_; }  // breaks that promise, for tests

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  enum class Work { kNone, kLoad, kWrite };

  bool is_mine(const Record& record) const { return !writer_.empty() && record.writer == writer_; }
  void know(const Record& record);
  void note_failure(const Error& error, Duration least, MonotonicTime now);

  std::int64_t term_;               // of this job: the leader's, or one above what its record or members knew
  std::int64_t foreign_term_ = -1;  // the highest of another coordinator
  bool deposed_ = false;
  const CoordinatorTiming timing_;
  const std::function<std::string()> make_key_;
  std::string writer_;  // tells this coordinator's records from those of others under an equal term

  std::optional<Record> record_;
  Roster recorded_;
  std::string version_;
  bool seen_ = false;

  Work work_ = Work::kNone;
  Record writing_;
  std::optional<Record> write_next_;  // to be written when the work under way is done
  MonotonicTime retry_at_{};
  std::string error_;

  std::optional<CheckpointReport> checkpoint_;
  MonotonicTime checkpoint_written_at_{};
  std::int64_t highest_ = 0;  // generation number ever seen or tried
};

}  // namespace lockstep::rendezvous
