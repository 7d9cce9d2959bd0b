// Which of the members that are there make the next generation, where there are more of them than it takes: spares.
// Pure; the coordinator's state machine asks it whenever it looks whether a generation can be formed.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::rendezvous {

// A member that is there and may take part.
struct Candidate {
  int slot = 0;
  // It was in the generation before: its processes may hold the newest state, and ending them is not for nothing.
  bool of_the_gang = false;
};

// At most `size` of them, by slot: those of the gang stay, the others fill up, and of equals the lowest slots come
// first.
std::vector<int> choose_gang(std::vector<Candidate> present, std::size_t size);

}  // namespace lockstep::rendezvous
