#include "tests/operator/rendezvous/explored_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::rendezvous::explorer {

using Kind = Choice::Kind;
using Stage = Process::Stage;

std::uint64_t World::fingerprint() const {
  const auto& [of_pods, of_links, of_coordinators, of_operations, of_plans, the_plan, the_store, the_chronicle,
               faults_left, delays_left, of_kinds] = *this;
  Fingerprint fingerprint;
  const auto each = [&](const auto& ids) {
    for (const Id id : ids) fingerprint.add(id);
  };
  each(of_pods);
  each(of_links);
  each(of_coordinators);
  each(of_operations);
  each(of_plans);
  return fingerprint.add(the_plan, the_store, the_chronicle, faults_left, delays_left, of_kinds).value();
}

// One choice on its way: the world that it changes, what it breaks, and what there is to tell.
class Explored::Step {
 public:
  Step(Explored& explored, World& world, std::string& violation, std::string* told)
      : explored_(explored), parts_(explored.parts_), world_(world), violation_(violation), told_(told) {}

  void take(const Choice& choice);

 private:
  void tell(const std::string& what) {
    if (told_ != nullptr) *told_ += what;
  }
  void violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  const Pod& pod(int slot) const { return explored_.pod(world_, slot); }
  template <typename Change>
  void change_links(int slot, Change change) {
    Links next = explored_.links(world_, slot);
    change(next);
    for (Link& link : next.list) {
      if ((explored_.scenario_.kinds & kLateMessage) == 0) link.late.clear();
    }
    std::erase_if(next.list,
                  [](const Link& link) { return !link.agent_open && !link.coordinator_open && link.late.empty(); });
    world_.links[at(slot)] = parts_.links.put(std::move(next));
  }
  template <typename Change>
  void change_chronicle(Change change) {
    Chronicle next = explored_.chronicle(world_);
    change(next);
    world_.chronicle = parts_.chronicles.put(std::move(next));
  }
  template <typename Change>
  void change_plan(Change change) {
    JobPlan next = parts_.plans[world_.plan];
    change(next);
    world_.plan = parts_.plans.put(std::move(next));
  }

  void to_pod(int slot, PodEvent event);
  void process_event(const Choice& choice, PodEvent::Kind kind, std::int64_t number = 0) {
    to_pod(choice.a, {.kind = kind, .number = number, .generation = choice.b, .state = {}});
  }
  void close_agent_side(int slot);
  void to_coordinator(int index, CoordinatorEvent event);
  void give_plan(int index);
  void cut(int slot);
  void deliver_up(int slot, int index);
  void write(int index);
  void answer(int index);
  void pass();
  void lead();
  void end_coordinator(int index);
  void all_ranks(const Choice& choice, PodEvent::Kind kind);
  void link(const Choice& choice);
  void take_state(const Choice& choice);
  void reduce(const Choice& choice);
  void exit(const Choice& choice);
  void replace(int slot);
  void end_pod(int slot);
  void fault(const Choice& choice);

  Explored& explored_;
  Parts& parts_;
  World& world_;
  std::string& violation_;
  std::string* told_;
};

void Explored::Step::to_pod(int slot, PodEvent event) {
  const Parts::PodResult& result = parts_.after(world_.pods[at(slot)], event);
  world_.pods[at(slot)] = result.pod;
  if (!result.step.did.empty()) tell("; " + result.step.did);
  const Link* open = explored_.open_link(world_, slot);
  if (!result.said.empty() && open != nullptr && open->coordinator_open) {
    change_links(slot, [&](Links& links) {
      auto& up = links.list.back().up;
      // Of two heartbeats on their way, one behind the other, the first tells nobody anything.
      const auto beats = [this](Id id) { return std::holds_alternative<Heartbeat>(parts_.from_agents[id]); };
      if (!up.empty() && beats(up.back()) && beats(result.said.front())) up.pop_back();
      up.insert(up.end(), result.said.begin(), result.said.end());
    });
    for (const Id id : result.said) {
      const AgentToCoordinator& message = parts_.from_agents[id];
      if (!std::holds_alternative<Heartbeat>(message)) tell("; says " + in_words(message));
    }
  }
  if ((result.step.closes || pod(slot).left) && open != nullptr) close_agent_side(slot);
  if (!result.step.violation.empty()) violate(result.step.violation);
  for (const Go& go : result.step.followed) {
    violate(explored_.broken_by_following(world_, slot, go));
    change_chronicle([&](Chronicle& past) {
      past.agreed.emplace(go.id.generation, fmt::format("{} {}", go.key, fmt::join(go.peers->addresses(), ",")));
      past.generation_of_key.emplace(go.key, go.id.generation);
    });
  }
}

