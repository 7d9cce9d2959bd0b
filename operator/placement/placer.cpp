// What comes in and goes out of the placer, and when it looks at which gang.
#include "operator/placement/placer.h"

#include <algorithm>
#include <utility>

namespace lockstep::placement {
namespace {

// Durations that people choose are added to times.
Duration bounded(Duration given) {
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 10);
  return std::clamp(given, Duration(), kLongest);
}

bool by_slot(const Seat& one, const Seat& other) {
  return one.slot < other.slot;
}

}  // namespace

Placer::Placer(ClusterView& cluster, PlacerOptions options) : cluster_(cluster), options_(options) {}

void Placer::expect(std::set<std::string> keys) {
  expected_ = std::move(keys);
}

void Placer::update(const Gang& gang, MonotonicTime now) {
  expected_.erase(gang.key);
  dirty_.insert(gang.key);
  const auto [found, is_new] = entries_.try_emplace(gang.key);
  Entry& entry = found->second;
  if (is_new) entry.preferred_until = now + bounded(gang.constraint.preferred_left);
  // Times change nothing by themselves.
  entry.gang.held_for = gang.held_for;
  entry.gang.timeout = gang.timeout;
  entry.gang.constraint.preferred_left = gang.constraint.preferred_left;
  if (entry.gang != gang) entry.trial.room = entry.successor_trial = 0;
  entry.gang = gang;
  entry.gang.held_for = bounded(gang.held_for);
  entry.gang.timeout = bounded(gang.timeout);
  // It has begun to train before it was released: it stays.
  if (!gang.may_release) entry.trouble.releasing = false;
  // A gang that has shrunk wants nothing for the slots that it had.
  auto& seats = entry.gang.seats;
  std::erase_if(seats, [&](const Seat& seat) { return seat.slot >= gang.pods + gang.spares; });
  if (!std::is_sorted(seats.begin(), seats.end(), by_slot)) std::sort(seats.begin(), seats.end(), by_slot);
  std::vector<int> gone;
  auto next = seats.begin();
  for (const auto& [slot, place] : entry.places) {
    while (next != seats.end() && next->slot < slot) ++next;
    if (next == seats.end() || next->slot != slot || next->pod != place.pod) gone.push_back(slot);
  }
  for (const int slot : gone) drop(entry, slot);
  hand_over(entry);
  Trouble& trouble = entry.trouble;
  if (!trouble.leaving.empty() || !trouble.unschedulable.empty()) {
    // That may still have to go. One that was replaced comes back under its name; one that was bound meanwhile stays.
    std::set<std::string> pods;
    for (const Seat& seat : seats) {
      if (seat.state != SeatState::kWanted && seat.state != SeatState::kBound) pods.insert(seat.pod);
    }
    std::erase_if(trouble.leaving, [&](const std::string& pod) { return !pods.contains(pod); });
    std::erase_if(trouble.unschedulable, [&](const auto& pod) { return !pods.contains(pod.first); });
  }
  for (const Seat& seat : seats) adopt(entry, seat);
  for (const Seat& seat : entry.gang.ending) count_as_open(entry, seat);
  entry.reached = gang.running ? std::min(gang.pods, std::max(entry.reached, count_bound(entry.gang))) : 0;
}

void Placer::adopt(Entry& entry, const Seat& seat) {
  if (entry.trouble.releasing || entry.trouble.leaving.contains(seat.pod)) return;
  auto place = entry.places.find(seat.slot);
  const bool known = place != entry.places.end();
  if (is_held(seat) ? !known || place->second.node != seat.node : seat.state == SeatState::kGated && !known) {
    if (known) drop(entry, seat.slot);
    place = entry.places.insert_or_assign(seat.slot, Place{seat.pod, seat.node}).first;
    reserve(entry, seat, place->second);
    return;
  }
  if (!known || place->second.node != seat.node) return;
  // The reservation ends when the watch of all pods has come as far as what is known of the pod here.
  cluster_.written(seat.pod, seat.version);
  count_as_open(entry, seat);
}

