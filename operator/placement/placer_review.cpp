// What pods and time say about the places that a gang has: refusals, lost nodes, relabelled nodes, ages.
#include <algorithm>

#include "operator/placement/placer.h"

namespace lockstep::placement {
namespace {

// Whether one domain of the level has all nodes, with its label.
bool has_all(const Tree& tree, const std::vector<NodeId>& nodes, int level) {
  if (level == tree.levels()) {
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId node) { return node == nodes.front(); });
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId node) {
    return tree.complete(node, level) && tree.domain_of(node, level) == tree.domain_of(nodes.front(), level);
  });
}

}  // namespace

void Placer::review(Entry& entry, MonotonicTime now) {
  ++reviews_;
  forget_wake(entry);
  Trouble& trouble = entry.trouble;
  if (trouble.releasing && !has_pods(entry.gang)) trouble.releasing = false;
  if (trouble.releasing) {
    entry.required = entry.gang.constraint.required;
  } else {
    if (std::erase_if(trouble.avoided, [&](const auto& node) { return node.second <= now; }) > 0) {
      entry.trial.room = entry.successor_trial = 0;
    }
    for (const auto& [node, until] : trouble.avoided) wake_at(entry, until, now);
    note_refusals(entry, now);
    judge_level(entry);
    drop_untenable(entry);
    judge_age(entry, now);
  }
  queue(entry);
}

void Placer::note_refusals(Entry& entry, MonotonicTime now) {
  Trouble& trouble = entry.trouble;
  bool fresh = false, fresh_spare = false;
  for (const Seat& seat : entry.gang.seats) {
    bool refused = seat.state == SeatState::kRefused;
    const bool waits = seat.state == SeatState::kPinned && seat.unschedulable;
    if ((!refused && !waits) || trouble.leaving.contains(seat.pod)) continue;
    if (waits) {
      const auto deadline = trouble.unschedulable.try_emplace(seat.pod, now).first->second + options_.unschedulable;
      refused = deadline <= now;
      wake_at(entry, deadline, now);
    }
    if (!refused) continue;
    trouble.leaving.insert(seat.pod);
    trouble.avoided[seat.node] = now + options_.avoid;
    wake_at(entry, now + options_.avoid, now);
    drop(entry, seat.slot);
    (seat.slot < entry.gang.pods ? fresh : fresh_spare) = true;
  }
  if (fresh) pause(entry, trouble.pause, now);
  if (fresh_spare) pause(entry, trouble.spare_pause, now);
}

void Placer::judge_level(Entry& entry) {
  const Tree& tree = cluster_.tree();
  entry.required = entry.gang.constraint.required;
  if (!entry.required) return;
  std::vector<NodeId> held;
  for (const Seat& seat : entry.gang.seats) {
    if (!is_held(seat) || !entry.places.contains(seat.slot)) continue;
    if (const NodeId node = tree.find(seat.node); node != kNone) held.push_back(node);
  }
  if (held.empty()) return;
  while (entry.required && !has_all(tree, held, *entry.required)) {
    entry.required = *entry.required > 0 ? std::optional(*entry.required - 1) : std::nullopt;
  }
}

// A place costs nothing to give up while its pod is gated, or is not there.
void Placer::drop_untenable(Entry& entry) {
  const bool split = is_split(entry);
  for (const Seat& seat : entry.gang.seats) {
    const auto place = entry.places.find(seat.slot);
    if (place == entry.places.end() || (is_held(seat) && place->second.reserved)) continue;
    const NodeId node = cluster_.tree().find(place->second.node);
    if (!is_held(seat) && (split || node == kNone || !cluster_.holds(node, entry.gang.shape))) {
      drop(entry, seat.slot);
    } else if (!place->second.reserved) {
      reserve(entry, seat, place->second);
    }
  }
  std::vector<int> lost;
  for (const auto& [slot, place] : entry.successors) {
    const NodeId node = cluster_.tree().find(place.node);
    if (node == kNone || !cluster_.holds(node, entry.gang.shape)) lost.push_back(slot);
  }
  for (const int slot : lost) drop_successor(entry, slot);
}

// Whether places that can be given up break the constraint. An operator that dies while it rewrites annotations leaves
// pods of two decisions; a node may be relabelled.
bool Placer::is_split(const Entry& entry) const {
  const auto is_loose = [&](const Seat& seat) { return !is_held(seat) && entry.places.contains(seat.slot); };
  if (std::none_of(entry.gang.seats.begin(), entry.gang.seats.end(), is_loose)) return false;
  std::vector<NodeId> all;
  std::set<NodeId> taken;
  bool shared = false;
  for (const bool loose : {false, true}) {
    for (const Seat& seat : entry.gang.seats) {
      const auto place = entry.places.find(seat.slot);
      if (place == entry.places.end() || is_held(seat) == loose) continue;
      const NodeId node = cluster_.tree().find(place->second.node);
      if (node == kNone) continue;
      all.push_back(node);
      if (!taken.insert(node).second && loose) shared = true;
    }
  }
  if (shared && entry.gang.constraint.exclusive) return true;
  return entry.required && !has_all(cluster_.tree(), all, *entry.required);
}

void Placer::judge_age(Entry& entry, MonotonicTime now) {
  const Gang& gang = entry.gang;
  auto& held = entry.held_since;
  auto& reserved = entry.reserved_since;
  if (count_bound(gang) >= gang.whole) {
    held.reset();
    reserved.reset();
    if (entry.trouble.leaving.empty()) entry.trouble.pause.length = {};
    if (count_bound(gang) >= gang.pods + gang.spares) entry.trouble.spare_pause.length = {};
    return;
  }
  if (holds_any(gang)) {
    reserved.reset();
    const auto told = gang.running ? now : now - gang.held_for;
    held = held ? std::min(*held, told) : told;
  } else if (!entry.places.empty()) {
    held.reset();
    if (!reserved) reserved = now;
  } else {
    held.reset();
    reserved.reset();
    return;
  }
  if (!gang.may_release) return;
  const auto deadline = held.value_or(reserved.value_or(now)) + gang.timeout;
  if (deadline <= now) {
    release(entry, now);
  } else {
    wake_at(entry, deadline, now);
  }
}

void Placer::release(Entry& entry, MonotonicTime now) {
  Trouble& trouble = entry.trouble;
  while (!entry.places.empty()) drop(entry, entry.places.begin()->first);
  while (!entry.successors.empty()) drop_successor(entry, entry.successors.begin()->first);
  trouble.releasing = has_pods(entry.gang);
  trouble.leaving.clear();
  entry.held_since.reset();
  entry.reserved_since.reset();
  entry.required = entry.gang.constraint.required;
  entry.reached = 0;
  pause(entry, trouble.pause, now);
}

void Placer::pause(Entry& entry, Pause& pause, MonotonicTime now) {
  pause.length = std::clamp(pause.length * 2, options_.first_pause, options_.most_pause);
  pause.until = now + pause.length;
  wake_at(entry, pause.until, now);
  entry.trouble.turn_until = now + options_.hold;
  entry.trial.room = 0;
}

}  // namespace lockstep::placement
