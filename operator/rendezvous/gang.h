// One generation that may have had its GO: who is in it, and what its members have said of it so far. Plain data with
// questions about it; generation.h is about which one is in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/edge_watch.h"
#include "operator/rendezvous/hang_watch.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

// What ends, or may end, a generation.
struct Ending {
  std::map<int, Exit> exits;           // by rank
  int successes = 0;                   // of `exits`
  std::map<int, BrokenReport> broken;  // by rank: its communicator failed, and the process waits to be regrouped
  bool yielded = false;                // all ranks ended it in band: they hold the same step and wait
  int lost_slot = -1;                  // whose loss broke it
  MonotonicTime gather_until = MonotonicTime::max();  // until when a better explanation is waited for
};

struct Gang : Roster {
  std::int64_t generation = 0;
  Kind kind = Kind::kLockstep;
  bool resumed = false;  // known from the record of an earlier term or process
  bool over = false;     // ended by the controller's word, or abandoned
  std::vector<bool> up;  // by place
  std::size_t ups = 0;   // places that are up
  Ending end;
  std::optional<Go> go;  // as its first member had it; none: of a generation that was taken over
  MonotonicTime go_at{}, up_at{};
  std::map<int, MonotonicTime> rests_until;  // by slot, before it is up: a rank waits for its storage
  std::int64_t restored_step = 0;
  std::optional<MonotonicTime> yields_since;     // its ranks are asked to end it in band, so that others can join
  std::optional<MonotonicTime> renounced_since;  // a member has promised another coordinator to be done with it
  std::optional<HangWatch> watch;                // from when it is up
  struct Hang {
    Failure failure;  // to be named where no agent ends the process
    MonotonicTime since{};
  };
  std::optional<Hang> hang;  // the processes to blame are being ended

  // The GO of that member, where there was one.
  Go go_to(int slot) const;
  bool is_up(int slot) const { return index_of(slot) < up.size() && up[index_of(slot)]; }
  bool all_up() const { return ups == size(); }
  // These return false when that was known.
  bool note_up(int slot);
  bool note_exit(const Exit& exit);
  void note_broken(int rank, const BrokenReport& report);
  // Every rank has ended well.
  bool succeeded_whole() const { return end.successes == ranks(); }
  // Every process of that slot has ended, or has ended well; some process has.
  bool exited(int slot) const;
  bool succeeded_at(int slot) const;
  bool some_exited(int slot) const;
  Place place_of(int rank) const { return places()[static_cast<std::size_t>(rank / procs())]; }
  // Which ranks say that a link failed, or only that they could not go on.
  std::vector<EdgeWatch::Report> link_reports() const;
};

}  // namespace lockstep::rendezvous
