// The modes of a job's coordinator: at each moment it is in exactly one, which owns what only that mode has. Pure; part
// of CoordinatorState, which decides when a mode ends.
//
// kMayFollow says which modes may follow which. README.md shows it as a table (tests/structure compares the two). A
// transition that it does not have is counted and carried out all the same: the server logs it, tests fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

enum class Mode {
  kLoading,    // the record is not known, or not claimed, so nor is what it has in force
  kResuming,   // the record's generation may run: its members have yet to say so
  kWaiting,    // no generation runs, and no proposal may be recorded yet
  kProposing,  // a proposal is recorded, and its members become READY
  kStarting,   // GO was sent
  kUp,         // every member said UP
  kBroken,     // the generation failed; the controller has yet to deal with it
  kFinished,   // every rank has exited with 0
  kStopping,   // the plan says stop, and something may still run
  kStopped,    // the plan says stop, and nothing runs
};
inline constexpr std::size_t kModes = 10;
const char* name_of(Mode mode);  // "loading"

constexpr std::uint16_t modes_of(std::initializer_list<Mode> modes) {
  std::uint16_t mask = 0;
  for (const Mode mode : modes) mask = static_cast<std::uint16_t>(mask | 1U << static_cast<unsigned>(mode));
  return mask;
}
// By mode, those that may follow it. To stay is no transition.
inline constexpr std::array<std::uint16_t, kModes> kMayFollow = {
    /* kLoading */ modes_of({Mode::kResuming, Mode::kWaiting, Mode::kFinished, Mode::kStopping}),
    /* kResuming */
    modes_of({Mode::kLoading, Mode::kWaiting, Mode::kStarting, Mode::kBroken, Mode::kFinished, Mode::kStopping}),
    /* kWaiting */ modes_of({Mode::kLoading, Mode::kProposing, Mode::kStopping}),
    /* kProposing */ modes_of({Mode::kWaiting, Mode::kStarting, Mode::kBroken, Mode::kStopping}),
    /* kStarting */
    modes_of({Mode::kLoading, Mode::kWaiting, Mode::kUp, Mode::kBroken, Mode::kFinished, Mode::kStopping}),
    /* kUp */ modes_of({Mode::kLoading, Mode::kWaiting, Mode::kBroken, Mode::kFinished, Mode::kStopping}),
    /* kBroken */ modes_of({Mode::kLoading, Mode::kWaiting, Mode::kStopping}),
    /* kFinished */ modes_of({Mode::kLoading, Mode::kWaiting, Mode::kStopping}),
    /* kStopping */ modes_of({Mode::kLoading, Mode::kWaiting, Mode::kStopped}),
    /* kStopped */ modes_of({Mode::kLoading, Mode::kWaiting, Mode::kStopping}),
};
constexpr bool may_follow(Mode from, Mode to) {
  return from == to || (kMayFollow[static_cast<std::size_t>(from)] & modes_of({to})) != 0;
}

// A generation to be: PROPOSE is out.
struct Proposal : Roster {
  std::int64_t generation = 0;
  MonotonicTime at{}, permitted_at{}, ready_at{}, recorded_at{};
  bool recorded = false;
  std::map<int, Ready> ready;  // by slot
};

// What each mode owns.
namespace mode {

struct Loading {};
struct Resuming {};
struct Waiting {
  std::optional<Proposal> proposal;  // made while the controller still dealt with a failure
};
struct Proposing {
  Proposal proposal;
};
struct Starting {};
struct Up {};
struct Broken {
  Failure failure;
  std::optional<Proposal> proposal;  // processes that can stay answer while the controller deals with the failure
};
struct Finished {};
struct Stop {
  MonotonicTime since{};
  std::optional<Failure> failure;  // that the job stops after
  bool finished = false;           // it stops after its end
};
struct Stopping {
  Stop stop;
};
struct Stopped {
  Stop stop;
};

}  // namespace mode

class Modes {
 public:
  Mode now() const { return static_cast<Mode>(state_.index()); }
  // A generation of this job may run.
  bool active() const { return now() == Mode::kResuming || now() == Mode::kStarting || now() == Mode::kUp; }

  // Leaves what the present mode owns. False when the mode stays the same.
  template <typename State>
  bool enter(State next) {
    const Mode from = now();
    state_ = std::move(next);
    if (!may_follow(from, now())) illegal_ = Illegal{from, now(), illegal_ ? illegal_->count + 1 : 1};
    return from != now();
  }

  // Null when no PROPOSE is out.
  Proposal* proposal();
  const Proposal* proposal() const;
  // Waiting, or broken: `proposal` replaces the proposal in flight; without one, none is in flight.
  void set_proposal(std::optional<Proposal> proposal);
  std::optional<Proposal> take_proposal();
  // Broken, or stopping after a failure; otherwise null.
  const Failure* failure() const;
  // Every rank has exited with 0; nothing else but a stop has happened since.
  bool finished() const;
  // Stopping or stopped; otherwise null.
  const mode::Stop* stop() const;

  struct Illegal {
    Mode from = Mode::kLoading, to = Mode::kLoading;
    std::int64_t count = 0;  // in all
  };
  // The newest transition that kMayFollow does not have.
  const std::optional<Illegal>& illegal() const { return illegal_; }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  // In the order of Mode.
  using State = std::variant<mode::Loading, mode::Resuming, mode::Waiting, mode::Proposing, mode::Starting, mode::Up,
                             mode::Broken, mode::Finished, mode::Stopping, mode::Stopped>;
  static_assert(std::variant_size_v<State> == kModes);

  State state_;
  std::optional<Illegal> illegal_;
};

}  // namespace lockstep::rendezvous
