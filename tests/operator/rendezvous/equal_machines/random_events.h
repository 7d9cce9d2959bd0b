// A world of scripted agents, a store and a controller that asks a machine of driven_machine.h all that it can be
// asked. That is mostly what agents do say, and now and then what they never would. The world follows one machine's
// orders, so a run depends on the seed and on that machine alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/operator/rendezvous/equal_machines/driven_machine.h"

namespace lockstep::equal_machines {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed);

  int scale() const { return scale_; }
  Event next();
  // What the machine answered to the newest event.
  void take(const Seen& seen);

 private:
  struct Agent {
    std::int64_t incarnation = 1;
    int pod = 0, agent = 0, life = 0, phase = 0, identity = 1;
    std::uint64_t session = 0;
    std::int64_t generation = 0, term = 0, promised = 0, welcomed = 0, step = 0, beats = 0, holds = 0;
    int first_rank = 0, procs = 1;
    bool up = false, regroups = false, leaving = false, stuck = false;
    std::deque<Event> to_say;
  };

  int between(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  bool rarely(int in) { return between(1, in) == 1; }

  void advance_clock();
  Event plan();
  Event hello(int slot);
  Event of(Event::Kind kind, int slot);
  Event exit_of(int slot, int rank);
  Event heartbeat(int slot);
  Event ready(int slot, std::int64_t term, std::int64_t generation);
  Event store_answer();
  Event take_over();
  Event agent_speaks(int slot);
  Event nonsense();
  Event fault();
  void follow(const Order& order);
  Agent& agent_of(int slot) { return agents_[static_cast<std::size_t>(slot)]; }
  int slots_there() const { return static_cast<int>(agents_.size()); }
  int any_slot() { return between(0, slots_there() - 1); }
  void replace_pod(int slot);

  std::mt19937_64 random_;
  const int scale_;
  std::int64_t time_ms_ = 1'000'000;
  bool leads_ = true;
  Event::Plan plan_;
  std::vector<Agent> agents_;  // by slot
  std::map<std::uint64_t, int> slot_of_session_;
  std::uint64_t last_session_ = 0;
  int last_pod_ = 0, last_agent_ = 0;
  std::int64_t term_ = 1, checkpoint_ = 0, step_ = 0;
  int stored_ = -1, version_ = 0;
  bool loading_ = false, foreign_ = false;
  std::int64_t foreign_term_ = 0, foreign_up_ = 0;
  int format_ = 0;
  int writing_ = -1;
  bool planned_ = false;
  bool tells_ = true;  // processes say what they do
  std::pair<int, int> bad_link_{-1, -1};
  bool hung_ = false;  // none of them gets anything done
  Seen seen_;
};

}  // namespace lockstep::equal_machines
