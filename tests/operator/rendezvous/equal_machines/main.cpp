// equal_machines coordinator|agent EVENTS [FIRST_SEED]: two versions of that machine take the same random events, and
// must answer each of them alike. Prints a line for each million events, and for the first difference its seed and what
// both show, and ends with 1.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "tests/operator/rendezvous/equal_machines/driven_machine.h"
#include "tests/operator/rendezvous/equal_machines/driven_member.h"
#include "tests/operator/rendezvous/equal_machines/random_events.h"
#include "tests/operator/rendezvous/equal_machines/random_member.h"

namespace lockstep::equal_machines {
namespace {

constexpr std::int64_t kEventsOfSeed = 2'000;

// How often a machine did what.
using Tally = std::map<std::string, std::int64_t>;

struct Coordinators {
  explicit Coordinators(std::uint64_t seed)
      : world(seed), before(machine_before(world.scale())), now(machine_now(world.scale())) {}

  static void count(const Seen& seen, Tally& tally) {
    ++tally[fmt::format("phase {}", seen.phase)];
    for (const Order& order : seen.orders) ++tally[fmt::format("order {:2}", static_cast<int>(order.kind))];
  }

  RandomEvents world;
  std::unique_ptr<Machine> before, now;
};

struct Agents {
  explicit Agents(std::uint64_t seed) : world(seed), before(member_before()), now(member_now()) {}

  static void count(const MemberSeen& seen, Tally& tally) {
    for (const MemberOrder& order : seen.orders) ++tally[fmt::format("order {:2}", static_cast<int>(order.kind))];
  }

  RandomMember world;
  std::unique_ptr<MemberMachine> before, now;
};

// False: the machines differ.
template <typename Pair>
bool compare(std::uint64_t seed, Tally& tally) {
  Pair pair(seed);
  for (std::int64_t i = 0; i < kEventsOfSeed; ++i) {
    const auto event = pair.world.next();
    const auto& old = pair.before->after(event);
    const auto& fresh = pair.now->after(event);
    Pair::count(old, tally);
    if (old.trace != fresh.trace) {
      std::cout << fmt::format(
          "seed {}, event {} (kind {}): the machines differ\nbefore: {} orders, {}\nnow:    {} orders, {}\n", seed, i,
          static_cast<int>(event.kind), old.orders.size(), pair.before->describe(), fresh.orders.size(),
          pair.now->describe());
      return false;
    }
    pair.world.take(old);
  }
  return true;
}

template <typename Pair>
int run(std::int64_t events, std::uint64_t first_seed) {
  Tally tally;
  std::cout << fmt::format("{} events from seed {}\n", events, first_seed);
  std::int64_t done = 0;
  for (std::uint64_t seed = first_seed; done < events; ++seed, done += kEventsOfSeed) {
    if (!compare<Pair>(seed, tally)) return 1;
    if ((done + kEventsOfSeed) % 1'000'000 == 0) {
      std::cout << fmt::format("{} equal, to seed {}", done + kEventsOfSeed, seed) << std::endl;
    }
  }
  std::cout << fmt::format("{} events, all equal;", done);
  for (const auto& [what, count] : tally) std::cout << fmt::format(" {}: {}", what, count);
  std::cout << "\n";
  return 0;
}

}  // namespace
}  // namespace lockstep::equal_machines

int main(int argc, char** argv) {
  using namespace lockstep::equal_machines;
  const std::string_view which = argc > 1 ? argv[1] : "";
  const std::int64_t events = argc > 2 ? std::atoll(argv[2]) : 100'000;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (which == "coordinator") return run<Coordinators>(events, seed);
  if (which == "agent") return run<Agents>(events, seed);
  std::cerr << "usage: equal_machines coordinator|agent EVENTS [FIRST_SEED]\n";
  return 2;
}
