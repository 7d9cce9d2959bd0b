// A random history of a cluster: nodes come, go and move, capacities change, and decisions are made with tables that
// are kept and with none.
#pragma once

#include <random>
#include <string>

namespace lockstep::placement {

// Where the two decisions first differed, in words; "" where they were equal throughout.
std::string history_difference(std::mt19937_64& random, int events);

}  // namespace lockstep::placement
