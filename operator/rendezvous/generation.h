// The newest generation of one job, and the one in force. It has its gang, how far training is, which links failed and
// whom the gang does without. Pure; part of CoordinatorState.
//
// The newest generation and the one in force may differ. A record that an earlier coordinator left does not tell
// whether its generation had its GO, or the one before is still in force. A member that runs it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/contacts.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/edge_watch.h"
#include "operator/rendezvous/gang.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

// What a member reported before it was known which generation counts.
struct Early {
  std::map<int, Exit> exits;  // by rank
  std::map<int, BrokenReport> broken;
  std::optional<Heartbeat> heartbeat;
};

// The newest generation of which something may run.
struct InForce : Roster {
  Kind kind = Kind::kLockstep;
  bool known = false;
};

class Generation {
 public:
  explicit Generation(MonotonicTime now) : last_advance_(now) {}

  // ---- the newest ----

  bool exists() const { return gang_.has_value(); }
  Gang& gang() { return *gang_; }  // where it exists
  const Gang& gang() const { return *gang_; }
  // That very pod is one of it.
  bool has(const Member& member) const { return gang_ && member.is_in(*gang_); }
  // GO is sent to `gang`: it is the newest, and in force.
  void start(Gang gang, MonotonicTime now);
  // `gang` is what the record says. Whether it is in force is not known.
  void adopt(Gang gang);
  // `gang` was agreed on and cannot start: it is the newest, and not in force.
  void fail_to_start(Gang gang) { gang_ = std::move(gang); }

  // ---- the one in force ----

  // Some other generation may be in force.
  bool unclear() const { return in_force_ && !in_force_->known; }
  // That very pod is one of it.
  bool in_force_has(const Member& member) const { return in_force_ && member.is_in(*in_force_); }
  // What the member runs, or has run, may tell that the record's generation is in force. Whether that is news.
  bool note_in_force(const Member& member);
  // Rule 2: nothing more of it can be committed once the slots that `promises` are READY.
  bool ends_with(const Contacts& contacts, const std::function<bool(int slot)>& promises) const;

  // ---- reports before the record is known ----

  Early& early(int slot) { return early_[slot]; }
  void forget_early(int slot) { early_.erase(slot); }
  // Forgets the reports of slots that are not expected.
  void keep_early(const Contacts& contacts);
  std::map<int, Early> take_early() { return std::exchange(early_, {}); }

  // ---- progress ----

  const Progress& progress() const { return progress_; }
  // When a step was last committed, or the newest generation had its GO.
  MonotonicTime last_advance() const { return last_advance_; }
  // A member says that a step of the newest generation is committed. True for the first one of a generation.
  bool note_advance(Member& member, std::int64_t step, MonotonicTime now);
  // What the member of that slot says of the progress of its ranks; the lowest place counts. Whether progress()
  // changed.
  bool note_progress(int slot, const Progress& progress);
  // How training ended, as the record has it.
  void note_final(const Progress& progress);

  // Of the newest recovery.
  RecoveryTimes& times() { return times_; }
  const RecoveryTimes& times() const { return times_; }
  // times() are of the recovery that led to the newest generation, and this coordinator began it.
  bool recovered() const { return times_.into == gang_->generation && !gang_->resumed; }
  // The first step after that recovery was committed at `at`. False when it was known.
  bool note_first_step(MonotonicTime at);

  // ---- ranks that differ ----

  // A member has said what its processes are: it is to be compared with the others.
  void note_identities() { identities_changed_ = true; }
  bool take_identities_changed() { return std::exchange(identities_changed_, false); }
  // What the newest generation found whose ranks held different replicas of one state.
  const std::string& divergence() const { return divergence_; }
  void note_divergence(std::string found) { divergence_ = std::move(found); }

  // ---- links ----

  // The newest generation ended because of `reports`. Whom the gang is to do without, where a link failed again.
  std::optional<EdgeWatch::Eviction> fail_links(const std::vector<EdgeWatch::Report>& reports);
  void evict(const Place& member) { evicted_[member.slot] = member.incarnation; }
  // The gang goes on without this very pod, because it does not reach another one.
  bool evicted(const Member& member) const;

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  std::optional<Gang> gang_;
  std::optional<InForce> in_force_;
  std::map<int, Early> early_;  // by slot
  Progress progress_;
  std::size_t progress_place_ = 0;  // in the gang, of whose ranks `progress_` is
  MonotonicTime last_advance_{};
  RecoveryTimes times_;
  bool identities_changed_ = false;
  std::string divergence_;
  EdgeWatch edges_;
  std::map<int, std::int64_t> evicted_;  // the newest incarnation by slot
};

}  // namespace lockstep::rendezvous
