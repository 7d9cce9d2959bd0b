// What may happen next in an explored world.
#include <algorithm>

#include "tests/operator/rendezvous/explored_world.h"

namespace lockstep::rendezvous::explorer {
namespace {

using Kind = Choice::Kind;
using Stage = Process::Stage;

Choice choice(Kind kind, std::int64_t a = 0, std::int64_t b = 0) {
  return {kind, static_cast<std::int8_t>(a), static_cast<std::int8_t>(b)};
}

}  // namespace

int Explored::leader(const World& world) const {
  for (int i = kMostCoordinators - 1; i >= 0; --i) {
    if (has_coordinator(world, i) && coordinator(world, i).alive) return i;
  }
  return -1;
}

const Link* Explored::open_link(const World& world, int slot) const {
  const std::vector<Link>& list = links(world, slot).list;
  return list.empty() || !list.back().agent_open ? nullptr : &list.back();
}

bool Explored::gone(const World& world, int slot, std::int64_t generation) const {
  const Pod& peer = pod(world, slot);
  if (!peer.acts()) return true;
  if (peer.followed < generation) return false;  // its GO is on the way
  const Process* process = peer.process_in(generation);
  return process == nullptr || !process->takes_part(generation);
}

bool Explored::whole(const World& world, const Process& process) const {
  return std::all_of(process.slots.begin(), process.slots.end(), [&](int slot) {
    const Pod& peer = pod(world, slot);
    const Process* other = peer.acts() ? peer.process_in(process.generation) : nullptr;
    return other != nullptr && other->takes_part(process.generation) && other->key == process.key;
  });
}

bool Explored::all(const World& world, const Process& process, Stage stage) const {
  return std::all_of(process.slots.begin(), process.slots.end(),
                     [&](int slot) { return pod(world, slot).process_in(process.generation)->stage == stage; });
}

bool Explored::can_reduce(const World& world, const Process& process) const {
  if (process.stage != Stage::kTraining || !whole(world, process) || !all(world, process, Stage::kTraining)) {
    return false;
  }
  return std::none_of(process.slots.begin(), process.slots.end(), [&](int slot) {
    const Process* other = pod(world, slot).process_in(process.generation);
    return other->committing || other->yielding || other->done;
  });
}

// A rank ends its links when all have committed, or can no longer do so.
bool Explored::may_yield(const World& world, const Process& process) const {
  return std::all_of(process.slots.begin(), process.slots.end(), [&](int slot) {
    return gone(world, slot, process.generation) || !pod(world, slot).process_in(process.generation)->committing;
  });
}

void Explored::add_process_choices(const World& world, int slot, std::vector<Choice>& to) const {
  const Pod& here = pod(world, slot);
  if (!here.acts()) return;
  for (const Process& process : here.processes) {
    const std::int64_t g = process.generation;
    const bool first = !process.slots.empty() && process.slots.front() == slot;
    if (process.committing && process.takes_part(g)) to.push_back(choice(Kind::kCommits, slot, g));
    if (process.yielding && !process.committing && process.takes_part(g) && may_yield(world, process)) {
      to.push_back(choice(Kind::kYields, slot, g));
    }
    if (process.asked && !process.done) to.push_back(choice(Kind::kAnswers, slot, g));
    if (process.told_to_end) to.push_back(choice(Kind::kEnds, slot, g));
    if (!process.takes_part(g) || process.done) continue;
    if (process.stage == Stage::kTaking && whole(world, process)) to.push_back(choice(Kind::kTakes, slot, g));
    if (process.stage == Stage::kEntering && first && whole(world, process) && all(world, process, Stage::kEntering)) {
      to.push_back(choice(Kind::kLinks, slot, g));
    }
    const bool misses = !process.committing && !process.yielding && !process.asked &&
                        std::any_of(process.slots.begin(), process.slots.end(),
                                    [&](int peer) { return peer != slot && gone(world, peer, g); });
    if (misses) to.push_back(choice(Kind::kMisses, slot, g));
  }
}

void Explored::add_link_choices(const World& world, int slot, std::vector<Choice>& to) const {
  const std::vector<Link>& list = links(world, slot).list;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Link& link = list[i];
    if (link.coordinator_open && acts(world, link.coordinator)) {
      if (!link.up.empty()) to.push_back(choice(Kind::kUp, slot, static_cast<std::int64_t>(i)));
      if (!link.agent_open) to.push_back(choice(Kind::kEndsUp, slot, static_cast<std::int64_t>(i)));
    }
    if (link.agent_open && pod(world, slot).acts()) {
      if (!link.down.empty()) {
        to.push_back(choice(Kind::kDown, slot));
      } else if (!link.coordinator_open) {
        to.push_back(choice(Kind::kEndsDown, slot));
      }
    }
  }
}

