// equal_machines EVENTS [FIRST_SEED]: two versions of the coordinator's machine take the same random events, and must
// answer each of them alike. Prints a line for each million events, and for the first difference its seed and what
// both show, and ends with 1.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "tests/operator/rendezvous/equal_machines/driven_machine.h"
#include "tests/operator/rendezvous/equal_machines/random_events.h"

namespace lockstep::equal_machines {
namespace {

constexpr std::int64_t kEventsOfSeed = 2'000;

struct Tally {
  std::int64_t events = 0;
  std::map<int, std::int64_t> phases;  // events after which a view had it
  std::map<Order::Kind, std::int64_t> orders;
};

// False: the machines differ.
bool compare(std::uint64_t seed, std::int64_t events, Tally& tally) {
  RandomEvents world(seed);
  const auto before = machine_before(world.scale()), now = machine_now(world.scale());
  for (std::int64_t i = 0; i < events; ++i) {
    const Event event = world.next();
    const Seen& old = before->after(event);
    const Seen& fresh = now->after(event);
    ++tally.events;
    ++tally.phases[old.phase];
    for (const Order& order : old.orders) ++tally.orders[order.kind];
    if (old.trace != fresh.trace) {
      std::cout << fmt::format(
          "seed {}, event {} (kind {}, slot {}): the machines differ\nbefore: {} orders, writes {}, {}\nnow:    {} "
          "orders, "
          "writes {}, {}\n",
          seed, i, static_cast<int>(event.kind), event.slot, old.orders.size(), old.writes, before->describe(),
          fresh.orders.size(), fresh.writes, now->describe());
      return false;
    }
    world.take(old);
  }
  return true;
}

int run(std::int64_t events, std::uint64_t first_seed) {
  Tally tally;
  std::cout << fmt::format("{} events from seed {}\n", events, first_seed);
  for (std::uint64_t seed = first_seed; tally.events < events; ++seed) {
    if (!compare(seed, kEventsOfSeed, tally)) return 1;
    if (tally.events % 1'000'000 == 0)
      std::cout << fmt::format("{} equal, to seed {}", tally.events, seed) << std::endl;
  }
  std::cout << fmt::format("{} events, all equal. Phases of the view:", tally.events);
  for (const auto& [phase, count] : tally.phases) std::cout << fmt::format(" {}: {}", phase, count);
  std::cout << "; orders:";
  for (const auto& [kind, count] : tally.orders) std::cout << fmt::format(" {}: {}", static_cast<int>(kind), count);
  std::cout << "\n";
  return 0;
}

}  // namespace
}  // namespace lockstep::equal_machines

int main(int argc, char** argv) {
  const std::int64_t events = argc > 1 ? std::atoll(argv[1]) : 100'000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  return lockstep::equal_machines::run(events, seed);
}
