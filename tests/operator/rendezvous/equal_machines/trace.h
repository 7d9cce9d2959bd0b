// What is compared of two versions of a machine: every value that it says or shows, in order, as bytes. Compiled once
// for each version, in its namespace.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "operator/api/cause.h"
#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

inline std::string word(const char* what, int number) {
  return number == 0 ? "" : fmt::format("{}-{}", what, number);
}

// Up to 753c8c0 the cause of a failure is a text, later an api::Cause.
template <typename Cause>
std::string cause_in_words(const Cause& cause) {
  if constexpr (std::is_convertible_v<Cause, std::string>) {
    return cause;
  } else {
    return std::string(api::name_of(cause));
  }
}

// So is the problem that an agent names.
template <typename Problem>
void say(Problem& problem, const std::string& word) {
  if constexpr (std::is_convertible_v<Problem, std::string>) {
    problem = word;
  } else if (!word.empty()) {
    problem = api::cause_of_agent(word);
  }
}

// Up to 96bf4e9 a plan and a GO hold these fields themselves, later in structs of their own.
template <typename Holder>
auto& program_of(Holder& of) {
  if constexpr (requires { of.program; }) {
    return of.program;
  } else {
    return of;
  }
}
template <typename Plan>
auto& elastic_of(Plan& plan) {
  if constexpr (requires { plan.elastic; }) {
    return plan.elastic;
  } else {
    return plan;
  }
}
template <typename Plan>
auto& deadlines_of(Plan& plan) {
  if constexpr (requires { plan.deadlines; }) {
    return plan.deadlines;
  } else {
    return plan;
  }
}

// Collects what is compared. Each value is written with its length or size, so that none can run into the next.
class Trace {
 public:
  explicit Trace(std::string& to) : to_(to) {}

  template <typename... T>
  void put(const T&... values) {
    (one(values), ...);
  }

 private:
  void one(const std::string& text) {
    one(text.size());
    to_ += text;
  }
  template <typename T>
  void one(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      const auto number = static_cast<std::int64_t>(value);
      raw(&number, sizeof number);
    } else {
      all(value);
    }
  }
  void raw(const void* bytes, std::size_t count) { to_.append(static_cast<const char*>(bytes), count); }
  template <typename T>
  void one(const std::optional<T>& value) {
    one(value.has_value());
    if (value) one(*value);
  }
  template <typename T>
  void one(const std::vector<T>& values) {
    one(values.size());
    for (const T& value : values) one(value);
  }
  void one(const std::map<std::string, std::string>& values) {
    one(values.size());
    for (const auto& [key, value] : values) put(key, value);
  }
  void one(MonotonicTime time) { one(time.time_since_epoch().count()); }
  void one(WallTime time) { one(time.time_since_epoch().count()); }

  void all(const GenerationId& id) { put(id.term, id.generation); }
  void all(const Welcome& welcome) { put(welcome.term, welcome.heartbeat_ms); }
  void all(const Refused& refused) { put(refused.message, refused.final); }
  void all(const Propose& it) { put(it.id, it.first_rank, it.ranks, it.world_size, it.port); }
  void all(const StateVersion& version) { put(version.generation, version.step, version.digest); }
  void all(const Peers& peers) {
    put(static_cast<bool>(peers));
    if (!peers) return;
    for (const auto& member : peers->members()) put(member.slot, member.incarnation, member.addresses);
  }
  void all(const Go& go) {
    put(go.id, go.job, go.job_uid, go.kind, go.first_rank, go.ranks, go.world_size, go.group_rank);
    put(go.group_world_size, go.peers, go.master_addr, go.master_port, go.key, go.source.rank, go.source.version);
    put(go.source.send, go.restore);
    program(program_of(go));
  }
  template <typename Program>
  void program(const Program& it) {
    put(it.checkpoint_path, it.checkpoint_every_seconds, it.max_restarts, it.env);
  }
  void all(const Warm& warm) { put(warm.go, warm.first); }
  void all(const Echo& echo) { put(echo.generation, echo.peers); }
  void all(const Ack& ack) { put(ack.generation, ack.rank); }
  void all(const Halt& halt) { put(halt.id); }
  void all(const Yield& yield) { put(yield.id); }
  void all(const Abort& abort) { put(abort.generation, abort.rank, abort.message); }
  void all(const Stop& stop) { put(stop.grace_seconds, stop.exit_code); }
  void all(const Done&) {}
  void all(const Unknown&) {}
  void all(const IdentityRun& it) { put(it.ranks, it.line); }
  void all(const FailureReport& it) { put(it.kind, it.suspect_rank, it.message); }
  void all(const BrokenReport& it) { put(it.generation, it.suspect_rank, it.message, it.yielded, it.stepped); }
  void all(const EntryTimes& it) { put(it.init_ms, it.transfer_ms); }
  void all(const Activity& it) {
    put(it.generation, it.doing, it.step, it.beats, it.sequence, it.stage, it.sent, it.received);
    put(it.waits_for_bytes_of, it.waits_for_room_at);
  }
  void all(const RankActivity& it) { put(it.state, it.age_ms, it.said); }
  void all(const Hello& it) {
    put(it.protocol, it.name_space, it.pod_name, it.pod_uid, it.slot, it.incarnation, it.token, it.session, it.phase);
    put(it.generation, it.up, it.regroups, it.promised, it.welcomed, it.life);
  }
  void all(const Heartbeat& it) {
    put(it.sequence, it.phase, it.generation, it.up, it.regroups, it.progress, it.newest_checkpoint, it.ranks);
    put(it.identities);
  }
  void all(const Ready& it) {
    put(it.id, it.addresses, it.holdings, it.host, it.master_port, it.life, cause_in_words(it.problem), it.message);
    put(it.identities);
  }
  void all(const Up& it) { put(it.generation, it.regroups, it.entry); }
  void all(const Broken& it) { put(it.rank, it.report); }
  void all(const Exit& it) {
    put(it.generation, it.rank, it.code, it.signal, it.end_ms, it.reason, it.report, it.stderr_tail);
    put(cause_in_words(it.problem), it.message);
  }
  void all(const Echoed& it) { put(it.generation, it.problem); }
  void all(const CheckpointReport& it) { put(it.name, it.step, it.generation, it.digest); }
  void all(const Progress& it) {
    put(it.step, it.total_steps, it.epoch, it.loss, it.samples_per_second, it.eta_seconds);
  }
  void all(const Record::Member& member) { put(member.slot, member.incarnation, member.life); }
  void all(const Record& it) {
    put(it.format, it.term, it.writer, it.generation, it.members, it.checkpoint, it.finished, it.progress);
  }
  void all(const MemberView& it) {
    put(it.slot, it.incarnation, it.connected, it.in_gang, it.up, it.leaving, it.alive);
  }
  void all(const Failure& it) {
    put(it.generation, cause_in_words(it.cause), it.rank, it.slot, it.exit_code, it.signal, it.message, it.time);
    put(it.detect_ms, it.step);
  }
  void all(const RecoveryTimes& it) {
    put(it.after, it.into, it.agree_ms, it.decide_ms, it.abort_ms, it.record_ms, it.start_ms, it.init_ms);
    put(it.transfer_ms, it.first_step_ms);
  }
  void all(const JobView& it) {
    put(it.generation, it.phase, it.members, it.world_size, it.failure, it.message, it.progress);
    put(it.newest_checkpoint, it.times, it.divergence, it.refused);
  }

  std::string& to_;
};

}  // namespace lockstep::rendezvous
