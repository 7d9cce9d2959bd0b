#include "operator/placement/placer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace lockstep::placement {
namespace {

// Whether a pod stands on a node, or can go to one alone.
bool is_held(const Seat& seat) {
  return seat.state == SeatState::kPinned || seat.state == SeatState::kBound;
}

int count_bound(const Gang& gang) {
  return static_cast<int>(std::count_if(gang.seats.begin(), gang.seats.end(),
                                        [](const Seat& seat) { return seat.state == SeatState::kBound; }));
}

bool has_pods(const Gang& gang) {
  return std::any_of(gang.seats.begin(), gang.seats.end(),
                     [](const Seat& seat) { return seat.state != SeatState::kWanted; });
}

// Durations that people choose are added to times.
Duration bounded(Duration given) {
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 10);
  return std::clamp(given, Duration(), kLongest);
}

}  // namespace

Placer::Placer(ClusterView& cluster, PlacerOptions options) : cluster_(cluster), options_(options) {}

void Placer::expect(std::set<std::string> keys) {
  expected_ = std::move(keys);
}

void Placer::update(const Gang& gang, MonotonicTime now) {
  expected_.erase(gang.key);
  const auto [found, is_new] = entries_.try_emplace(gang.key);
  Entry& entry = found->second;
  if (is_new) entry.preferred_until = now + bounded(gang.constraint.preferred_left);
  // Times change nothing by themselves.
  entry.gang.held_for = gang.held_for;
  entry.gang.timeout = gang.timeout;
  entry.gang.constraint.preferred_left = gang.constraint.preferred_left;
  if (entry.gang != gang) entry.tried = 0;
  entry.gang = gang;
  entry.gang.held_for = bounded(gang.held_for);
  entry.gang.timeout = bounded(gang.timeout);
  std::set<int> slots;
  std::set<std::string> pods;
  for (const Seat& seat : gang.seats) {
    slots.insert(seat.slot);
    pods.insert(seat.pod);
    auto place = entry.places.find(seat.slot);
    if (place != entry.places.end() && place->second.pod != seat.pod) {
      drop(entry, seat.slot);
      place = entry.places.end();
    }
    if (entry.releasing || entry.leaving.contains(seat.pod)) continue;
    const bool adopt = is_held(seat) ? place == entry.places.end() || place->second.node != seat.node
                                     : seat.state == SeatState::kGated && place == entry.places.end();
    if (adopt) {
      if (place != entry.places.end()) drop(entry, seat.slot);
      place = entry.places.insert_or_assign(seat.slot, Place{seat.pod, seat.node}).first;
      const NodeId node = cluster_.tree().find(seat.node);
      if (node != kNone) cluster_.reserve(seat.pod, node, gang.shape);
    }
    // The reservation ends when the watch of all pods has come as far as what is known of the pod here.
    if (place != entry.places.end() && place->second.node == seat.node) cluster_.written(seat.pod, seat.version);
  }
  while (true) {
    const auto gone = std::find_if(entry.places.begin(), entry.places.end(),
                                   [&](const auto& place) { return !slots.contains(place.first); });
    if (gone == entry.places.end()) break;
    drop(entry, gone->first);
  }
  std::erase_if(entry.leaving, [&](const std::string& pod) { return !pods.contains(pod); });
  std::erase_if(entry.unschedulable, [&](const auto& pod) { return !pods.contains(pod.first); });
  entry.reached = gang.running ? std::min(gang.pods, std::max(entry.reached, count_bound(gang))) : 0;
}

void Placer::withdraw(const std::string& key) {
  expected_.erase(key);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  while (!found->second.places.empty()) drop(found->second, found->second.places.begin()->first);
  if (holder_ == key) end_hold();
  entries_.erase(found);
}

void Placer::capacity_changed() {
  ++room_;
}