void Explored::add_coordinator_choices(const World& world, std::vector<Choice>& to) const {
  const int newest = leader(world);
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (const Id operation = world.operations[at(i)]; operation != 0) {
      if (!parts_.operations[operation].answered) {
        to.push_back(choice(Kind::kWrite, i));
      } else if (acts(world, i)) {
        to.push_back(choice(Kind::kAnswer, i));
      }
    }
    if (i == newest && acts(world, i)) {
      if (coordinator(world, i).broken > parts_.plans[world.plan].handled_generation)
        to.push_back(choice(Kind::kHandles));
      if (world.plans_given[at(i)] != world.plan) to.push_back(choice(Kind::kPlan, i));
    }
  }
}

void Explored::add_idle_choices(const World& world, std::vector<Choice>& to) const {
  const int newest = leader(world);
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    if (pod(world, slot).frozen) to.push_back(choice(Kind::kThaws, slot));
  }
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (!has_coordinator(world, i) || !coordinator(world, i).alive) continue;
    if (coordinator(world, i).frozen) to.push_back(choice(Kind::kCoordinatorThaws, i));
    if (i == newest) continue;
    to.push_back(choice(Kind::kStops, i));
    if (acts(world, i) && world.plans_given[at(i)] != world.plan) to.push_back(choice(Kind::kPlan, i));
  }
  if (newest < 0 && !has_coordinator(world, 1)) to.push_back(choice(Kind::kLeads, 1));
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    const Pod& here = pod(world, slot);
    if (!here.there()) {
      const bool wanted = here.left != 0 && !parts_.stores[world.store].record.finished;
      if (wanted) to.push_back(choice(Kind::kReplaced, slot));
    } else if (here.acts() && open_link(world, slot) == nullptr) {
      for (int i = kMostCoordinators - 1; i >= 0; --i) {
        if (acts(world, i)) to.push_back(choice(Kind::kConnects, slot, i));
      }
    }
  }
}

// Training goes on at once, too, but after everything else.
void Explored::add_training_choices(const World& world, std::vector<Choice>& to) const {
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    const Pod& here = pod(world, slot);
    if (!here.acts()) continue;
    for (const Process& process : here.processes) {
      if (process.stage == Stage::kTraining && process.slots.front() == slot && can_reduce(world, process)) {
        to.push_back(choice(Kind::kReduces, slot, process.generation));
      }
      if (process.done) to.push_back(choice(Kind::kExits, slot, process.generation));
    }
  }
}

