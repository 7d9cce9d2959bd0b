// The terms of the objective are tested by leaving them out. Tests compile the room again so that one of these can be
// set, and expect the comparison with brute force to fail. Everything that is shipped is compiled with kNothing.
#pragma once

namespace lockstep::placement {

enum class Mutation {
  kNothing,
  kAnyLevel,          // a deeper level is worth nothing
  kFreeDomains,       // one more domain of the profile's levels costs nothing
  kFreeNodes,         // one more node costs nothing
  kNoHoles,           // breaking a large hole costs nothing
  kSquareHoles,       // holes of all levels are squared
  kForgetYoung,       // a place that was taken lately is not part of a hole
  kHolesBelowAlone,   // holes of the domains above the chosen one do not count
  kSurvivorsPay,      // a domain where a survivor is costs as much as another
  kForgetRequired,    // the required level does not bind
  kForgetPreferred,   // levels below the preferred one count as deeper
  kForgetExclude,     // excluded nodes are used
  kAllowIncomplete,   // a node without the required label is used
  kSharedByCapacity,  // subtrees of equal capacity count as equal
  kConcaveAlways,     // the closed form is used where it does not hold
  kKeepTables,        // a changed capacity does not reach the tables above the node's domain
  kBoundTooHigh,      // the lower bound of a candidate exceeds its cost
};

#ifdef LOCKSTEP_MUTATIONS  // a test program that sets one after the other
inline Mutation kMutation = Mutation::kNothing;
#else
inline constexpr Mutation kMutation = Mutation::kNothing;
#endif

}  // namespace lockstep::placement