std::vector<std::string> Placer::step(MonotonicTime now) {
  next_.reset();
  if (!expected_.empty()) return {};
  for (auto& [key, entry] : entries_) review(entry, now);
  while (serve(now)) continue;
  std::vector<std::string> changed;
  for (auto& [key, entry] : entries_) {
    Answer answer = build_answer(entry);
    if (entry.answer == answer) continue;
    entry.answer = std::move(answer);
    changed.push_back(key);
  }
  return changed;
}

const Answer* Placer::answer(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || !found->second.answer ? nullptr : &*found->second.answer;
}

void Placer::review(Entry& entry, MonotonicTime now) {
  entry.wait = {};
  if (entry.releasing) {
    if (has_pods(entry.gang)) {
      entry.wait.why = Why::kReleasing;
      return;
    }
    entry.releasing = false;
  }
  if (std::erase_if(entry.avoided, [&](const auto& node) { return node.second <= now; }) > 0) entry.tried = 0;
  for (const auto& [node, until] : entry.avoided) wake_at(until, now);
  note_refusals(entry, now);
  drop_untenable(entry);
  judge_age(entry, now);
}

void Placer::note_refusals(Entry& entry, MonotonicTime now) {
  bool fresh = false;
  for (const Seat& seat : entry.gang.seats) {
    if (entry.leaving.contains(seat.pod)) continue;
    bool refused = seat.state == SeatState::kRefused;
    if (seat.state == SeatState::kPinned && seat.unschedulable) {
      const auto deadline = entry.unschedulable.try_emplace(seat.pod, now).first->second + options_.unschedulable;
      refused = deadline <= now;
      if (!refused) wake_at(deadline, now);
    }
    if (!refused) continue;
    entry.leaving.insert(seat.pod);
    entry.avoided[seat.node] = now + options_.avoid;
    wake_at(now + options_.avoid, now);
    drop(entry, seat.slot);
    fresh = true;
  }
  if (fresh) pause(entry, now);
}

// A place costs nothing to give up while its pod is gated, or is not there.
void Placer::drop_untenable(Entry& entry) {
  const bool split = is_split(entry);
  for (const Seat& seat : entry.gang.seats) {
    const auto place = entry.places.find(seat.slot);
    if (place == entry.places.end() || is_held(seat)) continue;
    const NodeId node = cluster_.tree().find(place->second.node);
    if (split || node == kNone || !cluster_.holds(node, entry.gang.shape)) drop(entry, seat.slot);
  }
}

// An operator that dies while it rewrites annotations leaves pods of two decisions.
bool Placer::is_split(const Entry& entry) const {
  const Constraint& constraint = entry.gang.constraint;
  const Tree& tree = cluster_.tree();
  std::set<DomainId> domains;
  std::set<NodeId> nodes;
  for (const auto& [slot, place] : entry.places) {
    const NodeId node = tree.find(place.node);
    if (node == kNone) continue;
    if (!nodes.insert(node).second && constraint.exclusive) return true;
    if (constraint.required) domains.insert(tree.domain_of(node, *constraint.required));
  }
  return domains.size() > 1;
}

void Placer::judge_age(Entry& entry, MonotonicTime now) {
  const Gang& gang = entry.gang;
  auto& held = entry.held_since;
  auto& reserved = entry.reserved_since;
  if (count_bound(gang) >= gang.whole) {
    held.reset();
    reserved.reset();
    if (entry.leaving.empty()) entry.pause = {};
    return;
  }
  if (std::any_of(gang.seats.begin(), gang.seats.end(), is_held)) {
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
    wake_at(deadline, now);
  }
}

void Placer::release(Entry& entry, MonotonicTime now) {
  while (!entry.places.empty()) drop(entry, entry.places.begin()->first);
  entry.releasing = has_pods(entry.gang);
  entry.leaving.clear();
  entry.held_since.reset();
  entry.reserved_since.reset();
  entry.reached = 0;
  entry.wait = {};
  entry.wait.why = entry.releasing ? Why::kReleasing : Why::kPaused;
  pause(entry, now);
}

