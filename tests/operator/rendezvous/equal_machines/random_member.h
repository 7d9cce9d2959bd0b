// A pod and a coordinator that ask an agent's machine all that it can be asked. That is mostly what they do say, and
// now and then what they never would. The pod follows one machine's orders, so a run depends on the seed and on that
// machine alone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "tests/operator/rendezvous/equal_machines/driven_member.h"

namespace lockstep::equal_machines {

class RandomMember {
 public:
  explicit RandomMember(std::uint64_t seed);

  MemberEvent next();
  // What the machine answered to the newest event.
  void take(const MemberSeen& seen);

 private:
  using Kind = MemberEvent::Kind;
  struct Process {
    bool introduced = false;  // it has said that it is up, and that it can be regrouped
    bool ending = false;
  };

  int between(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  bool rarely(int in) { return between(1, in) == 1; }

  void advance_clock();
  MemberEvent of(Kind kind);
  MemberEvent of_process(Kind kind, int rank);
  MemberEvent exit_of(int rank, int code, int signal);
  MemberEvent fresh();
  MemberEvent coordinator_speaks();
  MemberEvent process_speaks();
  MemberEvent fault();
  MemberEvent nonsense();
  void follow(const MemberOrder& order);
  int any_rank();
  void end_processes(int signal, int of_ten);

  std::mt19937_64 random_;
  std::int64_t time_ms_ = 1'000'000;
  int agents_ = 0;
  const int procs_;
  const int program_;  // 0: ours, which can be regrouped
  bool left_ = true;
  // The coordinator, as far as the pod is concerned.
  bool connected_ = false, welcomed_ = false;
  std::int64_t term_ = 1, generation_ = 0, in_force_ = 0;
  MemberEvent proposal_;      // the newest PROPOSE
  std::vector<int> ready_;    // the ports of its READY; empty: none was said
  std::map<int, int> exits_;  // to acknowledge: rank and how often
  // The pod.
  std::map<int, Process> processes_;  // by rank
  std::int64_t running_ = 0;          // their generation
  int first_rank_ = 1;
  bool left_behind_ = false;
  int last_port_ = 10;
  std::int64_t step_ = 0;
  std::deque<MemberEvent> to_say_;
};

}  // namespace lockstep::equal_machines
