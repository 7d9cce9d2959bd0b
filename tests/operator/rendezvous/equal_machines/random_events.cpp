#include "tests/operator/rendezvous/equal_machines/random_events.h"

#include <algorithm>

namespace lockstep::equal_machines {
namespace {

// As the enums MemberPhase and Phase have them.
enum AgentPhase { kIdle, kReady, kRunning, kExited, kWarm };
constexpr int kBroken = 4, kUp = 3, kFinished = 5;

}  // namespace

RandomEvents::RandomEvents(std::uint64_t seed) : random_(seed), scale_(seed % 3 == 0 ? 1 : seed % 3 == 1 ? 4 : 10) {
  plan_.kind = chance(75) ? 0 : between(1, 2);
  plan_.slots = between(1, 4);
  plan_.spares = chance(30) ? between(1, 2) : 0;
  if (chance(50)) plan_.min_slots = between(1, plan_.slots);
  plan_.stabilization = between(0, 2);
  plan_.procs = chance(70) ? 1 : 2;
  plan_.port = chance(50) ? 0 : 29'500;
  plan_.grace = between(0, 3);
  plan_.start_timeout = chance(20) ? 0 : between(1, 20);
  plan_.progress_seconds = chance(50) ? between(1, 3) : 0;
  plan_.watch_reports = chance(50);
  tells_ = chance(80);
  agents_.resize(static_cast<std::size_t>(plan_.slots + plan_.spares));
  for (int slot = 0; slot < slots_there(); ++slot) {
    Agent& agent = agent_of(slot);
    agent.pod = ++last_pod_;
    agent.agent = ++last_agent_;
    agent.procs = plan_.procs;
  }
}

void RandomEvents::advance_clock() {
  const int which = between(1, 1000);
  int ms = between(0, 40);
  if (which > 700) ms = between(40, 250);
  if (which > 960) ms = between(250, 1'200);
  if (which > 994) ms = between(1'000, 15'000);
  if (which > 999 && rarely(4)) ms = between(15'000, 700'000);
  time_ms_ += ms;
}

Event RandomEvents::next() {
  advance_clock();
  Event event;
  if (!planned_) {
    planned_ = true;
    event = plan();
  } else if (seen_.deadline_ms <= time_ms_ && chance(85)) {
    event = {};
  } else if ((loading_ || writing_ >= 0) && chance(20)) {
    event = store_answer();
  } else if (rarely(150)) {
    event = fault();
  } else if (rarely(60)) {
    event = nonsense();
  } else if (seen_.phase == kBroken && plan_.handled < seen_.generation && chance(8)) {
    if (seen_.failed_slot >= 0 && seen_.failed_slot < slots_there() && chance(40)) replace_pod(seen_.failed_slot);
    plan_.handled = seen_.generation;
    event = plan();
  } else {
    event = agent_speaks(any_slot());
  }
  event.time_ms = time_ms_;
  event.leads = leads_;
  return event;
}

Event RandomEvents::plan() {
  plan_.members.clear();
  for (int slot = 0; slot < slots_there(); ++slot) {
    const Agent& agent = agent_of(slot);
    if (slot >= plan_.slots + plan_.spares && !agent.leaving) continue;
    plan_.members.push_back({slot, agent.incarnation, agent.pod, agent.leaving});
  }
  Event event;
  event.kind = Event::Kind::kPlan;
  event.plan = plan_;
  return event;
}

Event RandomEvents::of(Event::Kind kind, int slot) {
  const Agent& agent = agent_of(slot);
  Event event;
  event.kind = kind;
  event.slot = slot;
  event.session = agent.session;
  event.incarnation = agent.incarnation;
  event.pod = agent.pod;
  event.agent = agent.agent;
  event.phase = agent.phase;
  event.life = agent.life;
  event.generation = agent.generation;
  event.term = agent.term;
  event.promised = agent.promised;
  event.welcomed = agent.welcomed;
  event.up = agent.up;
  event.regroups = agent.regroups;
  return event;
}

Event RandomEvents::hello(int slot) {
  Agent& agent = agent_of(slot);
  agent.session = ++last_session_;
  agent.to_say.clear();
  slot_of_session_[agent.session] = slot;
  Event event = of(Event::Kind::kHello, slot);
  event.protocol = chance(80) ? 2 : 1;
  return event;
}

Event RandomEvents::exit_of(int slot, int rank) {
  Event event = of(Event::Kind::kExit, slot);
  event.rank = rank;
  event.end_ms = 1'700'000'000'000 + time_ms_ - between(0, 300);
  const int which = between(1, 10);
  if (which <= 3) {
    event.code = 80;
    event.report = chance(50) ? 1 : -1;
    event.suspect = between(-1, slots_there() * plan_.procs);
  } else if (which <= 5) {
    event.code = 137;
    event.signal = 9;
  } else if (which <= 7) {
    event.code = between(0, 2);
    event.report = chance(30) ? 0 : -1;
  } else if (which == 8) {
    event.reason = between(0, 2);
    event.code = event.reason == 0 ? 1 : 143;
  } else if (which == 9) {
    event.problem = between(0, 2);
    event.code = 127;
  }
  return event;
}

Event RandomEvents::heartbeat(int slot) {
  Agent& agent = agent_of(slot);
  if (agent.phase == kRunning && agent.up && !agent.stuck && chance(30)) {
    agent.step = std::max(agent.step, step_ - between(0, 1));
    if (chance(30)) agent.step = step_ = std::max(step_, agent.step) + 1;
    agent.holds = agent.generation;
  }
  if (!agent.stuck) ++agent.beats;
  if (agent.phase == kRunning && !agent.up && agent.generation > 0 && chance(20)) agent.up = true;
  if (agent.phase == kRunning && agent.up && rarely(40)) agent.regroups = plan_.kind == 0;
  Event event = of(Event::Kind::kHeartbeat, slot);
  if (agent.phase == kRunning && agent.up && agent.step > 0 && (agent.first_rank == 0 || rarely(4))) {
    event.step = agent.step;
  }
  if (agent.phase == kRunning && rarely(50)) checkpoint_ = std::max(checkpoint_, agent.step);
  if (checkpoint_ > 0 && chance(30))
    event.checkpoint = Event::Version{std::max<std::int64_t>(1, agent.holds), checkpoint_, 1};
  if (agent.phase == kRunning && chance(85)) {
    for (int i = 0; i < agent.procs; ++i) {
      Event::Rank rank;
      rank.said = tells_ || chance(90);
      rank.state = agent.stuck && chance(30) ? 'T' : "RSD"[between(0, 2)];
      rank.doing = agent.stuck ? between(0, 8) : 2;
      rank.generation = agent.generation;
      rank.step = agent.step;
      rank.beats = agent.beats;
      rank.sequence = agent.beats / 2;
      rank.sent = agent.beats + (chance(50) ? slot : 0);
      rank.received = agent.beats;
      if (chance(30)) rank.waits_for_bytes_of = between(-1, slots_there() - 1);
      if (chance(20)) rank.waits_for_room_at = between(-1, slots_there() - 1);
      event.ranks.push_back(rank);
    }
  }
  if (agent.phase == kRunning || agent.phase == kWarm) {
    if (chance(20)) event.identities.assign(static_cast<std::size_t>(agent.procs), agent.identity);
    if (event.identities.size() > 1 && rarely(40)) event.identities[0] = 3;
  }
  return event;
}

Event RandomEvents::ready(int slot, std::int64_t term, std::int64_t generation) {
  Agent& agent = agent_of(slot);
  agent.phase = kReady;
  Event event = of(Event::Kind::kReady, slot);
  event.term = term;
  event.generation = generation;
  event.addresses = agent.procs;
  if (agent.regroups && chance(90)) {
    for (int i = 0; i < agent.procs; ++i) {
      event.holdings.push_back({agent.holds, agent.step, agent.holds == 0 ? 0 : rarely(20) ? 2 : 1});
    }
  }
  if (chance(80)) event.identities.assign(static_cast<std::size_t>(agent.procs), agent.identity);
  if (rarely(60)) event.problem = between(1, 3);
  return event;
}

Event RandomEvents::store_answer() {
  Event event;
  event.ok = chance(93);
  if (loading_) {
    loading_ = false;
    event.kind = Event::Kind::kLoaded;
    event.record = stored_;
    event.version = version_;
    if (foreign_ && stored_ >= 0) {
      event.foreign = true;
      event.record_term = foreign_term_;
      event.generation_up = foreign_up_;
    }
    event.format = stored_ >= 0 ? format_ : 0;
    return event;
  }
  event.kind = Event::Kind::kWritten;
  const int record = writing_;
  writing_ = -1;
  if (rarely(80)) {  // somebody else was there first
    foreign_ = true;
    foreign_term_ = term_ + between(-1, 2);
    foreign_up_ = between(0, 2);
    ++version_;
    event.ok = false;
    event.conflict = true;
    return event;
  }
  if (event.ok || chance(50)) {  // written, though perhaps nobody is told
    stored_ = record;
    foreign_ = false;
    format_ = rarely(40) ? between(1, 3) : 0;
    event.version = ++version_;
  } else {
    event.conflict = chance(30);
  }
  return event;
}

Event RandomEvents::take_over() {
  Event event;
  event.kind = Event::Kind::kTakeOver;
  term_ = rarely(4) ? 1 : term_ + between(0, 2);
  event.term = term_;
  loading_ = false;
  writing_ = -1;
  planned_ = false;
  leads_ = true;
  seen_ = {};
  for (int slot = 0; slot < slots_there(); ++slot) {
    agent_of(slot).session = 0;
    agent_of(slot).to_say.clear();
  }
  slot_of_session_.clear();
  return event;
}

Event RandomEvents::agent_speaks(int slot) {
  Agent& agent = agent_of(slot);
  if (agent.session == 0) {
    if (chance(50)) return {};
    if (rarely(20)) return of(chance(50) ? Event::Kind::kSignOfLife : Event::Kind::kTokenPending, slot);
    return hello(slot);
  }
  if (!agent.to_say.empty() && chance(60)) {
    Event event = agent.to_say.front();
    agent.to_say.pop_front();
    if (event.kind == Event::Kind::kReady) return ready(slot, event.term, event.generation);
    event.session = agent.session;
    if (event.kind == Event::Kind::kHeartbeat) {
      agent.phase = event.phase;
      agent.regroups = event.regroups;
      return heartbeat(slot);
    }
    if (event.kind == Event::Kind::kUp) {
      agent.up = true;
      agent.regroups = event.regroups;
    } else if (event.kind == Event::Kind::kBroken) {
      agent.up = false;
    } else if (event.kind == Event::Kind::kExit) {
      if (rarely(6)) agent.to_say.push_back(event);  // no ACK came: it says so again
      agent.phase = kExited;
      agent.up = agent.regroups = false;
    }
    return event;
  }
  return heartbeat(slot);
}

Event RandomEvents::nonsense() {
  const int slot = any_slot();
  const auto kinds = {Event::Kind::kHello,      Event::Kind::kHeartbeat, Event::Kind::kReady,
                      Event::Kind::kUp,         Event::Kind::kBroken,    Event::Kind::kExit,
                      Event::Kind::kEchoed,     Event::Kind::kUnknown,   Event::Kind::kDisconnected,
                      Event::Kind::kTurnedAway, Event::Kind::kSignOfLife};
  Event event = of(*(kinds.begin() + between(0, static_cast<int>(kinds.size()) - 1)), slot);
  if (event.kind == Event::Kind::kHello) {
    event.session = ++last_session_;
    if (chance(50)) event.incarnation += between(-1, 1);
    if (chance(30)) event.pod += between(0, 1);
    if (chance(30)) event.welcomed = term_ + between(0, 2);
    if (rarely(20)) event.promised = std::int64_t{1} << 62;
  } else {
    event.session = static_cast<std::uint64_t>(between(0, static_cast<int>(last_session_ % 1000) + 1));
    if (chance(70)) event.session = agent_of(slot).session;
  }
  event.phase = between(0, 4);
  event.generation = std::max<std::int64_t>(0, seen_.generation + between(-1, 1));
  event.up = chance(50);
  event.regroups = chance(50);
  event.term = term_ + between(-1, 1);
  event.rank = between(-1, slots_there() * plan_.procs);
  event.suspect = between(-1, slots_there() * plan_.procs);
  event.yielded = rarely(4);
  event.stepped = chance(30);
  event.addresses = between(0, 2);
  event.problem = between(0, 3);
  event.code = chance(50) ? 0 : between(0, 128);
  event.signal = rarely(4) ? 9 : 0;
  event.reason = between(0, 2);
  event.report = between(-1, 1);
  if (chance(20)) event.step = between(0, 100);
  if (rarely(10)) event.checkpoint = Event::Version{between(0, 5), between(0, 100), 1};
  if (chance(20)) event.identities = {between(0, 2)};
  return event;
}

void RandomEvents::replace_pod(int slot) {
  Agent& old = agent_of(slot);
  Agent fresh;
  fresh.incarnation = old.incarnation + 1;
  fresh.pod = ++last_pod_;
  fresh.agent = ++last_agent_;
  fresh.procs = plan_.procs;
  fresh.identity = rarely(10) ? 2 : 1;
  slot_of_session_.erase(old.session);
  old = fresh;
}

Event RandomEvents::fault() {
  const int slot = any_slot();
  Agent& agent = agent_of(slot);
  switch (between(0, 19)) {
    case 0:
    case 1:
    case 2: {  // a process fails
      if (agent.phase != kRunning) break;
      const int rank = agent.first_rank + between(0, agent.procs - 1);
      agent.phase = kExited;
      agent.up = agent.regroups = false;
      Event event = exit_of(slot, rank);
      if (chance(30)) agent.to_say.push_back(event);
      return event;
    }
    case 3:
    case 4: {  // links break
      if (agent.phase != kRunning) break;
      Event event = of(Event::Kind::kBroken, slot);
      event.rank = agent.first_rank;
      event.suspect = between(-1, slots_there() * plan_.procs - 1);
      event.stepped = chance(30);
      return event;
    }
    case 5:
    case 6: {  // its connection breaks
      if (agent.session == 0) break;
      Event event = of(Event::Kind::kDisconnected, slot);
      slot_of_session_.erase(agent.session);
      agent.session = 0;
      return event;
    }
    case 7:  // its pod is new
      replace_pod(slot);
      return plan();
    case 8:
      return take_over();
    case 9: {  // it ends well, as do the others soon
      for (int each = 0; each < slots_there(); ++each) {
        Agent& other = agent_of(each);
        if (other.phase != kRunning || other.session == 0) continue;
        for (int i = 0; i < other.procs; ++i) {
          Event event = of(Event::Kind::kExit, each);
          event.rank = other.first_rank + i;
          other.to_say.push_back(event);
        }
      }
      break;
    }
    case 10:  // the user stops the job, or has it go on
      plan_.stop = !plan_.stop;
      plan_.goes_on = chance(50);
      return plan();
    case 11:  // or scales it
      plan_.slots = between(1, 4);
      plan_.min_slots = plan_.min_slots > 0 ? between(1, plan_.slots) : 0;
      while (slots_there() < plan_.slots + plan_.spares) {
        agents_.emplace_back();
        agents_.back().pod = ++last_pod_;
        agents_.back().agent = ++last_agent_;
        agents_.back().procs = plan_.procs;
      }
      for (int each = 0; each < slots_there(); ++each) {
        agent_of(each).leaving = each >= plan_.slots + plan_.spares && chance(80);
      }
      return plan();
    case 12:
      leads_ = !leads_ || chance(70);
      break;
    case 13:  // nothing of it moves
      hung_ = !hung_;
      for (Agent& each : agents_) each.stuck = hung_;
      break;
    case 14:
      agent.identity = between(1, 2);
      bad_link_ = chance(60) ? std::pair(slot, any_slot()) : std::pair(-1, -1);
      break;
    case 15: {  // the agent lost its processes
      agent.agent = ++last_agent_;
      agent.phase = kIdle;
      agent.generation = 0;
      agent.up = agent.regroups = false;
      return hello(slot);
    }
    case 16:  // silence of all
      time_ms_ += between(500, 5'000);
      break;
    case 17:
      plan_.handled = std::max(plan_.handled, seen_.generation);
      return plan();
    case 18:
      if (rarely(5)) plan_.procs = 3 - plan_.procs;
      for (Agent& each : agents_) each.procs = plan_.procs;
      return plan();
    default:
      agent.leaving = !agent.leaving;
      return plan();
  }
  return heartbeat(slot);
}

void RandomEvents::take(const Seen& seen) {
  seen_ = seen;
  if (seen.loads) loading_ = true;
  if (seen.writes >= 0) writing_ = seen.writes;
  for (const Order& order : seen.orders) follow(order);
  for (const std::uint64_t session : seen.closed) {
    const auto at = slot_of_session_.find(session);
    if (at == slot_of_session_.end()) continue;
    if (agent_of(at->second).session == session) agent_of(at->second).session = 0;
    slot_of_session_.erase(at);
  }
}

void RandomEvents::follow(const Order& order) {
  using Kind = Order::Kind;
  const auto at = slot_of_session_.find(order.session);
  if (at == slot_of_session_.end()) return;
  const int slot = at->second;
  Agent& agent = agent_of(slot);
  const auto later = [&](Event event) { agent.to_say.push_back(std::move(event)); };
  if (order.kind == Kind::kWelcome) {
    agent.welcomed = std::max(agent.welcomed, order.term);
  } else if (order.kind == Kind::kPropose) {
    agent.term = order.term;
    agent.promised = order.generation;
    agent.first_rank = order.rank;
    if (agent.phase == kRunning && !agent.regroups && agent.generation > 0) later(exit_of(slot, agent.first_rank));
    if (agent.phase != kRunning && agent.phase != kWarm && agent.phase != kReady) agent.regroups = false;
    Event event = of(Event::Kind::kReady, slot);
    event.generation = order.generation;
    later(event);
  } else if (order.kind == Kind::kGo) {
    agent.generation = order.generation;
    agent.first_rank = order.rank;
    agent.phase = kRunning;
    agent.up = false;
    ++agent.life;
    if (slot == bad_link_.first && slot != bad_link_.second && chance(80)) {
      Event event = of(Event::Kind::kBroken, slot);
      event.rank = order.rank;
      event.suspect = agent_of(bad_link_.second).first_rank;
      return later(event);
    }
    Event event = of(Event::Kind::kUp, slot);
    event.regroups = plan_.kind == 0;
    later(event);
  } else if (order.kind == Kind::kWarm) {
    if (rarely(10)) return;
    Event event = of(Event::Kind::kHeartbeat, slot);
    event.phase = kRunning;
    later(event);
    event.phase = kWarm;
    event.regroups = true;
    later(event);
  } else if (order.kind == Kind::kEcho) {
    if (rarely(6)) return;
    Event event = of(Event::Kind::kEchoed, slot);
    event.generation = order.generation;
    event.problem = rarely(4) ? 1 : 0;
    later(event);
  } else if (order.kind == Kind::kYield) {
    for (int i = 0; i < agent.procs; ++i) {
      Event event = of(Event::Kind::kBroken, slot);
      event.rank = agent.first_rank + i;
      event.yielded = true;
      later(event);
    }
  } else if (order.kind == Kind::kHalt || order.kind == Kind::kStop || order.kind == Kind::kDone ||
             order.kind == Kind::kAbort) {
    if (agent.phase != kRunning && agent.phase != kReady && agent.phase != kWarm) return;
    for (int i = 0; i < agent.procs; ++i) {
      Event event = of(Event::Kind::kExit, slot);
      event.rank = order.kind == Kind::kAbort ? order.rank : agent.first_rank + i;
      event.reason = order.kind == Kind::kAbort ? 0 : 1;
      event.code = event.signal = order.kind == Kind::kAbort ? 6 : 0;
      event.problem = order.kind == Kind::kAbort ? 2 : 0;
      event.end_ms = 1'700'000'000'000 + time_ms_;
      later(event);
    }
  }
}

}  // namespace lockstep::equal_machines
