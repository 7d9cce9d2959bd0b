// What follows from what is known: what CoordinatorState does in each mode. Each evaluate_*() looks and acts at most
// once; evaluate() goes round until nothing changes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/failure_choice.h"
#include "operator/rendezvous/start_choice.h"

namespace lockstep::rendezvous {

void CoordinatorState::evaluate(Now now) {
  evaluated_at_ = now.time;
  loss_due_ = MonotonicTime::max();
  ++evaluations_;
  evaluate_term(now);
  if (!plan_) return;
  for (int round = 0; round < 8; ++round) {
    const Mode before = mode();
    evaluate_mode(now);
    if (mode() == before) break;
  }
  tell_members(now);
  evaluate_store(now);
  acknowledge_exits();
}

// The plan does not say stop any longer: what was stopped is over.
void CoordinatorState::resume_stopped() {
  for (auto& [slot, member] : contacts_.members()) member.told.to_leave = false;
  if (generation_.exists()) gang().over = true;
  // A leader that took over while the job stopped does not know yet which generation may be in force.
  const bool adopted = generation_.exists() || (keeper_.record() && keeper_.record()->generation == 0);
  if (keeper_.seen() && adopted) return enter(mode::Waiting{});
  enter(mode::Loading{});
}

void CoordinatorState::evaluate_mode(Now now) {
  if (keeper_.deposed()) return;
  if (plan_->stop) return evaluate_stop(now);
  if (modes_.stop() != nullptr) resume_stopped();
  if (mode() == Mode::kLoading) {
    if (keeper_.claimed()) adopt_record(now);
    return;
  }
  if (generation_.exists() && !gang().over) {
    const bool handled = plan_->handled_generation >= gang().generation;
    if (handled || (modes_.active() && !contacts_.still_expects(gang()))) return end_gang();
  }
  switch (mode()) {
    case Mode::kResuming:
      return evaluate_resume(now);
    case Mode::kWaiting:
      return evaluate_waiting(now);
    case Mode::kProposing:
      return evaluate_proposal(now);
    case Mode::kStarting:
    case Mode::kUp:
      return evaluate_up(now);
    case Mode::kBroken:
      return evaluate_broken(now);
    default:
      return;
  }
}

// Sends what the present mode means for each connected member and has not been said on this connection.
void CoordinatorState::tell_members(Now now) {
  if (keeper_.deposed()) return;
  const bool finished = mode() == Mode::kFinished && keeper_.record() && keeper_.record()->finished;
  // Processes that get ready load programs and build models. On a machine of their own that is nobody's loss; beside
  // those that just recovered it would be their first step's.
  const bool trains = mode() == Mode::kUp &&
                      (generation_.last_advance() > gang().up_at || now.time - gang().up_at >= timing_.warm_after);
  for (auto& [slot, member] : contacts_.members()) {
    if (member.session == 0) continue;
    if ((plan_->stop || finished) && !member.told.to_leave) {
      member.told.to_leave = true;
      if (finished || modes_.finished()) {
        send(member.session, Done{});
      } else {
        const Failure* failure = modes_.failure();
        const int code = failure != nullptr ? std::max(1, failure->exit_code.value_or(1)) : 0;
        send(member.session, Stop{plan_->stop_grace_seconds, code});
      }
    }
    if (keeper_.record() && !keeper_.claimed()) continue;  // an order has a term, which is not this coordinator's yet
    // Processes of the generation that just broke may be able to stay: PROPOSE will ask them, and end the others.
    const bool of_gang = generation_.exists() && generation_.has(member) && member.generation == gang().generation;
    const bool may_stay = plan_->kind == Kind::kLockstep && mode() != Mode::kFinished;
    // And of those that were asked, and then were left out, something may still wait.
    const bool asked = member.phase == MemberPhase::kReady && modes_.active() && !generation_.has(member) &&
                       !(modes_.proposal() != nullptr && modes_.proposal()->has(slot));
    const bool stray = (member.phase == MemberPhase::kRunning || asked) && member.generation > member.told.halted &&
                       !(of_gang && (modes_.active() || may_stay));
    if (stray && mode() != Mode::kLoading && !plan_->stop) {
      member.told.halted = member.generation;
      send(member.session, Halt{{keeper_.term(), member.generation}});
    }
    const bool left_out = plan_->kind == Kind::kLockstep && trains && !generation_.has(member) &&
                          !member.expected.leaving && !generation_.evicted(member);
    const bool cold = member.phase != MemberPhase::kRunning && member.phase != MemberPhase::kWarm;
    const bool told = member.told.warmed_at && now.time - *member.told.warmed_at < timing_.warm_again;
    if (left_out && cold && !told && contacts_.all_regroup(gang())) warm(member, false, now);
    // Until all have come those that are here load their programs.
    const bool early = mode() == Mode::kWaiting && !generation_.exists() && keeper_.record() &&
                       plan_->kind == Kind::kLockstep && !plan_->stop;
    const bool first = early && slot < plan_->slots && !member.expected.leaving && !member.told.warmed_at;
    if (first && member.phase == MemberPhase::kIdle) warm(member, true, now);
    if (of_gang && modes_.active() && gang().yields_since && member.told.yields < gang().generation) {
      member.told.yields = gang().generation;
      send(member.session, Yield{{keeper_.term(), gang().generation}});
    }
  }
}

// The generation of the record, of which it is not known whether anybody runs it. Where it is not known either who is
// in it, it may be anybody who is expected.
void CoordinatorState::adopt_gang() {
  std::vector<Place> places = keeper_.recorded().places();
  if (places.empty()) {
    for (const auto& [slot, member] : contacts_.members()) places.push_back({slot, member.expected.incarnation});
  }
  Gang gang;
  static_cast<Roster&>(gang) = Roster(std::move(places), plan_->procs_per_node);
  gang.generation = keeper_.record()->generation;
  gang.kind = plan_->kind;
  gang.resumed = true;
  generation_.adopt(std::move(gang));
  for (const auto& [slot, member] : contacts_.members()) generation_.note_in_force(member);
}

// The record is known for the first time: is its generation still in force?
void CoordinatorState::adopt_record(Now now) {
  if (keeper_.record()->generation == 0) {
    contacts_.evict_from(now.time);  // nothing was taken over
    return enter(mode::Waiting{});
  }
  adopt_gang();
  Gang& gang = generation_.gang();
  for (const auto& [slot, early] : generation_.take_early()) {
    Member& member = contacts_.at(slot);
    if (!generation_.has(member)) continue;
    for (const auto& [rank, exit] : early.exits) {
      if (exit.generation == gang.generation && gang.slot_of(rank) == slot) gang.note_exit(exit);
    }
    for (const auto& [rank, report] : early.broken) {
      if (report.generation == gang.generation && gang.slot_of(rank) == slot) gang.note_broken(rank, report);
    }
    if (early.heartbeat && early.heartbeat->progress && early.heartbeat->generation == gang.generation) {
      note_progress(member, *early.heartbeat->progress, now);
    }
  }
  if (keeper_.record()->finished) {
    if (keeper_.record()->progress) generation_.note_final(*keeper_.record()->progress);
    return enter(mode::Finished{});
  }
  if (keeper_.recorded().size() == 0) return end_gang();  // a later format: its members form another generation
  enter(mode::Resuming{});  // evaluate_mode() ends it when the controller's word says that it is over
}

// After a take-over: wait for the members of the record's generation to say that they run it.
void CoordinatorState::evaluate_resume(Now now) {
  bool all_here = true;
  for (const auto& [slot, member] : contacts_.members()) {
    if (!generation_.has(member)) continue;
    if (member.session == 0) {
      all_here = false;
    } else if (member.generation != gang().generation) {
      return end_gang();  // GO never reached this one: the generation was recorded, not started
    }
  }
  evaluate_exits(now);
  evaluate_renounced(now);
  if (mode() != Mode::kResuming) return;
  if (gang().end.yielded) return end_gang();
  if (all_here) {
    gang().go_at = now.time;
    return enter(mode::Starting{});
  }
  evaluate_losses(now);
}

void CoordinatorState::evaluate_up(Now now) {
  evaluate_exits(now);
  if (modes_.active()) evaluate_losses(now);
  evaluate_renounced(now);
  if (modes_.active() && gang().end.yielded) return end_gang();
  if (modes_.active()) evaluate_identities(now);
  evaluate_growth(now);
  if (mode() == Mode::kUp) evaluate_hang(now);
  if (mode() != Mode::kStarting) return;
  const bool all_up = std::all_of(gang().places().begin(), gang().places().end(),
                                  [&](const Place& place) { return has_come_up(place.slot); });
  const bool rests = std::any_of(gang().rests_until.begin(), gang().rests_until.end(),
                                 [&](const auto& entry) { return entry.second > now.time; });
  if (all_up) {
    gang().up_at = now.time;
    if (generation_.recovered()) generation_.times().start_ms = milliseconds(now.time - gang().go_at);
    enter(mode::Up{});
  } else if (plan_->deadlines.start_timeout_seconds > 0 && !rests &&
             now.time - gang().go_at > std::chrono::seconds(plan_->deadlines.start_timeout_seconds)) {
    break_gang(missed_start(now));
  }
}

bool CoordinatorState::has_come_up(int slot) const {
  return gang().is_up(slot) || gang().succeeded_at(slot);
}

Failure CoordinatorState::missed_start(Now now) const {
  std::vector<StartingMember> missing;
  for (const Place& place : gang().places()) {
    if (has_come_up(place.slot)) continue;
    const Member& member = contacts_.at(place.slot);
    missing.push_back({place.slot, gang().first_rank(place.slot), member.expected.pod_name, &member.identities});
  }
  const LateStart late = choose_late(missing, plan_->kind == Kind::kLockstep);
  Failure failure;
  failure.cause = api::Cause::kStartTimeout;
  failure.slot = late.slot;
  failure.rank = late.rank;
  failure.message = fmt::format("the processes of {} did not report within {} s that they are up", late.who,
                                plan_->deadlines.start_timeout_seconds);
  failure.time = now.wall;
  failure.detect_ms = 0;
  return failure;
}

void CoordinatorState::evaluate_exits(Now now) {
  const Ending& end = gang().end;
  if (end.exits.empty() && end.broken.empty()) return;
  if (gang().succeeded_whole()) {
    return enter(mode::Finished{});
  }
  if (end.broken.empty() && end.successes == static_cast<int>(end.exits.size())) return;
  const auto [exits, most, ordered, left] = weigh(end.exits, !end.broken.empty(), gang().kind,
                                                  [this](int rank) { return contacts_.leaves(gang().slot_of(rank)); });
  // One that was to leave has left, and the others only noticed: they go on without it, and nobody has failed.
  if (left && most != Blame::kOwn) return end_gang();
  if (most == Blame::kNone && !ordered) return;
  if (most != Blame::kOwn) {
    // After a take-over word of who began may come with an agent that has not found this coordinator yet.
    const bool all_came = contacts_.all_came(gang());
    const Duration wait =
        all_came ? Duration(gather_time(most == Blame::kNone ? Blame::kCommunication : most)) : timing_.lost_after;
    gang().end.gather_until = std::min(end.gather_until, now.time + wait);
    const bool over = now.time >= end.gather_until;
    for (const auto& [slot, member] : contacts_.members()) {
      if (most == Blame::kNone || member.agent.empty() || !generation_.has(member) || gang().exited(slot)) continue;
      if (contacts_.under_review(member, now.time)) continue;
      if (member.session == 0) return lose_member(slot, "its connection broke and peers lost it", member.heard, now);
      if (over && now.time - member.heard > contacts_.two_heartbeats()) {
        return lose_member(slot, "it fell silent and peers lost it", member.heard, now);
      }
    }
    if (!over) return;
  }
  const Exit* first = first_failing(exits, gang().kind);
  if (first == nullptr && !end.broken.empty()) return break_connection(now);
  if (first == nullptr) return end_gang();  // an earlier coordinator had ended it, and nobody is to blame
  Failure failure = failure_of(*first, gang().slot_of(first->rank));
  failure.detect_ms = std::max<std::int64_t>(0, milliseconds(now.wall - failure.time));
  if (blame_of(*first, gang().kind) == Blame::kCommunication) return break_links(failure, gang().link_reports());
  break_gang(failure);
}

void CoordinatorState::evaluate_losses(Now now) {
  if (!contacts_.may_evict(now.time)) return;
  const Contacts::Silence silence = contacts_.look(gang(), now.time);
  if (silence == Contacts::Silence::kForgiven && gang().watch) gang().watch->restart(now.time);
  if (silence != Contacts::Silence::kOfSome) return;
  for (const auto& [slot, member] : contacts_.members()) {
    if (!generation_.has(member) || gang().succeeded_at(slot) || contacts_.under_review(member, now.time)) continue;
    const MonotonicTime lost_at = std::max(member.heard, generation_.last_advance()) + contacts_.silence_of(member);
    if (now.time <= lost_at) {
      loss_due_ = std::min(loss_due_, lost_at + std::chrono::milliseconds(1));
      continue;
    }
    return lose_member(slot, member.session == 0 ? "its connection is gone" : "it is silent", member.heard, now);
  }
}

// A member has no processes left of the generation, or has promised an earlier coordinator that they are done with it.
// That coordinator's proposal came to nothing. Where a failure was the cause, word of it comes with the same agents.
void CoordinatorState::evaluate_renounced(Now now) {
  if (!modes_.active() || !gang().resumed) return;
  const bool renounced = std::any_of(contacts_.members().begin(), contacts_.members().end(), [this](const auto& entry) {
    const Member& member = entry.second;
    if (member.session == 0 || !generation_.has(member) || member.generation != gang().generation) return false;
    const bool exited = member.phase == MemberPhase::kExited && !gang().exited(member.expected.slot);
    return exited || member.phase == MemberPhase::kReady;
  });
  if (!renounced) return gang().renounced_since.reset();
  if (!gang().renounced_since) gang().renounced_since = now.time;
  if (now.time - *gang().renounced_since > timing_.lost_after) end_gang();
}

void CoordinatorState::lose_member(int slot, const std::string& how, MonotonicTime since, Now now) {
  if (contacts_.leaves(slot)) return end_gang();
  const ExpectedMember& expected = contacts_.at(slot).expected;
  Failure failure;
  failure.cause = api::Cause::kMemberLost;
  gang().end.lost_slot = failure.slot = slot;
  failure.rank = gang().first_rank(slot);
  failure.message = fmt::format("slot {} was lost: {} (pod {}{})", slot, how, expected.pod_name,
                                expected.node.empty() ? "" : ", node " + expected.node);
  failure.time = now.wall - std::chrono::duration_cast<WallTime::duration>(now.time - since);
  failure.detect_ms = milliseconds(now.time - since);
  break_gang(failure);
}

void CoordinatorState::break_gang(Failure failure) {
  failure.generation = gang().generation;
  failure.step = generation_.progress().step;
  enter(mode::Broken{std::move(failure), std::nullopt});
}

void CoordinatorState::end_gang() {
  gang().over = true;
  enter(mode::Waiting{modes_.take_proposal()});
}

void CoordinatorState::evaluate_stop(Now now) {
  if (modes_.stop() == nullptr) {
    const Failure* failure = modes_.failure();
    keeper_.forget_next();
    enter(mode::Stopping{{now.time, failure != nullptr ? std::optional(*failure) : std::nullopt, modes_.finished()}});
  }
  const mode::Stop stop = *modes_.stop();
  const Duration waited = now.time - stop.since;
  const Duration settle = timing_.no_eviction_for;
  const bool overdue = waited > std::chrono::seconds(plan_->stop_grace_seconds) + settle;
  const bool may_come =
      waited <= std::chrono::seconds(plan_->stop_grace_seconds) + (plan_->goes_on ? timing_.reconnect_within : settle);
  bool left = false;
  for (const auto& [slot, member] : contacts_.members()) {
    if (member.agent.empty()) {
      // Never seen in this term: it may still be on its way here. One of the generation in force may bring word of the
      // last checkpoint, from which the job is to go on.
      const bool has_run = keeper_.record() && keeper_.recorded().has(slot, member.expected.incarnation);
      left = left || (has_run && may_come) ||
             (waited < settle && !(keeper_.record() && keeper_.record()->generation == 0));
    } else if (overdue) {
      continue;
    } else if (member.session != 0 || !member.told.to_leave) {
      // A member that is READY, or warm, may hold a state in memory, which it saves when it is told to stop.
      const bool holds = member.phase != MemberPhase::kIdle && member.phase != MemberPhase::kExited;
      left = left || holds || (member.session != 0 && !member.told.to_leave);
    }
  }
  left = left || (!overdue && checkpoint_awaited());
  if (left) return enter(mode::Stopping{stop});
  enter(mode::Stopped{stop});
}

}  // namespace lockstep::rendezvous