void Explored::add_faults(const World& world, std::vector<Choice>& to) const {
  const auto may = [&](Fault fault) { return (world.kinds & fault) != 0; };
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    const Pod& here = pod(world, slot);
    if (!here.there()) continue;
    if (may(kProcessDies)) {
      for (const Process& process : here.processes) to.push_back(choice(Kind::kKilled, slot, process.generation));
    }
    if (may(kPodDies)) to.push_back(choice(Kind::kDies, slot));
    if (may(kConnectionBreaks) && open_link(world, slot) != nullptr) to.push_back(choice(Kind::kCut, slot));
    if (may(kProcessLosesTouch)) {
      for (const Process& process : here.processes) {
        const bool linked = process.takes_part(process.generation) && !process.done && !process.asked;
        if (linked && !process.committing && !process.yielding && process.slots.size() > 1) {
          to.push_back(choice(Kind::kLosesTouch, slot, process.generation));
        }
      }
    }
    if (may(kAgentFreezes) && !here.frozen) to.push_back(choice(Kind::kFreezes, slot));
    if (may(kLateMessage) && here.acts()) {
      const std::vector<Link>& list = links(world, slot).list;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (!list[i].late.empty()) to.push_back(choice(Kind::kLate, slot, static_cast<std::int64_t>(i)));
      }
    }
  }
  const int newest = leader(world);
  if (newest >= 0 && !has_coordinator(world, 1)) {
    if (may(kCoordinatorDies)) to.push_back(choice(Kind::kCoordinatorDies, newest));
    if (may(kAnotherLeads)) to.push_back(choice(Kind::kAnotherLeads, 1));
  }
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (!has_coordinator(world, i) || !coordinator(world, i).alive) continue;
    if (may(kCoordinatorFreezes) && !coordinator(world, i).frozen) to.push_back(choice(Kind::kCoordinatorFreezes, i));
    if (const Id operation = world.operations[at(i)]; operation != 0) {
      const bool answered = parts_.operations[operation].answered;
      if (may(kWriteFails) && !answered) to.push_back(choice(Kind::kWriteFails, i));
      if (may(kAnswerIsLost) && answered && !parts_.operations[operation].answer.conflict) {
        to.push_back(choice(Kind::kAnswerLost, i));
      }
    }
  }
}

// Partial-order reduction. It begins once nothing more can go wrong. Then a message to an agent whose process can
// neither do nor be asked for anything is heard before all else happens. Only further messages of the same connection
// could do something to that pod. So nothing that happens meanwhile changes that message, or is changed by it. A GO or
// an end is left out, because rules look at the whole world when it is followed.
bool Explored::can_only_listen(const World& world, int slot) const {
  const Pod& here = pod(world, slot);
  const Link* open = open_link(world, slot);
  if (!here.acts() || open == nullptr || open->down.empty()) return false;
  const CoordinatorToAgent& message = parts_.to_agents[open->down.front()];
  if (!std::holds_alternative<Welcome>(message) && !std::holds_alternative<Propose>(message) &&
      !std::holds_alternative<Ack>(message) && !std::holds_alternative<Halt>(message)) {
    return false;
  }
  return std::none_of(here.processes.begin(), here.processes.end(), [](const Process& process) {
    return process.takes_part(process.generation) || process.asked || process.told_to_end || process.done;
  });
}

std::vector<Choice> Explored::choices(const World& world) const {
  std::vector<Choice> all;
  for (int slot = 0; slot < scenario_.slots && world.faults == 0 && world.delays == 0; ++slot) {
    if (can_only_listen(world, slot)) return {choice(Kind::kDown, slot)};
  }
  for (int slot = 0; slot < scenario_.slots; ++slot) add_process_choices(world, slot, all);
  for (int slot = 0; slot < scenario_.slots; ++slot) add_link_choices(world, slot, all);
  add_coordinator_choices(world, all);
  std::vector<Choice> training;
  add_training_choices(world, training);
  const bool busy = !all.empty() || !training.empty();
  add_idle_choices(world, all);
  all.insert(all.end(), training.begin(), training.end());
  if (!busy) {
    all.push_back(choice(Kind::kPasses));
  } else if (world.delays > 0) {
    all.push_back(choice(Kind::kDelays));
  }
  if (world.faults > 0) add_faults(world, all);
  return all;
}

Choice Explored::calm_choice(const World& world) const {
  std::vector<Choice> all;
  for (int slot = 0; slot < scenario_.slots && all.empty(); ++slot) add_process_choices(world, slot, all);
  for (int slot = 0; slot < scenario_.slots && all.empty(); ++slot) add_link_choices(world, slot, all);
  if (all.empty()) add_coordinator_choices(world, all);
  if (all.empty()) add_idle_choices(world, all);
  if (all.empty()) add_training_choices(world, all);
  return all.empty() ? choice(Kind::kPasses) : all.front();
}

}  // namespace lockstep::rendezvous::explorer
