// The members of a generation: places in order of rank, with an index by slot. The author of the roster chose the
// order; no other code derives a rank from a slot.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "operator/rendezvous/slot_map.h"

namespace lockstep::rendezvous {

// A pod of a slot.
struct Place {
  int slot = 0;
  std::int64_t incarnation = 0;

  auto operator<=>(const Place&) const = default;
};

class Roster {
 public:
  Roster() = default;
  // The i-th place has the ranks from i * procs on. No slot comes twice.
  Roster(std::vector<Place> places, int procs) : places_(std::move(places)), procs_(procs) {
    index_.reserve(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) index_.put(places_[i].slot, static_cast<int>(i));
  }

  const std::vector<Place>& places() const { return places_; }  // in order of rank
  std::size_t size() const { return places_.size(); }
  int procs() const { return procs_; }  // ranks of each place
  int ranks() const { return static_cast<int>(places_.size()) * procs_; }

  bool has(int slot) const { return index_.contains(slot); }
  bool has(int slot, std::int64_t incarnation) const {
    const auto at = index_.find(slot);
    return at != index_.end() && places_[static_cast<std::size_t>(at->second)].incarnation == incarnation;
  }
  // Of a slot that it has.
  std::size_t index_of(int slot) const { return static_cast<std::size_t>(index_.at(slot)); }
  int first_rank(int slot) const { return index_.at(slot) * procs_; }
  // -1: there is no such rank.
  int slot_of(int rank) const {
    return rank < 0 || rank >= ranks() ? -1 : places_[static_cast<std::size_t>(rank / procs_)].slot;
  }

 private:
  std::vector<Place> places_;
  SlotMap<int> index_;  // into places_
  int procs_ = 1;
};

}  // namespace lockstep::rendezvous
