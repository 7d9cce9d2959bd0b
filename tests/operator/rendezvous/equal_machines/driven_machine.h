// A coordinator's machine behind an interface that names none of its types. So one program can drive two versions of it
// by the same events. driven_machine.cpp is compiled once for each version (compare.sh).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::equal_machines {

struct Event {
  enum class Kind {
    kPlan,
    kHello,
    kSignOfLife,
    kTokenPending,
    kTurnedAway,
    kHeartbeat,
    kReady,
    kUp,
    kBroken,
    kExit,
    kEchoed,
    kUnknown,
    kDisconnected,
    kLoaded,
    kWritten,
    kTick,
    kTakeOver,  // another leader: a fresh machine of term `term`
  };
  struct Expected {
    int slot = 0;
    std::int64_t incarnation = 0;
    int pod = 0;
    bool leaving = false;
  };
  struct Plan {
    int kind = 0, slots = 0, spares = 0, min_slots = 0, stabilization = 0, procs = 1, port = 0;
    std::int64_t handled = 0;
    bool stop = false, goes_on = false, watch_reports = false;
    int grace = 30, start_timeout = 600, progress_seconds = 0;
    std::vector<Expected> members;
  };
  struct Version {
    std::int64_t generation = 0, step = 0;
    int digest = 0;  // 0: none
  };
  struct Rank {
    char state = 'R';
    bool said = false;
    int doing = 0;
    std::int64_t generation = 0, step = 0, beats = 0, sequence = 0, sent = 0, received = 0;
    int waits_for_bytes_of = -1, waits_for_room_at = -1;
  };

  Kind kind = Kind::kTick;
  std::int64_t time_ms = 0;  // of both clocks
  bool leads = true;
  std::uint64_t session = 0;
  Plan plan;
  // HELLO, HEARTBEAT, READY, UP
  int slot = 0, pod = 0, agent = 0, phase = 0, protocol = 2, life = 0;
  std::int64_t incarnation = 0, generation = 0, term = 0, promised = 0, welcomed = 0;
  bool up = false, regroups = false;
  std::optional<std::int64_t> step;
  std::optional<Version> checkpoint;
  std::vector<Rank> ranks;
  std::vector<int> identities;  // by rank
  int addresses = 0;
  std::vector<Version> holdings;
  int problem = 0;  // of READY, EXIT, ECHOED; 0: none
  // BROKEN, EXIT
  int rank = 0, suspect = -1, code = 0, signal = 0, reason = 0, report = -1;
  bool yielded = false, stepped = false;
  std::int64_t end_ms = 0;
  // What the store answers. A load gives the record of the write `record` (-1: there is none), made foreign or not.
  bool ok = true, conflict = false, foreign = false;
  int record = -1, version = 0, format = 0;  // format 0: as written
  std::int64_t record_term = 0, generation_up = 0;
};

// What a machine asks of the world, as far as the world of random_events.h answers.
struct Order {
  enum class Kind {
    kWelcome,
    kRefused,
    kPropose,
    kGo,
    kWarm,
    kEcho,
    kAck,
    kHalt,
    kYield,
    kAbort,
    kStop,
    kDone,
    kOther
  };
  Kind kind = Kind::kOther;
  std::uint64_t session = 0;
  std::int64_t term = 0, generation = 0;
  int rank = 0, ranks = 0;
};

struct Seen {
  std::vector<Order> orders;
  std::vector<std::uint64_t> closed;
  bool loads = false;
  int writes = -1;  // the number of the record that it writes
  std::int64_t generation = 0;
  int phase = -1;  // of the view; -1: there is none
  int failed_slot = -1;
  std::int64_t deadline_ms = 0;
  std::string trace;  // everything that the machine said and shows, in order
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual const Seen& after(const Event& event) = 0;
  // The newest view in words, for a difference.
  virtual std::string describe() const = 0;
};

// `scale`: the timers are shorter by that factor.
std::unique_ptr<Machine> machine_before(int scale);
std::unique_ptr<Machine> machine_now(int scale);

}  // namespace lockstep::equal_machines
