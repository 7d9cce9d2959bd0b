// Which gang gets which nodes: the queue, the searches of one gang, and the domain that is kept free for the first that
// waits.
#include <algorithm>
#include <utility>

#include "operator/placement/placer.h"

namespace lockstep::placement {

bool Placer::serve(MonotonicTime now) {
  std::vector<Entry*> in_order;
  for (const Turn& turn : queue_) in_order.push_back(&entries_.at(turn.key));
  const Entry* first = nullptr;  // of those that wait
  bool waiting = false, placed = false;
  for (Entry* const item : in_order) {
    Entry& entry = *item;
    ++reviews_;
    if (entry.want.line == Line::kSpare && waiting) {
      say(entry, {});
      continue;
    }
    if (block_of(entry, now) == Why::kNothing && try_to_place(entry, first != nullptr, now)) {
      if (hold_ && hold_->key == entry.gang.key) end_hold();
      placed = true;
      continue;
    }
    const bool starts = entry.want.starts();
    // Asked again: it may have given up what it had.
    if (const Why why = block_of(entry, now); why != Why::kNothing) {
      Wait wait{.why = why, .pods = entry.want.least, .level = {}, .hole = 0, .held = {}, .behind = {}};
      if (starts && first == nullptr && keep_turn_of(entry, now)) {
        first = &entry;
        wait.held = name_of(cluster_.tree(), hold_->domain);
      }
      say(entry, entry.want.line == Line::kSpare ? Wait{} : wait);
      waiting = waiting || starts;
      continue;
    }
    if (!starts) continue;
    if (first == nullptr && keep_free_for(entry, now)) first = &entry;
    waiting = waiting || entry.wait.why != Why::kTooLarge;
  }
  if (first == nullptr) end_hold();
  return placed;
}

Why Placer::block_of(Entry& entry, MonotonicTime now) {
  const Trouble& trouble = entry.trouble;
  if (trouble.releasing) return Why::kReleasing;
  if (entry.want.blocked) return Why::kReplacing;
  MonotonicTime until = trouble.pause.until;
  if (entry.want.line == Line::kSpare) until = std::max(until, trouble.spare_pause.until);
  wake_at(entry, until, now);
  return now < until ? Why::kPaused : Why::kNothing;
}

Search Placer::search_by_constraint(const Entry& entry, int pods) {
  const Constraint& constraint = entry.gang.constraint;
  Search search{.shape = entry.gang.shape,
                .pods = pods,
                .required = entry.required,
                .preferred = constraint.preferred,
                .exclusive = constraint.exclusive,
                .spread = constraint.spread,
                .survivors = {},
                .closed = {}};
  if (search.preferred) search.preferred = std::max(*search.preferred, entry.required.value_or(kClusterLevel));
  return search;
}

bool Placer::try_to_place(Entry& entry, bool outside_held, MonotonicTime now) {
  const Gang& gang = entry.gang;
  const Want want = entry.want;
  Trial& trial = entry.trial;
  Search search = search_by_constraint(entry, want.most);
  const bool strict = search.preferred.value_or(kClusterLevel) > kClusterLevel && want.line == Line::kStart &&
                      now < entry.preferred_until;
  if ((trial.strict && !strict) || (trial.outside && !outside_held)) trial.room = 0;
  trial.strict = strict;
  trial.outside = outside_held;
  if (strict) {
    search.required = search.preferred;
    wake_at(entry, entry.preferred_until, now);
  }
  if (trial.room == room_) {
    say(entry, trial.wait);
    return false;
  }
  if (!cluster_.ready(gang.shape)) {
    say(entry, {.why = Why::kUnknown, .pods = want.least, .level = {}, .hole = 0, .held = {}, .behind = {}});
    return false;
  }
  search.survivors = survivors_of(entry);
  search.closed = closed_for(entry);
  if (outside_held) search.closed.insert(search.closed.end(), hold_->nodes.begin(), hold_->nodes.end());
  if (const auto found = find_nodes(search, want, gang.avoid)) {
    assign(entry, want, *found, now);
    return true;
  }
  if (static_cast<int>(entry.places.size()) < gang.whole && give_up_rest(entry, now)) {
    const bool again = entry.want.line != Line::kContent && block_of(entry, now) == Why::kNothing;
    return again && try_to_place(entry, outside_held, now);
  }
  trial.room = room_;
  trial.wait = {};
  if (want.line != Line::kSpare) {
    trial.wait = {.why = Why::kNoRoom,
                  .pods = want.least,
                  .level = search.required,
                  .hole = largest_hole(cluster_, gang.shape, search.required),
                  .held = {},
                  .behind = outside_held ? entries_.at(hold_->key).gang.name : "",
                  .avoided = static_cast<int>(entry.trouble.avoided.size())};
  }
  if (strict && search.required != entry.required) {
    search.required = entry.required;
    search.pods = want.least;
    if (cluster_.place(search)) trial.wait.why = Why::kPreferred;
  }
  if (want.starts()) {
    Need need = need_of(entry, want.least);
    trial.candidate = domain_to_hold(cluster_, need);
    if (!trial.candidate) {
      need.closed.clear();
      if (!domain_to_hold(cluster_, need)) trial.wait.why = Why::kTooLarge;
    }
  }
  say(entry, trial.wait);
  return false;
}

void Placer::reserve_successors(Entry& entry) {
  const Gang& gang = entry.gang;
  if (entry.want.line < Line::kSpare || entry.trouble.releasing) return;
  if (entry.successor_trial == room_ || !cluster_.ready(gang.shape)) return;
  for (const Successor& successor : gang.successors) {
    if (entry.successors.contains(successor.slot)) continue;
    Search search = search_by_constraint(entry, 1);
    search.survivors = survivors_of(entry);
    search.closed = closed_for(entry);
    std::vector<std::string> names = gang.avoid;
    names.push_back(successor.from);
    for (const std::string& name : names) {
      if (const NodeId node = cluster_.tree().find(name); node != kNone) search.closed.push_back(node);
    }
    if (hold_ && hold_->key != gang.key) {
      search.closed.insert(search.closed.end(), hold_->nodes.begin(), hold_->nodes.end());
    }
    const auto found = cluster_.place(search);
    if (!found) continue;
    const NodeId node = found->nodes.front().first;
    cluster_.reserve(successor.pod, node, gang.shape);
    entry.successors[successor.slot] = {successor.pod, cluster_.tree().node_name(node), true};
    touch(entry);
  }
  entry.successor_trial = room_;
}

Search Placer::search_of(const std::string& key) const {
  const Entry& entry = entries_.at(key);
  Search search{.shape = entry.gang.shape,
                .pods = std::max(entry.wait.pods, 1),
                .required = entry.wait.level,
                .preferred = {},
                .exclusive = entry.gang.constraint.exclusive,
                .spread = entry.gang.constraint.spread,
                .survivors = survivors_of(entry),
                .closed = closed_for(entry)};
  if (hold_ && !entry.wait.behind.empty()) {
    search.closed.insert(search.closed.end(), hold_->nodes.begin(), hold_->nodes.end());
  }
  return search;
}

Need Placer::need_of(const Entry& entry, int pods) const {
  return {.shape = entry.gang.shape,
          .pods = pods,
          .required = entry.required,
          .exclusive = entry.gang.constraint.exclusive,
          .survivors = survivors_of(entry),
          .closed = closed_for(entry)};
}

std::vector<NodeId> Placer::closed_for(const Entry& entry) const {
  std::vector<NodeId> closed;
  const auto close = [&](const std::string& name) {
    if (const NodeId node = cluster_.tree().find(name); node != kNone) closed.push_back(node);
  };
  for (const auto& [name, until] : entry.trouble.avoided) close(name);
  if (entry.gang.constraint.exclusive) {
    for (const auto& [slot, place] : entry.successors) close(place.node);
  }
  return closed;
}

std::optional<Assignment> Placer::find_nodes(const Search& search, const Want& want,
                                             const std::vector<std::string>& avoid) {
  Search narrow = search;
  for (const std::string& name : avoid) {
    if (const NodeId node = cluster_.tree().find(name); node != kNone) narrow.closed.push_back(node);
  }
  if (narrow.closed.size() > search.closed.size()) {
    if (auto found = most_that_fit(narrow, want)) return found;
  }
  return most_that_fit(search, want);
}

std::optional<Assignment> Placer::most_that_fit(Search search, const Want& want) {
  search.pods = want.most;
  if (auto all = cluster_.place(search)) return all;
  if (want.least == want.most) return std::nullopt;
  search.pods = want.least;
  auto best = cluster_.place(search);
  if (!best) return std::nullopt;
  // `fits` fit, `too_many` do not.
  for (int fits = want.least, too_many = want.most; too_many - fits > 1;) {
    search.pods = fits + (too_many - fits) / 2;
    if (auto more = cluster_.place(search)) {
      fits = search.pods;
      best = std::move(more);
    } else {
      too_many = search.pods;
    }
  }
  return best;
}

void Placer::assign(Entry& entry, const Want& want, const Assignment& assignment, MonotonicTime now) {
  const auto& nodes = assignment.nodes;
  entry.trial.room = 0;
  entry.approximate = assignment.approximate || (entry.approximate && !entry.places.empty());
  auto node = nodes.begin();
  int left = nodes.empty() ? 0 : node->second;
  int given = 0;
  for (const Seat& seat : entry.gang.seats) {
    if (given == want.most) break;
    if (entry.places.contains(seat.slot) || entry.trouble.leaving.contains(seat.pod)) continue;
    while (node != nodes.end() && left == 0) {
      if (++node != nodes.end()) left = node->second;
    }
    if (node == nodes.end()) break;
    cluster_.reserve(seat.pod, node->first, entry.gang.shape);
    entry.places[seat.slot] = {seat.pod, cluster_.tree().node_name(node->first), true};
    --left;
    ++given;
  }
  if (!entry.held_since && !entry.reserved_since && count_bound(entry.gang) < entry.gang.whole) {
    entry.reserved_since = now;
    wake_at(entry, now + entry.gang.timeout, now);
  }
  entry.wait = {};
  queue(entry);
}

bool Placer::give_up_rest(Entry& entry, MonotonicTime now) {
  const auto& seats = entry.gang.seats;
  auto& leaving = entry.trouble.leaving;
  const auto is_rest = [&](const Seat& seat) {
    return !is_held(seat) && !leaving.contains(seat.pod) &&
           (seat.state == SeatState::kGated || entry.places.contains(seat.slot));
  };
  if (std::none_of(seats.begin(), seats.end(), is_rest)) return false;
  if (!entry.gang.running && !holds_any(entry.gang)) {
    release(entry, now);
  } else {
    for (const Seat& seat : seats) {
      if (!is_rest(seat)) continue;
      drop(entry, seat.slot);
      if (seat.state == SeatState::kGated) leaving.insert(seat.pod);
    }
    entry.trouble.turn_until = now + options_.hold;
  }
  queue(entry);
  return true;
}

bool Placer::holds_domain(const Entry& entry, MonotonicTime now) const {
  return hold_ && hold_->key == entry.gang.key && now < hold_->until && !hold_->nodes.empty();
}

void Placer::hold(Entry& entry, const HeldDomain& domain, MonotonicTime now) {
  if (!hold_ || hold_->key != entry.gang.key || hold_->domain != domain) ++room_;
  hold_ = Hold{entry.gang.key, domain, nodes_of(cluster_.tree(), domain), now + options_.hold};
}

bool Placer::keep_free_for(Entry& entry, MonotonicTime now) {
  Trial& trial = entry.trial;
  if (trial.room != room_ || !trial.candidate) return false;
  if (!holds_domain(entry, now)) {
    hold(entry, *trial.candidate, now);
    trial.room = room_;
  }
  wake_at(entry, hold_->until, now);
  trial.wait.held = name_of(cluster_.tree(), hold_->domain);
  trial.wait.behind.clear();
  say(entry, trial.wait);
  return true;
}

bool Placer::keep_turn_of(Entry& entry, MonotonicTime now) {
  const MonotonicTime until = entry.trouble.turn_until;
  if (until <= now) return false;
  wake_at(entry, until, now);
  if (holds_domain(entry, now)) return true;
  const auto candidate = domain_to_hold(cluster_, need_of(entry, entry.want.least));
  if (candidate) hold(entry, *candidate, now);
  return candidate.has_value();
}

void Placer::end_hold() {
  if (!hold_) return;
  hold_.reset();
  ++room_;
}

std::vector<std::pair<NodeId, int>> Placer::survivors_of(const Entry& entry) const {
  std::map<NodeId, int> nodes;
  for (const auto& [slot, place] : entry.places) {
    if (const NodeId node = cluster_.tree().find(place.node); node != kNone) ++nodes[node];
  }
  return {nodes.begin(), nodes.end()};
}

}  // namespace lockstep::placement