void Explored::Step::close_agent_side(int slot) {
  change_links(slot, [this, slot](Links& links) {
    Link& link = links.list.back();
    link.agent_open = false;
    for (const Id id : link.down) {
      const CoordinatorToAgent& message = parts_.to_agents[id];
      const bool numbered = std::holds_alternative<Propose>(message) || std::holds_alternative<Go>(message) ||
                            std::holds_alternative<Halt>(message);
      if (numbered && pod(slot).there()) link.late.push_back(id);
    }
    link.down.clear();
  });
}

void Explored::Step::to_coordinator(int index, CoordinatorEvent event) {
  event.leads = index == explored_.leader(world_);
  const Parts::CoordinatorResult& result = parts_.after(world_.coordinators[at(index)], event);
  world_.coordinators[at(index)] = result.coordinator;
  if (!result.step.violation.empty()) violate(result.step.violation);
  const auto slot_of = [](SessionId session) { return static_cast<int>((session - 1) % kMostSlots); };
  for (const auto& [session, message] : result.sent) {
    tell(fmt::format("; tells slot {} {}", slot_of(session), in_words(parts_.to_agents[message])));
    change_links(slot_of(session), [&, id = message, to = session](Links& links) {
      for (Link& link : links.list) {
        if (link.session == to && link.agent_open) link.down.push_back(id);
      }
    });
  }
  for (const SessionId session : result.step.closed) {
    tell(fmt::format("; closes a connection of slot {}", slot_of(session)));
    change_links(slot_of(session), [&](Links& links) {
      for (Link& link : links.list) {
        if (link.session != session) continue;
        link.coordinator_open = false;
        link.up.clear();
      }
    });
  }
  if (result.step.loads) {
    world_.operations[at(index)] = parts_.operations.put({});
  } else if (result.step.writes) {
    const Record& next = result.step.writes->next;
    tell(fmt::format("; writes the record of g{}{}", next.generation, next.finished ? ", finished" : ""));
    world_.operations[at(index)] = parts_.operations.put({.writes = true, .write = *result.step.writes, .answer = {}});
  }
}

void Explored::Step::give_plan(int index) {
  world_.plans_given[at(index)] = world_.plan;
  CoordinatorEvent event{.kind = CoordinatorEvent::Kind::kPlan, .plan = &parts_.plans[world_.plan], .answer = {}};
  event.id = world_.plan;
  to_coordinator(index, event);
}

void Explored::Step::cut(int slot) {
  close_agent_side(slot);
  to_pod(slot, {.kind = PodEvent::Kind::kDisconnected, .state = {}});
}

void Explored::Step::deliver_up(int slot, int index) {
  const Link& link = explored_.links(world_, slot).list[at(index)];
  const Id id = link.up.front();
  const int coordinator = link.coordinator;
  CoordinatorEvent event{.session = link.session, .message = &parts_.from_agents[id], .id = id, .answer = {}};
  change_links(slot, [&](Links& links) {
    auto& up = links.list[at(index)].up;
    up.erase(up.begin());
  });
  to_coordinator(coordinator, event);
}

// The compare-and-set at the API server.
void Explored::Step::write(int index) {
  Operation operation = parts_.operations[world_.operations[at(index)]];
  operation.answered = true;
  if (operation.writes) {
    const Store& store = parts_.stores[world_.store];
    operation.answer.conflict = operation.write.version != store.version();
    tell(fmt::format("coordinator {} writes g{}: {}", index + 1, operation.write.next.generation,
                     operation.answer.conflict ? "refused, the record has changed" : "made"));
    if (!operation.answer.conflict) {
      const Record& next = operation.write.next;
      violate(explored_.broken_by_writing(world_, store.record, next));
      change_chronicle([&](Chronicle& past) {
        for (const Record::Member& member : next.members) {
          past.recorded[next.generation][member.slot] = member.incarnation;
        }
      });
      const Store written{next, store.writes + 1};
      operation.answer.version = written.version();
      world_.store = parts_.stores.put(written);
    }
  } else {
    tell(fmt::format("coordinator {} reads", index + 1));
  }
  const bool waits = explored_.coordinator(world_, index).alive;
  world_.operations[at(index)] = waits ? parts_.operations.put(std::move(operation)) : 0;
  if (waits && !parts_.operations[world_.operations[at(index)]].writes && explored_.acts(world_, index)) answer(index);
}

