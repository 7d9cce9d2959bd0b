#include "tests/operator/rendezvous/equal_machines/random_member.h"

#include <algorithm>

namespace lockstep::equal_machines {

RandomMember::RandomMember(std::uint64_t seed)
    : random_(seed * 0x9e3779b97f4a7c15U + 1), procs_(between(1, 3)), program_(rarely(5) ? between(1, 2) : 0) {}

void RandomMember::advance_clock() {
  if (chance(40)) return;
  time_ms_ += rarely(150) ? between(300, 4'000) : rarely(6) ? between(50, 300) : between(0, 30);
}

MemberEvent RandomMember::of(Kind kind) {
  MemberEvent event;
  event.kind = kind;
  event.time_ms = time_ms_ - (rarely(30) ? between(0, 5) : 0);  // times of two calls may be out of order
  event.term = term_;
  event.generation = generation_;
  event.program = program_;
  event.first_rank = first_rank_;
  event.ranks = procs_;
  event.world_size = first_rank_ + procs_;
  event.rank = any_rank();
  event.step = step_;
  return event;
}

MemberEvent RandomMember::of_process(Kind kind, int rank) {
  MemberEvent event = of(kind);
  event.generation = running_;
  event.rank = rank;
  return event;
}

int RandomMember::any_rank() {
  return first_rank_ + between(0, procs_ - 1) + (rarely(50) ? between(-1, 1) : 0);
}

MemberEvent RandomMember::exit_of(int rank, int code, int signal) {
  MemberEvent event = of_process(Kind::kExit, rank);
  event.code = code;
  event.signal = signal;
  event.flag = rarely(10);
  event.number = between(0, 2);
  if (rarely(30)) event.problem = 2;
  left_behind_ = left_behind_ || event.flag;
  processes_.erase(rank);
  ++exits_[rank];
  return event;
}

MemberEvent RandomMember::fresh() {
  left_ = connected_ = welcomed_ = left_behind_ = false;
  processes_.clear();
  to_say_.clear();
  ready_.clear();
  exits_.clear();
  running_ = 0;
  MemberEvent event = of(Kind::kAgentStarts);
  event.number = ++agents_;
  return event;
}

MemberEvent RandomMember::next() {
  advance_clock();
  if (left_) return fresh();
  if (rarely(25)) return nonsense();
  if (rarely(25)) return fault();
  if (!to_say_.empty() && chance(45)) {
    MemberEvent event = to_say_.front();
    to_say_.pop_front();
    event.time_ms = time_ms_;
    if (event.kind == Kind::kExit) {
      if (processes_.count(event.rank) == 0) return of(Kind::kTick);
      return exit_of(event.rank, event.code, event.signal);
    }
    return event;
  }
  if (chance(15)) return of(Kind::kTick);
  if (!connected_) {
    if (chance(70)) return process_speaks();
    connected_ = true;
    welcomed_ = false;
    return of(Kind::kConnected);
  }
  return chance(45) ? coordinator_speaks() : process_speaks();
}

MemberEvent RandomMember::coordinator_speaks() {
  if (!welcomed_) {
    if (rarely(12)) {
      MemberEvent event = of(Kind::kRefused);
      event.flag = rarely(6);
      event.problem = 1;
      return event;
    }
    welcomed_ = true;
    MemberEvent event = of(Kind::kWelcome);
    event.number = rarely(4) ? 500 : 250;
    return event;
  }
  if (!exits_.empty() && chance(40)) {
    MemberEvent event = of_process(Kind::kAck, exits_.begin()->first);
    exits_.erase(exits_.begin());
    return event;
  }
  if (!ready_.empty() && chance(50)) {  // GO for the READY
    MemberEvent event = proposal_;
    event.kind = Kind::kGo;
    event.time_ms = time_ms_;
    event.ports = ready_;
    if (rarely(12)) event.ports.back() = 1;  // it was for an earlier READY
    ready_.clear();
    in_force_ = event.generation;
    return event;
  }
  const int which = between(1, 20);
  if (which <= 5) {
    if (generation_ > in_force_ && chance(60)) {  // said again
      MemberEvent event = proposal_;
      event.time_ms = time_ms_;
      return event;
    }
    ++generation_;
    if (rarely(3)) first_rank_ = between(0, 3);
    ready_.clear();
    proposal_ = of(Kind::kPropose);
    proposal_.number = rarely(3) ? 29'500 : 0;
    return proposal_;
  }
  if (which <= 7) {
    MemberEvent event = of(Kind::kWarm);
    event.generation = 0;
    event.flag = generation_ == 0 || chance(50);
    return event;
  }
  if (which == 8 && chance(30)) return of(rarely(2) ? Kind::kHalt : Kind::kYield);
  if (which == 9) return of_process(Kind::kYield, any_rank());
  if (which == 10 && rarely(3)) {
    MemberEvent event = of_process(Kind::kAbort, any_rank());
    event.number = between(1, 2);
    return event;
  }
  if (which == 11) {
    MemberEvent event = of(Kind::kEcho);
    event.ports = {1, 2};
    return event;
  }
  if (which == 12 && rarely(8)) {
    MemberEvent event = of(Kind::kStop);
    event.number = between(0, 2);
    event.code = between(0, 2);
    return event;
  }
  if (which == 13 && rarely(12)) return of(Kind::kDone);
  return of(Kind::kTick);
}

MemberEvent RandomMember::process_speaks() {
  if (processes_.empty()) {
    if (running_ >= 0 && (left_behind_ || rarely(3))) {
      left_behind_ = false;
      return of(Kind::kNoProcessLeft);
    }
    return of(Kind::kTick);
  }
  auto at = processes_.begin();
  std::advance(at, between(0, static_cast<int>(processes_.size()) - 1));
  auto& [rank, process] = *at;
  if (!process.introduced && program_ == 0 && chance(40)) {
    process.introduced = true;
    MemberEvent event = of_process(Kind::kUp, rank);
    event.flag = !rarely(8);
    event.number = between(0, 100);
    return event;
  }
  MemberEvent event = of_process(Kind::kActivity, rank);
  event.number = between(0, 5);
  switch (between(0, 9)) {
    case 0:
    case 1:
      event.kind = Kind::kProgress;
      event.step = ++step_;
      break;
    case 2:
      event.kind = Kind::kCheckpoint;
      event.step = std::max<std::int64_t>(0, step_ - between(0, 2));
      break;
    case 3:
      event.kind = Kind::kIdentity;
      event.number = rarely(3) ? between(0, 2) : 1;
      break;
    case 4:
      event.kind = Kind::kProcessState;
      break;
    case 5:
      if (!rarely(4)) break;
      event.kind = Kind::kBroken;
      event.problem = between(0, 1);
      event.flag = rarely(3);
      break;
    case 6:
      if (rarely(4)) event.kind = Kind::kFailure;
      break;
    default:
      event.flag = rarely(4);
  }
  return event;
}

// Most processes end, one after the other; some linger until they are killed.
void RandomMember::end_processes(int signal, int of_ten) {
  for (auto& [rank, process] : processes_) {
    if (process.ending && signal != 9) continue;
    if (signal != 9 && !chance(of_ten * 10)) continue;
    process.ending = true;
    MemberEvent event;
    event.kind = Kind::kExit;
    event.rank = rank;
    const bool orderly = signal != 9 && chance(40);
    event.code = orderly ? 0 : 128 + signal;
    event.signal = orderly ? 0 : signal;
    to_say_.push_back(event);
  }
  MemberEvent none;
  none.kind = Kind::kNoProcessLeft;
  to_say_.push_back(none);
}

MemberEvent RandomMember::fault() {
  const int rank = processes_.empty() ? any_rank() : processes_.begin()->first;
  switch (between(0, 11)) {
    case 0:
    case 1:
      if (processes_.empty()) break;
      return exit_of(rank, chance(50) ? between(0, 2) : 137, chance(50) ? 9 : 0);
    case 2:  // a process ends well, and the others soon
      if (processes_.empty()) break;
      for (const auto& [other, process] : processes_) {
        MemberEvent event;
        event.kind = Kind::kExit;
        event.rank = other;
        to_say_.push_back(event);
      }
      return exit_of(rank, 0, 0);
    case 3:
    case 4:
    case 5:
      if (!connected_) break;
      connected_ = welcomed_ = false;
      ready_.clear();
      return of(Kind::kDisconnected);
    case 6:  // another leads
      term_ += between(0, 1);
      if (!connected_) break;
      connected_ = welcomed_ = false;
      ready_.clear();
      return of(Kind::kDisconnected);
    case 7:
      if (!rarely(8)) break;
      {
        MemberEvent event = of(Kind::kTerminate);
        event.code = 143;
        event.number = between(0, 400);
        return event;
      }
    case 8:
      time_ms_ += between(300, 1'500);
      break;
    case 9:
      if (rarely(10)) return fresh();
      break;
    default:
      return of(Kind::kHalt);
  }
  return of(Kind::kTick);
}

MemberEvent RandomMember::nonsense() {
  MemberEvent event = of(static_cast<Kind>(between(static_cast<int>(Kind::kConnected), static_cast<int>(Kind::kTick))));
  // An agent has as many processes for as long as it lives, and makes as many sockets as it was asked for.
  if (event.kind == Kind::kPrepared) return of(Kind::kTick);
  event.term = term_ + between(-1, 1);
  event.generation = std::max<std::int64_t>(event.kind == Kind::kWarm ? 0 : 1, generation_ + between(-2, 1));
  if (event.kind == Kind::kWarm) event.generation = 0;
  if (chance(30)) event.generation = running_;
  if (rarely(3)) event.first_rank = between(0, 3);
  event.number = between(0, 3);
  event.code = chance(50) ? 0 : between(0, 3);
  event.signal = rarely(4) ? 9 : 0;
  event.problem = between(0, 2);
  event.flag = rarely(event.kind == Kind::kRefused ? 10 : 2);
  if ((event.kind == Kind::kStop || event.kind == Kind::kDone || event.kind == Kind::kTerminate) && !rarely(6)) {
    event.kind = Kind::kTick;
  }
  if (event.kind == Kind::kPropose) generation_ = std::max(generation_, event.generation);
  if (event.kind == Kind::kConnected) connected_ = true;
  if (event.kind == Kind::kConnected || event.kind == Kind::kDisconnected) welcomed_ = false;
  if (event.kind == Kind::kDisconnected) connected_ = false;
  if (event.kind == Kind::kWelcome) event.number = 250;
  for (int i = 0; event.kind == Kind::kGo && i < procs_; ++i) event.ports.push_back(last_port_ - i);
  if (event.kind == Kind::kExit) processes_.erase(event.rank);
  return event;
}

void RandomMember::take(const MemberSeen& seen) {
  for (const MemberOrder& order : seen.orders) follow(order);
}

void RandomMember::follow(const MemberOrder& order) {
  using Order = MemberOrder::Kind;
  const auto later = [&](MemberEvent event) { to_say_.push_back(std::move(event)); };
  switch (order.kind) {
    case Order::kReady:
      if (order.generation == proposal_.generation && order.well) ready_ = order.ports;
      break;
    case Order::kPrepare: {
      MemberEvent event = of(Kind::kPrepared);
      event.term = order.term;
      event.generation = order.generation;
      for (int i = 0; i < order.ranks; ++i) event.ports.push_back(++last_port_);
      event.problem = rarely(25) ? 1 : 0;
      event.number = 29'500;
      if (event.problem != 0 && chance(50)) event.ports.clear();
      later(event);
      break;
    }
    case Order::kStart:
      running_ = order.generation;
      if (order.only.empty()) {
        processes_.clear();
        exits_.clear();
        first_rank_ = order.first_rank;
      }
      for (int i = 0; i < order.ranks; ++i) {
        if (!order.only.empty() && std::find(order.only.begin(), order.only.end(), i) == order.only.end()) continue;
        processes_[order.first_rank + i] = {};
        MemberEvent event = of_process(Kind::kStarted, order.first_rank + i);
        if (rarely(40)) {
          event.kind = Kind::kExit;
          event.code = 127;
        }
        later(event);
      }
      break;
    case Order::kAskHoldings:
      for (const auto& [rank, process] : processes_) {
        if (rarely(12)) continue;
        MemberEvent event = of_process(Kind::kHolding, rank);
        event.term = order.term;
        event.generation = order.generation;
        event.number = step_ == 0 ? 0 : 1;
        later(event);
      }
      break;
    case Order::kRenumber: {
      std::map<int, Process> before;
      before.swap(processes_);
      for (auto& [rank, process] : before) processes_[rank - first_rank_ + order.first_rank] = process;
      first_rank_ = order.first_rank;
      break;
    }
    case Order::kContinue:
      running_ = order.generation;
      for (auto& [rank, process] : processes_) process.introduced = false;
      break;
    case Order::kAskYield:
      for (const auto& [rank, process] : processes_) {
        MemberEvent event = of_process(Kind::kBroken, rank);
        event.flag = true;
        later(event);
      }
      break;
    case Order::kDial: {
      MemberEvent event = of(Kind::kDialled);
      event.generation = order.generation;
      event.problem = rarely(4) ? 1 : 0;
      later(event);
      break;
    }
    case Order::kEnd:
      end_processes(15, 8);
      break;
    case Order::kKillAll:
      end_processes(9, 10);
      left_behind_ = false;
      break;
    case Order::kAbort:
    case Order::kKill:
      if (processes_.count(order.rank) != 0 && (order.kind == Order::kKill || chance(60))) {
        MemberEvent event;
        event.kind = Kind::kExit;
        event.rank = order.rank;
        event.code = order.kind == Order::kKill ? 137 : 134;
        event.signal = order.kind == Order::kKill ? 9 : 6;
        later(event);
      }
      break;
    case Order::kClose:
      connected_ = welcomed_ = false;
      later(of(Kind::kDisconnected));
      break;
    case Order::kExitAgent:
      left_ = true;
      break;
    default:
      break;
  }
}

}  // namespace lockstep::equal_machines