void Placer::pause(Entry& entry, MonotonicTime now) {
  entry.pause = std::clamp(entry.pause * 2, options_.first_pause, options_.most_pause);
  entry.paused_until = now + entry.pause;
  wake_at(entry.paused_until, now);
  entry.tried = 0;
  if (holder_ == entry.gang.key) end_hold();
}

void Placer::drop(Entry& entry, int slot) {
  const auto place = entry.places.find(slot);
  if (place == entry.places.end()) return;
  cluster_.unreserve(place->second.pod);
  entry.places.erase(place);
  ++room_;
}

Placer::Want Placer::want_of(const Entry& entry) const {
  const Gang& gang = entry.gang;
  if (entry.releasing) return {};
  const int have = static_cast<int>(entry.places.size());
  const int lacking = static_cast<int>(std::count_if(gang.seats.begin(), gang.seats.end(), [&](const Seat& seat) {
    return !entry.places.contains(seat.slot) && !entry.leaving.contains(seat.pod);
  }));
  const bool held = std::any_of(gang.seats.begin(), gang.seats.end(), is_held);
  const int reach = gang.running ? std::max(gang.whole, entry.reached) : gang.pods;
  Want want;
  if (have < gang.whole) {
    want = {gang.running || held ? Line::kRepair : Line::kStart, gang.whole - have, reach - have};
  } else if (gang.running && have < reach) {
    want = {Line::kRepair, 1, reach - have};
  } else if (have < gang.pods) {
    want = {Line::kGrowth, 1, gang.pods - have};
  } else if (lacking > 0) {
    want = {Line::kSpare, 1, lacking};
  }
  if (lacking < want.least) return {};  // until refused pods are gone
  want.most = std::min(want.most, lacking);
  return want;
}

bool Placer::serve(MonotonicTime now) {
  std::vector<std::pair<Entry*, Want>> queue;
  for (auto& [key, entry] : entries_) {
    const Want want = want_of(entry);
    if (want.line != Line::kContent) {
      queue.emplace_back(&entry, want);
    } else if (!entry.leaving.empty()) {
      entry.wait.why = Why::kReplacing;
    }
  }
  std::sort(queue.begin(), queue.end(), [](const auto& one, const auto& other) {
    const auto order = [](const auto& item) {
      const Gang& gang = item.first->gang;
      return std::make_tuple(item.second.line, -static_cast<std::int64_t>(gang.priority), gang.since);
    };
    const auto left = order(one), right = order(other);
    return left != right ? left < right : one.first->gang.key < other.first->gang.key;
  });
  const Entry* first = nullptr;  // of those that wait
  bool waiting = false, placed = false;
  for (const auto& [item, want] : queue) {
    Entry& entry = *item;
    const bool starts = want.line == Line::kRepair || want.line == Line::kStart;
    if (want.line == Line::kSpare && waiting) continue;
    if (now < entry.paused_until) {
      entry.wait = {.why = Why::kPaused, .pods = want.least, .level = {}, .hole = 0, .held = {}, .behind = {}};
      wake_at(entry.paused_until, now);
      waiting = waiting || starts;
      continue;
    }
    if (try_to_place(entry, want, first != nullptr, now)) {
      if (holder_ == entry.gang.key) end_hold();
      placed = true;
      continue;
    }
    if (!starts) continue;
    if (first == nullptr && keep_free_for(entry, now)) first = &entry;
    waiting = waiting || entry.wait.why != Why::kTooLarge;
  }
  if (first == nullptr) end_hold();
  return placed;
}