void Placer::count_as_open(const Entry& entry, const Seat& seat) {
  if (!is_held(seat)) return;
  const NodeId node = cluster_.tree().find(seat.node);
  if (node != kNone) cluster_.shown_open(seat.pod, Uid::of(seat.uid), node, entry.gang.shape, seat.version);
}

void Placer::reserve(Entry& entry, const Seat& seat, Place& place) {
  const NodeId node = cluster_.tree().find(place.node);
  if (node == kNone) return;
  cluster_.reserve(place.pod, node, entry.gang.shape);
  place.reserved = true;
  if (place.node != seat.node) return;
  cluster_.written(seat.pod, seat.version);
  count_as_open(entry, seat);
}

void Placer::withdraw(const std::string& key) {
  expected_.erase(key);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  while (!entry.places.empty()) drop(entry, entry.places.begin()->first);
  while (!entry.successors.empty()) drop_successor(entry, entry.successors.begin()->first);
  if (hold_ && hold_->key == key) end_hold();
  if (entry.turn) queue_.erase(*entry.turn);
  forget_wake(entry);
  for (auto* keys : {&dirty_, &touched_, &unsettled_, &moving_}) keys->erase(key);
  entries_.erase(found);
}

void Placer::capacity_changed() {
  ++room_;
  cluster_changed_ = true;
}

std::vector<std::string> Placer::step(MonotonicTime now) {
  next_.reset();
  if (!expected_.empty()) return {};
  if (const auto version = cluster_.tree().version(kRoot); version != tree_version_) {
    tree_version_ = version;
    for (const auto& [key, entry] : entries_) dirty_.insert(key);
    if (hold_) hold_->nodes = nodes_of(cluster_.tree(), hold_->domain);
  }
  if (std::exchange(cluster_changed_, false)) dirty_.insert(unsettled_.begin(), unsettled_.end());
  for (auto due = timers_.begin(); due != timers_.end() && due->first <= now; ++due) dirty_.insert(due->second);
  for (const std::string& key : std::exchange(dirty_, {})) review(entries_.at(key), now);
  while (serve(now)) continue;
  for (const std::string& key : moving_) reserve_successors(entries_.at(key));
  std::vector<std::string> changed;
  for (const std::string& key : std::exchange(touched_, {})) {
    Entry& entry = entries_.at(key);
    Answer answer = build_answer(entry);
    // A refused gang has to search again though its node has room by now.
    if (!std::exchange(entry.refused, false) && entry.answer == answer) continue;
    entry.answer = std::move(answer);
    changed.push_back(key);
  }
  if (!timers_.empty()) next_ = timers_.begin()->first;
  return changed;
}

const Answer* Placer::answer(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || !found->second.answer ? nullptr : &*found->second.answer;
}

bool Placer::open(const std::string& key, const Opening& opening) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.answer || found->second.refused) return false;
  Entry& entry = found->second;
  const Answer& answer = *entry.answer;
  if (answer.release || entry.trouble.releasing || entry.trouble.leaving.contains(opening.pod)) return false;
  if (opening.uid.empty() ? answer.gated : !answer.open) return false;
  const auto decided = answer.nodes.find(opening.slot);
  const auto place = entry.places.find(opening.slot);
  if (decided == answer.nodes.end() || decided->second != opening.node) return false;
  if (place == entry.places.end() || place->second.node != opening.node || place->second.pod != opening.pod)
    return false;
  const NodeId node = cluster_.tree().find(opening.node);
  const Uid uid = opening.uid.empty() ? Uid() : Uid::of(opening.uid);
  dirty_.insert(key);
  if (node == kNone || !cluster_.open(opening.pod, uid, node, entry.gang.shape)) {
    drop(entry, opening.slot);
    entry.refused = true;
    return false;
  }
  for (Seat& seat : entry.gang.seats) {
    if (seat.slot != opening.slot) continue;
    seat.node = opening.node;
    seat.state = SeatState::kPinned;
  }
  return true;
}

void Placer::drop(Entry& entry, int slot) {
  const auto place = entry.places.find(slot);
  if (place == entry.places.end()) return;
  cluster_.unreserve(place->second.pod);
  entry.places.erase(place);
  ++room_;
}

