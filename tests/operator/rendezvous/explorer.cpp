#include "tests/operator/rendezvous/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <unordered_set>

namespace lockstep::rendezvous::explorer {
namespace {

// Choices that a world without faults may need to finish its training.
constexpr int kMostCalm = 3000;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Makes the choices again, and writes down what happens.
std::vector<std::string> trace_of(Explored& explored, const std::vector<Choice>& choices) {
  std::vector<std::string> lines;
  World world = *explored.root();
  std::string violation;
  for (const Choice& choice : choices) {
    std::string told;
    world = explored.after(world, choice, violation, &told);
    lines.push_back(told);
  }
  lines.push_back(explored.describe(world));
  return lines;
}

Outcome no_root() {
  Outcome outcome;
  outcome.lost = true;
  outcome.found = Found{"a world without faults does not get to where the scenario begins", 0, 0, {""}};
  return outcome;
}

// The numbers of states by their fingerprints: open addressing, because there are millions.
class Known {
 public:
  // The number that this fingerprint has; `next` where it is new.
  std::uint32_t find_or_add(std::uint64_t fingerprint, std::uint32_t next) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slot_of(fingerprint);
    if (slot.number == kNone) {
      slot = {fingerprint, next};
      ++count_;
    }
    return slot.number;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    std::uint64_t fingerprint = 0;
    std::uint32_t number = kNone;
  };

