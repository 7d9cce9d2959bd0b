// A canonical number of everything that a state machine of the protocol holds, so that the explorer knows a state
// again. Times count by their distance from the machine's own present, and no further than any of its timers reaches.
// What only people see (messages, time stamps of a view, counters) does not count.
//
// Each overload of Contents::add() names all members of its struct in a structured binding. One that is added to a
// machine or a message does not compile here until somebody has said whether it counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/member_state.h"

namespace lockstep::rendezvous {

class Fingerprint;

// The friend of both machines.
struct Contents {
  static void add(Fingerprint& to, const MemberState& state);
  static void add(Fingerprint& to, const MemberContact& contact);
  static void add(Fingerprint& to, const MemberProposal& proposal);
  static void add(Fingerprint& to, const MemberProposal::UnderWay& under_way);
  static void add(Fingerprint& to, const MemberProcesses& processes);
  static void add(Fingerprint& to, const MemberProcess& process);
  static void add(Fingerprint& to, const MemberNews& news);
  static void add(Fingerprint& to, const MemberDeparture& departure);
  static void add(Fingerprint& to, const CoordinatorState& state);
  static void add(Fingerprint& to, const Contacts& contacts);
  static void add(Fingerprint& to, const RecordKeeper& keeper);
  static void add(Fingerprint& to, const Member& member);
  static void add(Fingerprint& to, const Told& told);
  static void add(Fingerprint& to, const Reach& reach);
  static void add(Fingerprint& to, const Generation& generation);
  static void add(Fingerprint& to, const Early& early);
  static void add(Fingerprint& to, const Roster& roster);
  static void add(Fingerprint& to, const Gang& gang);
  static void add(Fingerprint& to, const Ending& end);
  static void add(Fingerprint& to, const InForce& in_force);
  static void add(Fingerprint& to, const Proposal& proposal);
  static void add(Fingerprint& to, const Modes& modes);
  static void add(Fingerprint&, const mode::Loading&) {}
  static void add(Fingerprint&, const mode::Resuming&) {}
  static void add(Fingerprint& to, const mode::Waiting& state);
  static void add(Fingerprint& to, const mode::Proposing& state);
  static void add(Fingerprint&, const mode::Starting&) {}
  static void add(Fingerprint&, const mode::Up&) {}
  static void add(Fingerprint& to, const mode::Broken& state);
  static void add(Fingerprint&, const mode::Finished&) {}
  static void add(Fingerprint& to, const mode::Stop& stop);
  static void add(Fingerprint& to, const mode::Stopping& state);
  static void add(Fingerprint& to, const mode::Stopped& state);
  static void add(Fingerprint& to, const Failure& failure);

  // Calls visit(name, field) for each field of a machine that counts (explorer_fingerprint_test.cpp).
  template <typename Visit>
  static void each(MemberState& state, const Visit& visit);
  template <typename Visit>
  static void each(CoordinatorState& state, const Visit& visit);
  template <typename Visit>
  static void each(Contacts& contacts, const Visit& visit);
  template <typename Visit>
  static void each(Member& member, const Visit& visit);
  template <typename Visit>
  static void each(RecordKeeper& keeper, const Visit& visit);
  template <typename Visit>
  static void each(Generation& part, const Visit& visit);
  template <typename Visit>
  static void each(Modes& modes, const Visit& visit);

