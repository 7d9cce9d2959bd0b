// In which order the members of a generation get their ranks: depth-first over the tree of the domains that they run
// in. The members of a domain are neighbours in rank, so a ring over the ranks enters each domain once and leaves it
// once. Pure; the coordinator's state machine asks it when it proposes a generation.
#pragma once

#include <string_view>
#include <vector>

#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

// A member of the generation to come.
struct LocatedMember {
  Place place;
  // The domains of its node, outermost first, then the node. Empty: not known.
  std::vector<std::string_view> path;
};

// The places of `members` in order of rank. `before` are the places of the generation before, in order of rank; a
// member that is one of them, slot and incarnation, is a survivor.
//   * The members of each domain are neighbours. A member without a path is a domain of its own.
//   * In each domain, those inside of it that have survivors keep the order of their lowest surviving rank.
//   * New domains among them follow one another by name, new nodes and members by slot. They stand where the most ranks
//     stay as they are, and behind the others where that makes no difference. So a successor in the domain of the
//     failed member takes its rank.
//   * Without any path members follow by slot, and survivors keep the order among themselves.
// No slot comes twice in `members`. The result does not depend on their order.
std::vector<Place> rank_order(const std::vector<Place>& before, std::vector<LocatedMember> members);

}  // namespace lockstep::rendezvous