void Explored::Step::answer(int index) {
  const Operation operation = parts_.operations[std::exchange(world_.operations[at(index)], 0)];
  CoordinatorEvent event;
  event.kind = operation.writes ? CoordinatorEvent::Kind::kWritten : CoordinatorEvent::Kind::kLoaded;
  event.answer = operation.answer;
  if (!operation.writes) {
    // As it is now: a coordinator that acts on an older one is refused by the record all the same.
    event.answer.loaded = parts_.stores[world_.store].record;
    event.answer.version = parts_.stores[world_.store].version();
  }
  to_coordinator(index, event);
}

// What an agent says then arrives at once where nothing else is on its way: how long it takes is not of interest.
void Explored::Step::pass() {
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (explored_.has_coordinator(world_, i) && explored_.coordinator(world_, i).alive) {
      to_coordinator(i, {.kind = CoordinatorEvent::Kind::kClock, .answer = {}});
    }
  }
  for (int slot = 0; slot < explored_.scenario_.slots; ++slot) {
    if (!pod(slot).there()) continue;
    const auto clear = [&] {
      const Link* open = explored_.open_link(world_, slot);
      return open != nullptr && open->coordinator_open && open->up.empty() && explored_.acts(world_, open->coordinator);
    };
    const bool was_clear = clear();
    to_pod(slot, {.kind = PodEvent::Kind::kQuarter, .state = {}});
    if (!was_clear || explored_.open_link(world_, slot) == nullptr) continue;
    if (explored_.open_link(world_, slot)->up.size() == 1) {
      deliver_up(slot, static_cast<int>(explored_.links(world_, slot).list.size()) - 1);
    }
  }
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (explored_.acts(world_, i)) to_coordinator(i, {.kind = CoordinatorEvent::Kind::kTick, .answer = {}});
  }
}

void Explored::Step::lead() {
  world_.coordinators[1] = parts_.coordinators.put(new_coordinator(2, explored_.scenario_.second_term));
  give_plan(1);
}

void Explored::Step::end_coordinator(int index) {
  to_coordinator(index, {.kind = CoordinatorEvent::Kind::kDies, .answer = {}});
  world_.plans_given[at(index)] = 0;
  Id& operation = world_.operations[at(index)];
  if (operation != 0 && (parts_.operations[operation].answered || !parts_.operations[operation].writes)) operation = 0;
  for (int slot = 0; slot < explored_.scenario_.slots; ++slot) {
    change_links(slot, [index](Links& links) {
      for (Link& link : links.list) {
        if (link.coordinator != index) continue;
        link.coordinator_open = false;
        link.up.clear();
      }
    });
  }
}

void Explored::Step::all_ranks(const Choice& choice, PodEvent::Kind kind) {
  const std::vector<int> slots = pod(choice.a).process_in(choice.b)->slots;
  for (const int slot : slots) to_pod(slot, {.kind = kind, .generation = choice.b, .state = {}});
}

void Explored::Step::link(const Choice& choice) {
  violate(explored_.broken_by_linking(world_, *pod(choice.a).process_in(choice.b)));
  all_ranks(choice, PodEvent::Kind::kLinks);
  if (explored_.all(world_, *pod(choice.a).process_in(choice.b), Stage::kWaiting)) {
    all_ranks(choice, PodEvent::Kind::kBegins);
  }
}

void Explored::Step::take_state(const Choice& choice) {
  const Process& process = *pod(choice.a).process_in(choice.b);
  const int giver = process.slots[at(process.source.rank)];
  PodEvent event{.kind = PodEvent::Kind::kTakes, .generation = choice.b, .state = {}};
  event.state = pod(giver).process_in(choice.b)->state.value_or(History{});
  to_pod(choice.a, event);
  if (explored_.all(world_, *pod(choice.a).process_in(choice.b), Stage::kWaiting)) {
    all_ranks(choice, PodEvent::Kind::kBegins);
  }
}

void Explored::Step::reduce(const Choice& choice) {
  const Process& process = *pod(choice.a).process_in(choice.b);
  violate(explored_.broken_by_reducing(world_, process));
  change_chronicle([&](Chronicle& past) {
    past.newest = std::max(past.newest, process.generation);
    past.confirmed.insert(digest_of(*process.state));
  });
  PodEvent event{.kind = PodEvent::Kind::kReduces, .number = explored_.scenario_.steps, .state = {}};
  event.generation = choice.b;
  const std::vector<int> slots = process.slots;
  event.yields =
      std::any_of(slots.begin(), slots.end(), [&](int slot) { return pod(slot).process_in(choice.b)->yields; });
  for (const int slot : slots) to_pod(slot, event);
}