bool Placer::try_to_place(Entry& entry, const Want& want, bool outside_held, MonotonicTime now) {
  const Gang& gang = entry.gang;
  const Constraint& constraint = gang.constraint;
  Search search{.shape = gang.shape,
                .pods = want.most,
                .required = constraint.required,
                .preferred = constraint.preferred,
                .exclusive = constraint.exclusive,
                .spread = constraint.spread,
                .survivors = survivors_of(entry),
                .closed = {}};
  if (constraint.preferred)
    search.preferred = std::max(*constraint.preferred, constraint.required.value_or(kClusterLevel));
  bool strict = search.preferred.value_or(kClusterLevel) > kClusterLevel && want.line == Line::kStart;
  if (strict && entry.preferred_until <= now) strict = false;
  if (entry.strict && !strict) entry.tried = 0;
  entry.strict = strict;
  if (strict) {
    search.required = search.preferred;
    wake_at(entry.preferred_until, now);
  }
  if (entry.tried == room_) {
    entry.wait = entry.last_wait;
    return false;
  }
  if (!cluster_.ready(gang.shape)) {
    entry.wait.why = Why::kUnknown;
    return false;
  }
  for (const auto& [name, until] : entry.avoided) close(name, search);
  if (outside_held && held_) {
    const auto held = nodes_of(cluster_.tree(), *held_);
    search.closed.insert(search.closed.end(), held.begin(), held.end());
  }
  if (const auto nodes = find_nodes(search, want, gang.avoid)) {
    assign(entry, want, *nodes, now);
    return true;
  }
  const bool starts = want.line == Line::kRepair || want.line == Line::kStart;
  if (static_cast<int>(entry.places.size()) < gang.whole && give_up_rest(entry, now)) {
    const Want rest = want_of(entry);
    if (now >= entry.paused_until && rest.line != Line::kContent) return try_to_place(entry, rest, outside_held, now);
    if (entry.wait.why == Why::kNothing) entry.wait.why = Why::kReplacing;
    return false;
  }
  entry.tried = room_;
  entry.wait = {.why = Why::kNoRoom,
                .pods = want.least,
                .level = search.required,
                .hole = largest_hole(cluster_, gang.shape, search.required),
                .held = {},
                .behind = outside_held && held_ ? entries_.at(holder_).gang.name : ""};
  if (strict && search.required != constraint.required) {
    search.required = constraint.required;
    search.pods = want.least;
    if (cluster_.place(search)) entry.wait.why = Why::kPreferred;
  }
  if (starts) {
    entry.candidate = domain_to_hold(cluster_, {.shape = gang.shape,
                                                .pods = want.least,
                                                .required = constraint.required,
                                                .exclusive = constraint.exclusive,
                                                .survivors = search.survivors});
    if (!entry.candidate) entry.wait.why = Why::kTooLarge;
  }
  entry.last_wait = entry.wait;
  return false;
}

bool Placer::give_up_rest(Entry& entry, MonotonicTime now) {
  const auto& seats = entry.gang.seats;
  const auto is_rest = [&](const Seat& seat) {
    return !is_held(seat) && !entry.leaving.contains(seat.pod) &&
           (seat.state == SeatState::kGated || entry.places.contains(seat.slot));
  };
  if (std::none_of(seats.begin(), seats.end(), is_rest)) return false;
  if (!entry.gang.running && std::none_of(seats.begin(), seats.end(), is_held)) {
    release(entry, now);
    return true;
  }
  for (const Seat& seat : seats) {
    if (!is_rest(seat)) continue;
    drop(entry, seat.slot);
    if (seat.state == SeatState::kGated) entry.leaving.insert(seat.pod);
  }
  return true;
}

void Placer::close(const std::string& node, Search& search) const {
  if (const NodeId id = cluster_.tree().find(node); id != kNone) search.closed.push_back(id);
}