  static void add(Fingerprint& to, const Place& place);
  static void add(Fingerprint& to, const GenerationId& id);
  static void add(Fingerprint& to, const StateVersion& version);
  static void add(Fingerprint& to, const StateSource& source);
  static void add(Fingerprint& to, const Progress& progress);
  static void add(Fingerprint& to, const CheckpointReport& report);
  static void add(Fingerprint& to, const FailureReport& report);
  static void add(Fingerprint& to, const BrokenReport& report);
  static void add(Fingerprint& to, const Prepared& prepared);
  static void add(Fingerprint& to, const IdentityRun& run);
  static void add(Fingerprint& to, const Hello& hello);
  static void add(Fingerprint& to, const Heartbeat& heartbeat);
  static void add(Fingerprint& to, const Ready& ready);
  static void add(Fingerprint& to, const Up& up);
  static void add(Fingerprint& to, const Broken& broken);
  static void add(Fingerprint& to, const Exit& exit);
  static void add(Fingerprint& to, const Welcome& welcome);
  static void add(Fingerprint& to, const Refused& refused);
  static void add(Fingerprint& to, const Propose& propose);
  static void add(Fingerprint& to, const Go& go);
  static void add(Fingerprint& to, const Peers& peers);
  static void add(Fingerprint& to, const Warm& warm);
  static void add(Fingerprint& to, const Abort& abort);
  static void add(Fingerprint& to, const Echo& echo);
  static void add(Fingerprint& to, const Echoed& echoed);
  static void add(Fingerprint& to, const Ack& ack);
  static void add(Fingerprint& to, const Halt& halt);
  static void add(Fingerprint& to, const Yield& yield);
  static void add(Fingerprint& to, const Stop& stop);
  static void add(Fingerprint&, const Done&) {}
  static void add(Fingerprint&, const Unknown&) {}
  static void add(Fingerprint& to, const Record& record);
  static void add(Fingerprint& to, const Record::Member& member);
  static void add(Fingerprint& to, const JobPlan& plan);
  static void add(Fingerprint& to, const ExpectedMember& member);
};

class Fingerprint {
 public:
  // Times that are longer ago are all the same: no machine under exploration looks further back.
  static constexpr Duration kReach = std::chrono::milliseconds(1750);

  explicit Fingerprint(MonotonicTime now = {}) : now_(now) {}

  std::uint64_t value() const { return hash_; }
  MonotonicTime now() const { return now_; }

  template <typename... Values>
  Fingerprint& add(const Values&... values) {
    (add_one(values), ...);
    return *this;
  }
  // A time that is only ever asked whether it has come.
  Fingerprint& add_due(MonotonicTime time) { return add(std::max(time, now_)); }
  // The same, where it is not always asked.
  Fingerprint& add_due(bool asked, MonotonicTime time) { return add_due(asked ? time : MonotonicTime::max()); }

 private:
  void mix(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15U;
    hash_ ^= hash_ >> 29;
  }
  void add_one(MonotonicTime time) {
    if (time == MonotonicTime::max()) return mix(~std::uint64_t{0});
    mix(static_cast<std::uint64_t>(std::max<Duration>(time - now_, -kReach).count()));
  }
  void add_one(const std::string& text) {
    mix(text.size());
    for (const char c : text) mix(static_cast<unsigned char>(c));
  }
  template <typename T>
  void add_one(const T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      mix(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      mix(static_cast<std::uint64_t>(value * 1024));
    } else {
      Contents::add(*this, value);
    }
  }
  template <typename T>
  void add_one(const std::optional<T>& value) {
    mix(value.has_value());
    if (value) add_one(*value);
  }
  template <typename A, typename B>
  void add_one(const std::pair<A, B>& value) {
    add(value.first, value.second);
  }
  template <typename T>
  void add_one(const std::vector<T>& values) {
    mix(values.size());
    for (const T& value : values) add_one(value);
  }
  template <typename T>
  void add_one(const SlotMap<T>& values) {
    mix(values.size());
    for (const auto& [slot, value] : values) add(slot, value);
  }
  template <typename K, typename V>
  void add_one(const std::map<K, V>& values) {
    mix(values.size());
    for (const auto& [key, value] : values) add(key, value);
  }
  template <typename... T>
  void add_one(const std::variant<T...>& value) {
    mix(value.index());
    std::visit([this](const auto& held) { add_one(held); }, value);
  }

  const MonotonicTime now_;
  std::uint64_t hash_ = 0x243f6a8885a308d3U;
};

}  // namespace lockstep::rendezvous