void Explored::Step::exit(const Choice& choice) {
  const History state = *pod(choice.a).process_in(choice.b)->state;
  change_chronicle([&](Chronicle& past) { past.succeeded[choice.b][choice.a] = digest_of(state); });
  process_event(choice, PodEvent::Kind::kExits);
}

void Explored::Step::replace(int slot) {
  const std::int64_t incarnation = pod(slot).incarnation + 1;
  world_.pods[at(slot)] = parts_.pods.put(new_pod(slot, incarnation));
  change_plan([&](JobPlan& plan) { plan.members[at(slot)] = explored_.expected(slot, incarnation); });
  if (const int leader = explored_.leader(world_); leader >= 0 && explored_.acts(world_, leader)) give_plan(leader);
}

void Explored::Step::end_pod(int slot) {
  to_pod(slot, {.kind = PodEvent::Kind::kDies, .state = {}});
  if (explored_.open_link(world_, slot) != nullptr) close_agent_side(slot);
}

void Explored::Step::fault(const Choice& choice) {
  --world_.faults;
  const int slot = choice.a;
  switch (choice.kind) {
    case Kind::kKilled:
      tell(fmt::format("FAULT slot {}: its process of g{} is killed", slot, choice.b));
      change_chronicle([](Chronicle& past) { ++past.deaths; });
      return process_event(choice, PodEvent::Kind::kKilled, explored_.chronicle(world_).deaths);
    case Kind::kDies:
      tell(fmt::format("FAULT slot {}: the pod dies", slot));
      return end_pod(slot);
    case Kind::kCut:
      tell(fmt::format("FAULT slot {}: its connection breaks", slot));
      return cut(slot);
    case Kind::kLosesTouch:
      tell(fmt::format("FAULT slot {}: its process of g{} loses touch with the next rank", slot, choice.b));
      return process_event(choice, PodEvent::Kind::kLosesTouch, pod(slot).process_in(choice.b)->next_rank());
    case Kind::kFreezes:
      tell(fmt::format("FAULT slot {}: freezes", slot));
      return to_pod(slot, {.kind = PodEvent::Kind::kFreezes, .state = {}});
    case Kind::kCoordinatorDies:
      tell(fmt::format("FAULT coordinator {} dies", slot + 1));
      return end_coordinator(slot);
    case Kind::kAnotherLeads:
      tell("FAULT coordinator 2 leads while coordinator 1 is alive");
      return lead();
    case Kind::kCoordinatorFreezes:
      tell(fmt::format("FAULT coordinator {} freezes", slot + 1));
      return to_coordinator(slot, {.kind = CoordinatorEvent::Kind::kFreezes, .answer = {}});
    case Kind::kWriteFails:
    case Kind::kAnswerLost: {
      tell(fmt::format("FAULT the {} of coordinator {} is lost",
                       choice.kind == Kind::kWriteFails ? "request" : "answer to the request", slot + 1));
      Operation operation = parts_.operations[world_.operations[at(slot)]];
      operation.answered = true;
      operation.answer = {.loaded = std::nullopt, .unavailable = true};
      world_.operations[at(slot)] = parts_.operations.put(std::move(operation));
      return;
    }
    default: {  // kLate
      const Id id = explored_.links(world_, slot).list[at(choice.b)].late.front();
      change_links(slot, [&](Links& links) {
        auto& late = links.list[at(choice.b)].late;
        late.erase(late.begin());
      });
      tell(fmt::format("FAULT slot {} hears, from a connection that it has left: {}", slot,
                       in_words(parts_.to_agents[id])));
      return to_pod(slot, {.message = &parts_.to_agents[id], .message_id = id, .state = {}});
    }
  }
}

