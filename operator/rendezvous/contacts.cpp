#include "operator/rendezvous/contacts.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kTurnedAwayKept = 5;
constexpr Duration kHeartbeatLate = std::chrono::milliseconds(50);

}  // namespace

Contacts::Contacts(const CoordinatorTiming& timing, MonotonicTime now)
    : timing_(timing), joined_at_(now), evict_from_(now + timing.no_eviction_for), last_event_(now) {}

bool Contacts::observe(MonotonicTime now) {
  const bool late = now - last_event_ > timing_.tick + timing_.late_by;
  if (late) {
    for (auto& [slot, member] : members_) member.heard = now;
    held_up_ = now - last_event_;
  }
  last_event_ = now;
  return late;
}

Contacts::Change Contacts::expect(const std::vector<ExpectedMember>& expected, MonotonicTime now) {
  Change change;
  SlotMap<Member> old = std::exchange(members_, {});
  members_.reserve(expected.size());
  slowest_heartbeats_ = std::max(slowest_heartbeats_, heartbeat_every(kProtocolVersion, expected.size()));
  for (const ExpectedMember& each : expected) {
    Member member;
    member.heard = now;
    if (const auto at = old.find(each.slot); at != old.end() && at->second.expected.incarnation == each.incarnation &&
                                             at->second.expected.pod_uid == each.pod_uid) {
      member = std::move(at->second);
      at->second.session = 0;
    } else {
      change.fresh.push_back(each.slot);
    }
    auto path = std::move(member.expected.path);
    const bool stays = member.expected.node == each.node;
    member.expected = each;
    // A pod outlives the Node object in the cache; its place in the network is the same.
    if (stays && each.path.empty()) member.expected.path = std::move(path);
    members_.put(each.slot, std::move(member));
  }
  for (auto& [slot, member] : old) {
    if (member.session == 0) continue;
    change.left.emplace_back(slot, member.session);
    slot_of_session_.erase(member.session);
  }
  return change;
}

std::optional<Refused> Contacts::refusal(const Hello& hello) const {
  const Member* member = find(hello.slot);
  if (member == nullptr) return Refused{fmt::format("slot {} is not expected now", hello.slot), false};
  const ExpectedMember& expected = member->expected;
  if (hello.incarnation > expected.incarnation) {
    return Refused{fmt::format("incarnation {} of slot {} is not expected yet", hello.incarnation, hello.slot), false};
  }
  if (hello.incarnation < expected.incarnation) {
    return Refused{fmt::format("slot {} was given to incarnation {}; this is {}", hello.slot, expected.incarnation,
                               hello.incarnation),
                   true};
  }
  if (hello.pod_name != expected.pod_name || hello.pod_uid != expected.pod_uid) {
    return Refused{
        fmt::format("slot {} does not belong to pod {} with uid {}", hello.slot, hello.pod_name, hello.pod_uid), true};
  }
  return std::nullopt;
}

SessionId Contacts::connect(SessionId session, const Hello& hello, MonotonicTime now) {
  Member& member = members_.at(hello.slot);
  const SessionId replaced = std::exchange(member.session, session);
  if (replaced != 0) slot_of_session_.erase(replaced);
  if (member.agent != hello.session) joined_at_ = now;
  slot_of_session_[session] = hello.slot;
  member.heard = now;
  member.phase = hello.phase;
  member.generation = hello.generation;
  member.life = hello.life;
  member.agent = hello.session;
  member.start = Member::Start::kAwaited;
  member.regroups = hello.regroups;
  member.told = {};
  member.arrivals = {};
  member.identities.clear();
  member.to_acknowledge.clear();
  member.heartbeats = heartbeat_every(hello.protocol, members_.size());
  return replaced;
}

bool Contacts::disconnect(SessionId session, MonotonicTime now) {
  Member* member = by_session(session);
  if (member == nullptr) return false;
  member->session = 0;
  member->heard = now;
  slot_of_session_.erase(session);
  return true;
}

std::vector<SessionId> Contacts::disconnect_silent(MonotonicTime now) {
  std::vector<SessionId> ended;
  for (auto& [slot, member] : members_) {
    if (member.session == 0 || now - member.heard <= timing_.session_silence) continue;
    slot_of_session_.erase(member.session);
    ended.push_back(std::exchange(member.session, 0));
  }
  return ended;
}

bool Contacts::note_turned_away(const std::string& why) {
  if (std::find(turned_away_.begin(), turned_away_.end(), why) != turned_away_.end()) return false;
  if (turned_away_.size() >= kTurnedAwayKept) turned_away_.erase(turned_away_.begin());
  turned_away_.push_back(why);
  return true;
}

const Member* Contacts::find(int slot) const {
  const auto at = members_.find(slot);
  return at == members_.end() ? nullptr : &at->second;
}

Member* Contacts::by_session(SessionId session) {
  const auto at = slot_of_session_.find(session);
  return at == slot_of_session_.end() ? nullptr : &members_.at(at->second);
}

bool Contacts::still_expects(const Place& place) const {
  const Member* member = find(place.slot);
  return member != nullptr && member->expected.incarnation == place.incarnation;
}