void Placer::hand_over(Entry& entry) {
  const Gang& gang = entry.gang;
  const auto of_slot = [](const auto& all, int slot) {
    return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.slot == slot; });
  };
  for (auto next = entry.successors.begin(); next != entry.successors.end();) {
    const auto [slot, place] = *next++;
    const auto wanted = of_slot(gang.successors, slot);
    if (wanted != gang.successors.end() && wanted->pod == place.pod) continue;
    const auto seat = of_slot(gang.seats, slot);
    if (seat != gang.seats.end() && seat->pod == place.pod && !entry.places.contains(slot)) {
      entry.places.insert_or_assign(slot, place);
      entry.successors.erase(slot);
    } else {
      drop_successor(entry, slot);
    }
  }
  if (gang.successors.empty()) {
    moving_.erase(gang.key);
  } else {
    moving_.insert(gang.key);
  }
}

void Placer::drop_successor(Entry& entry, int slot) {
  cluster_.unreserve(entry.successors.at(slot).pod);
  entry.successors.erase(slot);
  ++room_;
  touch(entry);
}

void Placer::say(Entry& entry, Wait wait) {
  if (entry.wait == wait) return;
  entry.wait = std::move(wait);
  touch(entry);
}

void Placer::queue(Entry& entry) {
  touch(entry);
  entry.want = want_of(entry);
  std::optional<Turn> turn;
  if (entry.want.line != Line::kContent) {
    turn = Turn{entry.want.line, -static_cast<std::int64_t>(entry.gang.priority), entry.gang.since, entry.gang.key};
  } else {
    entry.wait = {};
  }
  if (turn == entry.turn) return;
  if (entry.turn) queue_.erase(*entry.turn);
  if (turn) queue_.insert(*turn);
  entry.turn = std::move(turn);
}

void Placer::wake_at(Entry& entry, MonotonicTime time, MonotonicTime now) {
  if (time <= now || (entry.due && *entry.due <= time)) return;
  forget_wake(entry);
  entry.due = time;
  timers_.emplace(time, entry.gang.key);
}

void Placer::forget_wake(Entry& entry) {
  if (entry.due) timers_.erase({*entry.due, entry.gang.key});
  entry.due.reset();
}

Answer Placer::build_answer(Entry& entry) {
  const Gang& gang = entry.gang;
  const Trouble& trouble = entry.trouble;
  Answer answer;
  answer.release = trouble.releasing;
  answer.wait = entry.wait;
  answer.apart = entry.required != gang.constraint.required;
  for (const auto& [slot, place] : entry.places) answer.nodes.emplace_hint(answer.nodes.end(), slot, place.node);
  for (const auto& [slot, place] : entry.successors)
    answer.reserved.emplace_hint(answer.reserved.end(), slot, place.node);
  int held = 0, ready = 0;
  bool settled = entry.successors.empty();
  for (const Seat& seat : gang.seats) {
    if (trouble.leaving.contains(seat.pod)) {
      answer.replace.push_back(seat.pod);
      continue;
    }
    const auto place = entry.places.find(seat.slot);
    if (is_held(seat)) ++held;
    if (place == entry.places.end()) continue;
    settled = settled && is_held(seat) && place->second.reserved;
    if (is_held(seat) || (seat.state == SeatState::kGated && seat.node == place->second.node)) ++ready;
  }
  answer.gated = gang.whole - held > 1;
  answer.open = !trouble.releasing && ready >= gang.whole;
  const std::pair located(tree_version_, gang.pods);
  const bool stays =
      entry.answer && entry.answer->where && entry.located == located && entry.answer->nodes == answer.nodes;
  answer.where = stays ? entry.answer->where : where_of(entry);
  entry.located = located;
  if (settled && (answer.where || static_cast<int>(entry.places.size()) < gang.pods)) {
    unsettled_.erase(gang.key);
  } else {
    unsettled_.insert(gang.key);
  }
  return answer;
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

}  // namespace lockstep::placement