void Explored::Step::take(const Choice& choice) {
  const int slot = choice.a;
  const auto process = [&](const char* what) {
    tell(fmt::format("slot {}: its process of g{} {}", slot, choice.b, what));
  };
  switch (choice.kind) {
    case Kind::kAnswers:
      process("leaves its generation and says what it holds");
      return process_event(choice, PodEvent::Kind::kAnswers);
    case Kind::kMisses: {
      const Process& here = *pod(slot).process_in(choice.b);
      std::int64_t rank = 0;
      while (here.slots[at(static_cast<int>(rank))] == slot ||
             !explored_.gone(world_, here.slots[at(static_cast<int>(rank))], choice.b)) {
        ++rank;
      }
      process("sees that a peer is gone");
      return process_event(choice, PodEvent::Kind::kMisses, rank);
    }
    case Kind::kCommits:
      process("commits a step");
      return process_event(choice, PodEvent::Kind::kCommits);
    case Kind::kYields:
      process("ends its generation, so that others can join");
      return process_event(choice, PodEvent::Kind::kYields);
    case Kind::kEnds:
      process("ends as it was told to");
      return process_event(choice, PodEvent::Kind::kEnds);
    case Kind::kTakes:
      process("takes the state that is sent");
      return take_state(choice);
    case Kind::kLinks:
      tell(fmt::format("the ranks of g{} link", choice.b));
      return link(choice);
    case Kind::kDown: {
      const Id id = explored_.open_link(world_, slot)->down.front();
      change_links(slot, [](Links& links) { links.list.back().down.erase(links.list.back().down.begin()); });
      tell(fmt::format("slot {} hears: {}", slot, in_words(parts_.to_agents[id])));
      return to_pod(slot, {.message = &parts_.to_agents[id], .message_id = id, .state = {}});
    }
    case Kind::kEndsDown:
      tell(fmt::format("slot {} sees the end of its connection", slot));
      return cut(slot);
    case Kind::kUp: {
      const Link& link = explored_.links(world_, slot).list[at(choice.b)];
      tell(fmt::format("coordinator {} hears from slot {}: {}", link.coordinator + 1, slot,
                       in_words(parts_.from_agents[link.up.front()])));
      return deliver_up(slot, choice.b);
    }
    case Kind::kEndsUp: {
      const Link link = explored_.links(world_, slot).list[at(choice.b)];
      tell(fmt::format("coordinator {} sees the end of a connection of slot {}", link.coordinator + 1, slot));
      change_links(slot, [&](Links& links) {
        links.list[at(choice.b)].coordinator_open = false;
        links.list[at(choice.b)].up.clear();
      });
      return to_coordinator(link.coordinator,
                            {.kind = CoordinatorEvent::Kind::kDisconnected, .session = link.session, .answer = {}});
    }
    case Kind::kWrite:
      tell("record: ");
      return write(slot);
    case Kind::kAnswer:
      tell(fmt::format("coordinator {} gets the answer of the record", slot + 1));
      return answer(slot);
    case Kind::kHandles: {
      const int leader = explored_.leader(world_);
      const std::int64_t broken = explored_.coordinator(world_, leader).broken;
      const int evicted = explored_.coordinator(world_, leader).evicts;
      tell(fmt::format("controller: deals with the failure of g{}", broken));
      change_plan([&](JobPlan& plan) { plan.handled_generation = broken; });
      if (evicted < 0) return give_plan(leader);
      tell(fmt::format("controller: deletes the pod of slot {} and makes another", evicted));
      end_pod(evicted);
      return replace(evicted);
    }
    case Kind::kPlan:
      tell(fmt::format("controller: coordinator {} gets the plan", slot + 1));
      return give_plan(slot);
    case Kind::kThaws:
      tell(fmt::format("slot {} thaws", slot));
      return to_pod(slot, {.kind = PodEvent::Kind::kThaws, .state = {}});
    case Kind::kCoordinatorThaws:
      tell(fmt::format("coordinator {} thaws", slot + 1));
      return to_coordinator(slot, {.kind = CoordinatorEvent::Kind::kThaws, .answer = {}});
    case Kind::kStops:
      tell(fmt::format("coordinator {} sees that it leads no more", slot + 1));
      return end_coordinator(slot);
    case Kind::kLeads:
      tell("coordinator 2 leads");
      return lead();
    case Kind::kConnects:
      tell(fmt::format("slot {} connects to coordinator {}", slot, choice.b + 1));
      change_links(slot, [&](Links& links) {
        const auto session = static_cast<SessionId>(1 + slot + kMostSlots * links.opened++);
        links.list.push_back({.session = session, .coordinator = choice.b, .up = {}, .down = {}, .late = {}});
      });
      return to_pod(slot, {.kind = PodEvent::Kind::kConnected, .state = {}});
    case Kind::kReplaced:
      tell(fmt::format("controller: replaces the pod of slot {}", slot));
      return replace(slot);
    case Kind::kReduces:
      tell(fmt::format("the last all-reduce of a step of g{} ends", choice.b));
      return reduce(choice);
    case Kind::kExits:
      process("exits with 0");
      return exit(choice);
    case Kind::kDelays:
      --world_.delays;
      [[fallthrough]];
    case Kind::kPasses:
      tell("250 ms pass");
      return pass();
    default:
      return fault(choice);
  }
}

World Explored::after(const World& world, const Choice& choice, std::string& violation, std::string* told) {
  World next = world;
  Step(*this, next, violation, told).take(choice);
  return next;
}

}  // namespace lockstep::rendezvous::explorer