  Slot& slot_of(std::uint64_t fingerprint) {
    std::size_t at = fingerprint & (slots_.size() - 1);
    while (slots_[at].number != kNone && slots_[at].fingerprint != fingerprint) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(1024, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number != kNone) slot_of(slot.fingerprint) = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

// Runs worlds without further faults to the end of their training.
class Calm {
 public:
  explicit Calm(Explored& explored) : explored_(explored) {}

  // Empty when it finishes; `made` are the choices until then.
  std::string run(World world, std::vector<Choice>& made) {
    world.faults = world.delays = 0;
    std::vector<std::uint64_t> passed;
    std::string violation;
    for (int i = 0; i < kMostCalm; ++i) {
      passed.push_back(world.fingerprint());
      if (explored_.finished(world) || good_.count(passed.back()) != 0) {
        good_.insert(passed.begin(), passed.end());
        return "";
      }
      const Choice choice = explored_.calm_choice(world);
      made.push_back(choice);
      world = explored_.after(world, choice, violation);
      if (!violation.empty()) return violation;
    }
    return fmt::format("no progress: training is not over {} choices after the last fault", kMostCalm);
  }

 private:
  Explored& explored_;
  std::unordered_set<std::uint64_t> good_;
};

class BreadthFirst {
 public:
  explicit BreadthFirst(const Scenario& scenario) : explored_(scenario), calm_(explored_) {}

  Outcome run(std::size_t most_states, bool progress) {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<World> first = explored_.root();
    if (!first) return no_root();
    World root = *first;
    for (const Waypoint& waypoint : explored_.scenario().by) {
      if (!go_to(waypoint, root, most_states)) return std::move(outcome_);
    }
    outcome_.exhausted = true;
    add(root, 0, {});
    std::size_t level_end = 1;
    for (std::size_t i = 0; i < nodes_.size() && !outcome_.found; ++i) {
      if (i == level_end) {
        ++outcome_.depth;
        level_end = nodes_.size();
      }
      const bool deepest = outcome_.depth >= static_cast<std::size_t>(explored_.scenario().depth);
      if (explored_.finished(nodes_[i].world)) continue;
      // Coordinators take most of the memory: some 10 KB each, and those on the way to the end are not counted yet.
      const bool room = nodes_.size() < most_states && explored_.parts().coordinators.size() < most_states / 12;
      if (!deepest && room) {
        expand(i);
      } else {
        outcome_.exhausted = false;
        if (progress) finish(i);
      }
    }
    if (progress && !outcome_.found) look_for_circles();
    outcome_.states = nodes_.size();
    outcome_.pods = explored_.parts().pods.size();
    outcome_.coordinators = explored_.parts().coordinators.size();
    outcome_.seconds = seconds_since(start);
    return std::move(outcome_);
  }

 private:
  struct Node {
    World world;
    std::uint32_t parent = 0;
    std::uint32_t calm = 0;  // where it goes on without a fault; 0: at the end, which Calm has seen
    Choice choice;
  };

  // Goes on from the nearest state where `waypoint` is reached. False: there is none, or something was found before.
  bool go_to(const Waypoint& waypoint, World& root, std::size_t most_states) {
    const Scenario& scenario = explored_.scenario();
    root.faults = waypoint.faults;
    root.kinds = waypoint.kinds;
    root.delays = waypoint.delays;
    add(root, 0, {});
    for (std::size_t i = 0; i < nodes_.size() && nodes_.size() < most_states; ++i) {
      if (waypoint.reached(explored_, nodes_[i].world)) {
        root = nodes_[i].world;
        root.faults = scenario.faults;
        root.kinds = scenario.kinds;
        root.delays = scenario.delays;
        const std::vector<Choice> further = way_to(i);
        way_.insert(way_.end(), further.begin(), further.end());
        on_the_way_ += nodes_.size();
        nodes_.clear();
        known_ = {};
        return true;
      }
      expand(i);
      if (outcome_.found) return false;
    }
    outcome_.lost = true;
    outcome_.found =
        Found{"the way to the place where " + waypoint.name + " is not found", 0, nodes_.size() + on_the_way_, {""}};
    return false;
  }

  std::vector<Choice> way_to(std::size_t i) const {
    std::vector<Choice> choices;
    for (std::size_t at = i; at != 0; at = nodes_[at].parent) choices.push_back(nodes_[at].choice);
    std::reverse(choices.begin(), choices.end());
    return choices;
  }

  std::uint32_t add(const World& world, std::size_t parent, const Choice& choice) {
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t number = known_.find_or_add(world.fingerprint(), next);
    if (number == next) nodes_.push_back({world, static_cast<std::uint32_t>(parent), 0, choice});
    return number;
  }

  void expand(std::size_t i) {
    const World world = nodes_[i].world;
    for (const Choice& choice : explored_.choices(world)) {
      std::string violation;
      const World next = explored_.after(world, choice, violation);
      ++outcome_.transitions;
      if (!violation.empty()) return note(i, violation, {choice});
      const std::uint32_t number = add(next, i, choice);
      if (nodes_[i].calm == 0) nodes_[i].calm = number;  // the first is the calm one
    }
  }

  void finish(std::size_t i) {
    std::vector<Choice> made;
    const std::string violation = calm_.run(nodes_[i].world, made);
    if (!violation.empty()) note(i, violation, made);
  }

  // Without faults every state must come to an end: one that Calm has seen, or a finished one.
  void look_for_circles() {
    enum : char { kUnknown, kOnTheWay, kGood };
    std::vector<char> is(nodes_.size(), kUnknown);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<std::size_t> way;
      std::size_t at = i;
      while (is[at] == kUnknown && nodes_[at].calm != 0) {
        is[at] = kOnTheWay;
        way.push_back(at);
        at = nodes_[at].calm;
      }
      if (is[at] == kOnTheWay) return note(at, "no progress: without faults the world goes round in a circle", {});
      is[at] = kGood;
      for (const std::size_t passed : way) is[passed] = kGood;
    }
  }

  void note(std::size_t i, const std::string& violation, const std::vector<Choice>& last) {
    std::vector<Choice> choices = way_;
    const std::vector<Choice> further = way_to(i);
    choices.insert(choices.end(), further.begin(), further.end());
    const std::size_t depth = choices.size() + (last.empty() ? 0 : 1);
    choices.insert(choices.end(), last.begin(), last.end());
    outcome_.found = Found{violation, depth, nodes_.size() + on_the_way_, trace_of(explored_, choices)};
  }

  Explored explored_;
  Calm calm_;
  Known known_;
  std::vector<Choice> way_;     // to the last waypoint
  std::size_t on_the_way_ = 0;  // states
  std::vector<Node> nodes_;
  Outcome outcome_;
};

}  // namespace

Outcome explore(const Scenario& scenario, std::size_t most_states, bool progress) {
  return BreadthFirst(scenario).run(most_states, progress);
}

Outcome walk(const Scenario& scenario, unsigned seed, int walks, int length) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  constexpr int kWalksOfOne = 50;  // that share what is known of the parts, which grows
  std::optional<Explored> explored;
  std::optional<Calm> to_the_end;
  for (int i = 0; i < walks && !outcome.found; ++i) {
    std::mt19937 random(seed + static_cast<unsigned>(i));
    if (i % kWalksOfOne == 0) to_the_end.emplace(explored.emplace(scenario));
    const std::optional<World> root = explored->root();
    if (!root) return no_root();
    World world = *root;
    std::vector<Choice> made;
    std::string violation;
    while (static_cast<int>(made.size()) < length && violation.empty() && !explored->finished(world)) {
      const std::vector<Choice> all = explored->choices(world);
      const auto split = std::partition_point(all.begin(), all.end(), calm);
      const bool fault = split != all.end() && random() % 100 < 6;
      const auto first = fault ? split : all.begin();
      const auto count = static_cast<unsigned>(fault ? all.end() - split : split - all.begin());
      made.push_back(first[random() % count]);
      world = explored->after(world, made.back(), violation);
      ++outcome.transitions;
    }
    outcome.depth = std::max(outcome.depth, made.size());
    ++outcome.states;
    const std::size_t depth = made.size();
    if (violation.empty()) violation = to_the_end->run(world, made);
    if (!violation.empty()) {
      outcome.found = Found{fmt::format("LOCKSTEP_SEED={}: {}", seed + static_cast<unsigned>(i), violation), depth,
                            outcome.transitions, trace_of(*explored, made)};
    }
  }
  outcome.seconds = seconds_since(start);
  return outcome;
}

std::string in_words(const Scenario& scenario, const Outcome& outcome) {
  return fmt::format(
      "{}: {} states, {} transitions to depth {}{}, {:.1f} s, {:.0f} transitions/s, {} pods, {} coordinators",
      scenario.name, outcome.states, outcome.transitions, outcome.depth, outcome.exhausted ? " (all there are)" : "",
      outcome.seconds, static_cast<double>(outcome.transitions) / outcome.seconds, outcome.pods, outcome.coordinators);
}

std::string in_words(const Found& found) {
  std::string words =
      fmt::format("found at depth {} after {} states: {}\n", found.depth, found.states, found.violation);
  for (std::size_t i = 0; i + 1 < found.trace.size(); ++i) words += fmt::format("{:4}  {}\n", i + 1, found.trace[i]);
  return words + found.trace.back();
}

}  // namespace lockstep::rendezvous::explorer
