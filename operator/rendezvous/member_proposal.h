// Part of the agent's machine (MemberState): the promises of this pod, and the proposal under way.
//
// Invariants:
//   * neither the newest promise nor the highest number that had its GO here ever falls;
//   * at most one proposal is under way, and it is the one promised last;
//   * READY answers only that proposal, and only one READY is valid at a time;
//   * processes that stay for it have reported their holdings since it came.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "operator/base/clock.h"
#include "operator/rendezvous/member_actions.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

class MemberProposal {
 public:
  // ---- numbers ----

  const GenerationId& promised() const { return promised_; }
  // A GO of this generation is followed.
  void use(std::int64_t generation);
  enum class Verdict {
    kStale,  // below what was promised, used already, or called off
    kKnown,  // under way
    kNew,
  };
  Verdict judge(const GenerationId& id) const;

  // ---- the proposal under way ----

  bool under_way() const { return under_way_.has_value(); }
  // Null where none is under way.
  const Propose* propose() const { return under_way_ ? &under_way_->propose : nullptr; }
  // The READY for it; null: none yet.
  const Ready* ready() const { return under_way_ && under_way_->ready ? &*under_way_->ready : nullptr; }
  // A READY is to come.
  bool awaits_ready() const { return under_way_ && !under_way_->ready; }

  // Replaces the proposal under way.
  void accept(const Propose& propose);
  // Ends the proposal under way. False: there was none.
  bool drop();
  // `existing`: for living processes, or for dead ones whose exits the generation reports.
  void say(Ready ready, bool existing);

  // ---- processes that stay for it ----

  // They answer the proposal themselves, until `until`.
  void keep(MonotonicTime until);
  bool keeping() const { return under_way_ && under_way_->keeping; }
  // One of them has ended: READY, said or not, is void, and new ones will be started.
  void stop_keeping();
  // When processes that have not answered are killed; never where none is asked.
  MonotonicTime hold_until() const;
  // The process of `rank` answers. False: it was not asked that.
  bool hold(int rank, const Holding& holding);
  const StateVersion* holding_of(int rank) const;
  // Sockets for the processes that start beside them; null: not bound yet.
  void prepare(const Prepared& prepared) { under_way_->prepared = prepared; }
  const Prepared* prepared() const { return under_way_ && under_way_->prepared ? &*under_way_->prepared : nullptr; }
  // A READY was said for existing processes, and they do not stay: GO may find them dead.
  bool outlived() const { return under_way_ && under_way_->of_existing && !under_way_->keeping; }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  struct UnderWay {
    Propose propose;
    std::optional<Ready> ready;
    bool keeping = false;              // the processes stay, and answer (or have answered) it themselves
    MonotonicTime hold_until{};        // while keeping
    std::map<int, StateVersion> held;  // the answers, by rank
    std::optional<Prepared> prepared;  // while keeping: for processes that restart
    bool of_existing = false;          // a READY was said for existing processes, which may have died since
  };

  GenerationId promised_;
  std::int64_t used_ = 0;
  std::optional<UnderWay> under_way_;
};

}  // namespace lockstep::rendezvous