bool Contacts::still_expects(const Roster& roster) const {
  return std::all_of(roster.places().begin(), roster.places().end(),
                     [this](const Place& place) { return still_expects(place); });
}

bool Contacts::leaves(int slot) const {
  const Member* member = find(slot);
  return member != nullptr && member->expected.leaving;
}

bool Contacts::somebody_leaves(const Roster& roster) const {
  return std::any_of(roster.places().begin(), roster.places().end(),
                     [this](const Place& place) { return leaves(place.slot); });
}

bool Contacts::all_regroup(const Roster& roster) const {
  return std::all_of(roster.places().begin(), roster.places().end(), [this](const Place& place) {
    const Member* member = find(place.slot);
    return member != nullptr && member->regroups;
  });
}

bool Contacts::all_came(const Roster& roster) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& entry) { return !entry.second.is_in(roster) || !entry.second.agent.empty(); });
}

std::string Contacts::pod_in_words(int slot) const {
  const ExpectedMember& expected = at(slot).expected;
  return expected.node.empty() ? fmt::format("pod {}", expected.pod_name)
                               : fmt::format("pod {} (node {})", expected.pod_name, expected.node);
}

std::string Contacts::slot_in_words(int slot) const {
  const ExpectedMember& expected = at(slot).expected;
  return fmt::format("slot {} (pod {}{})", slot, expected.pod_name,
                     expected.node.empty() ? "" : ", node " + expected.node);
}

Duration Contacts::silence_of(const Member& member) const {
  if (member.session == 0) return timing_.lost_after;
  return member.arrivals.silence(member.heartbeats, {timing_.silent_least, timing_.silent_after});
}

// The server reports pending reviews once per heartbeat interval. A refused token stops counting: the silence of its
// member runs from the last message whose sender was authenticated.
bool Contacts::under_review(const Member& member, MonotonicTime now) const {
  return member.session == 0 && now - member.review_at <= 2 * kHeartbeatEvery;
}

Duration Contacts::two_heartbeats() const {
  return 2 * slowest_heartbeats_ + kHeartbeatLate;
}

MonotonicTime Contacts::last_heard(const Roster& gang) const {
  MonotonicTime heard{};
  for (const auto& [slot, member] : members_) {
    if (member.is_in(gang)) heard = std::max(heard, member.heard);
  }
  return heard;
}

// No heartbeat arrives from any member of a generation of several. The coordinator then suspects its own network: the
// members train on, and the API server reports pods and nodes that ended. Agents train without a coordinator for
// `orphan_after`; after that the members count as lost.
bool Contacts::cut_off(const Roster& gang, MonotonicTime now) const {
  if (kMutation == Mutation::kBlameWhenCutOff) return false;
  const Duration silence = now - last_heard(gang);
  return gang.size() > 1 && silence > two_heartbeats() && silence <= timing_.orphan_after;
}

Contacts::Silence Contacts::look(const Roster& gang, MonotonicTime now) {
  if (cut_off(gang, now)) {
    if (!alone_since_) alone_since_ = last_heard(gang);
    return Silence::kOfAll;
  }
  const std::optional<MonotonicTime> alone_since = std::exchange(alone_since_, std::nullopt);
  if (!alone_since || now - last_heard(gang) > two_heartbeats()) return Silence::kOfSome;
  return hear_again(gang, last_heard(gang) - *alone_since, now);
}

// A heartbeat arrives after all members were silent for `quiet`. Agents that dropped their connections get time to
// reconnect. Where all kept them, the other heartbeats arrive with the next TCP retransmission. TCP waits at most as
// long again as the silence was (RFC 6298, section 5.5), plus one heartbeat interval. A member that died meanwhile is
// lost no later than that.
Contacts::Silence Contacts::hear_again(const Roster& gang, Duration quiet, MonotonicTime now) {
  const bool lost_way =
      quiet > timing_.silent_after || std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
        return entry.second.is_in(gang) && entry.second.session == 0;
      });
  const Duration repeated = std::min(quiet + two_heartbeats(), timing_.silent_after);
  for (auto& [slot, member] : members_) {
    member.heard = std::max(member.heard, lost_way ? now : now + repeated - silence_of(member));
  }
  if (!lost_way) return Silence::kOver;
  evict_from_ = std::max(evict_from_, now + timing_.no_eviction_for);
  return Silence::kForgiven;
}

void Contacts::note_exit(Member& member, const Exit& exit) {
  if (member.to_acknowledge.empty()) unacknowledged_.push_back(member.expected.slot);
  if (member.to_acknowledge.size() < kMaxRanksPerMember) member.to_acknowledge[exit.rank] = exit.generation;
}

std::vector<SendToMember> Contacts::take_acknowledgements() {
  std::vector<SendToMember> owed;
  std::sort(unacknowledged_.begin(), unacknowledged_.end());
  for (const int slot : std::exchange(unacknowledged_, {})) {
    const auto at = members_.find(slot);
    if (at == members_.end()) continue;
    for (const auto& [rank, generation] : std::exchange(at->second.to_acknowledge, {})) {
      if (at->second.session != 0) owed.push_back({at->second.session, Ack{generation, rank}});
    }
  }
  return owed;
}

}  // namespace lockstep::rendezvous
