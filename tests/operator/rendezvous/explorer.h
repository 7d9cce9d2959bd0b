// Looks for a way to break the membership protocol: through every choice up to a depth, or at random beyond it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/operator/rendezvous/explored_world.h"

namespace lockstep::rendezvous::explorer {

// A rule that is broken, and how to get there.
struct Found {
  std::string violation;
  std::size_t depth = 0;           // choices from where the scenario begins
  std::size_t states = 0;          // that were seen by then
  std::vector<std::string> trace;  // a line for each choice, and what the world looks like then
};

struct Outcome {
  std::size_t states = 0, transitions = 0;
  std::size_t depth = 0;                   // of the deepest state
  bool exhausted = false;                  // no state was left to go on from: every one that the faults allow was seen
  std::size_t pods = 0, coordinators = 0;  // different ones
  double seconds = 0;
  std::optional<Found> found;
  bool lost = false;  // what was found is only that a waypoint is not there
};

// Breadth first, each state once. From every state at the end, and so from every one before, a world without further
// faults must finish its training; that is tried where `progress`.
Outcome explore(const Scenario& scenario, std::size_t most_states, bool progress = true);

// `walks` of `length` choices at random, each of which must then finish its training.
Outcome walk(const Scenario& scenario, unsigned seed, int walks, int length);

std::string in_words(const Scenario& scenario, const Outcome& outcome);
std::string in_words(const Found& found);

}  // namespace lockstep::rendezvous::explorer