std::optional<Assignment> Placer::find_nodes(const Search& search, const Want& want,
                                             const std::vector<std::string>& avoid) {
  Search narrow = search;
  for (const std::string& node : avoid) close(node, narrow);
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
  entry.tried = 0;
  entry.wait = {};
  entry.approximate = assignment.approximate || (entry.approximate && !entry.places.empty());
  auto node = nodes.begin();
  int left = nodes.empty() ? 0 : node->second;
  int given = 0;
  for (const Seat& seat : entry.gang.seats) {
    if (given == want.most) break;
    if (entry.places.contains(seat.slot) || entry.leaving.contains(seat.pod)) continue;
    while (node != nodes.end() && left == 0) {
      if (++node != nodes.end()) left = node->second;
    }
    if (node == nodes.end()) break;
    cluster_.reserve(seat.pod, node->first, entry.gang.shape);
    entry.places[seat.slot] = {seat.pod, cluster_.tree().node_name(node->first)};
    --left;
    ++given;
  }
  if (!entry.held_since && !entry.reserved_since && count_bound(entry.gang) < entry.gang.whole) {
    entry.reserved_since = now;
    wake_at(now + entry.gang.timeout, now);
  }
}

bool Placer::keep_free_for(Entry& entry, MonotonicTime now) {
  if (entry.tried != room_ || !entry.candidate) return false;
  const Tree& tree = cluster_.tree();
  const bool stays = holder_ == entry.gang.key && held_ && now < held_until_ && !nodes_of(tree, *held_).empty();
  if (!stays) {
    if (holder_ != entry.gang.key || held_ != entry.candidate) ++room_;
    holder_ = entry.gang.key;
    held_ = entry.candidate;
    held_until_ = now + options_.hold;
    entry.tried = room_;
  }
  entry.wait.held = name_of(tree, *held_);
  entry.wait.behind.clear();
  entry.last_wait = entry.wait;
  wake_at(held_until_, now);
  return true;
}

void Placer::end_hold() {
  if (!held_) return;
  holder_.clear();
  held_.reset();
  ++room_;
}

std::vector<std::pair<NodeId, int>> Placer::survivors_of(const Entry& entry) const {
  std::map<NodeId, int> nodes;
  for (const auto& [slot, place] : entry.places) {
    if (const NodeId node = cluster_.tree().find(place.node); node != kNone) ++nodes[node];
  }
  return {nodes.begin(), nodes.end()};
}

std::optional<Where> Placer::where_of(Entry& entry) {
  std::map<NodeId, int> nodes;
  int pods = 0;
  for (const auto& [slot, place] : entry.places) {
    if (slot >= entry.gang.pods) break;
    const NodeId node = cluster_.tree().find(place.node);
    if (node == kNone) return std::nullopt;
    ++nodes[node];
    ++pods;
  }
  if (pods < entry.gang.pods || pods == 0) return std::nullopt;
  entry.whereabouts.update(cluster_, entry.gang.shape, {nodes.begin(), nodes.end()});
  auto where = entry.whereabouts.where();
  if (where) where->approximate = entry.approximate;
  return where;
}

Answer Placer::build_answer(Entry& entry) {
  const Gang& gang = entry.gang;
  Answer answer;
  answer.release = entry.releasing;
  answer.wait = entry.wait;
  for (const auto& [slot, place] : entry.places) answer.nodes[slot] = place.node;
  int held = 0, ready = 0;
  for (const Seat& seat : gang.seats) {
    if (entry.leaving.contains(seat.pod)) {
      answer.replace.push_back(seat.pod);
      continue;
    }
    const auto place = entry.places.find(seat.slot);
    if (is_held(seat)) ++held;
    if (place == entry.places.end()) continue;
    if (is_held(seat) || (seat.state == SeatState::kGated && seat.node == place->second.node)) ++ready;
  }
  answer.gated = gang.whole - held > 1;
  answer.open = !entry.releasing && ready >= gang.whole;
  answer.where = where_of(entry);
  return answer;
}

void Placer::wake_at(MonotonicTime time, MonotonicTime now) {
  if (time <= now) return;
  if (!next_ || time < *next_) next_ = time;
}

}  // namespace lockstep::placement
