#include "operator/rendezvous/coordinator_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/rendezvous/failure_choice.h"
#include "operator/rendezvous/limits.h"

// Events. What follows from them is in coordinator_evaluate.cpp, what people see of it in coordinator_view.cpp.

namespace lockstep::rendezvous {

CoordinatorState::CoordinatorState(std::int64_t term, CoordinatorTiming timing, std::function<std::string()> make_key,
                                   Now now)
    : timing_(timing),
      make_key_(std::move(make_key)),
      contacts_(timing, now.time),
      keeper_(term, timing, make_key_),
      generation_(now.time),
      evaluated_at_(now.time) {}

// A loop that was held up has not read what arrived meanwhile: silence until now proves nothing.
void CoordinatorState::observe(Now now) {
  if (contacts_.observe(now.time) && generation_.exists() && gang().watch) gang().watch->restart(now.time);
}

void CoordinatorState::on_plan(const JobPlan& plan, Now now) {
  observe(now);
  const Contacts::Change change = contacts_.expect(plan.members, now.time);
  for (const int slot : change.fresh) generation_.forget_early(slot);
  for (const auto& [slot, session] : change.left) {
    send(session, Refused{fmt::format("slot {} no longer belongs to this pod", slot), true});
    close(session);
  }
  generation_.keep_early(contacts_);
  plan_ = plan;
  keeper_.note_number(plan.handled_generation);
  changed_ = true;
  evaluate(now);
}

std::optional<Refused> CoordinatorState::refusal(const Hello& hello) const {
  if (!plan_) return Refused{"the job is not known yet", false};
  return contacts_.refusal(hello);
}

void CoordinatorState::on_turned_away(const std::string& why) {
  if (contacts_.note_turned_away(why)) changed_ = true;
}

void CoordinatorState::on_sign_of_life(const Hello& hello, Now now) {
  observe(now);
  if (refusal(hello)) return;
  contacts_.at(hello.slot).heard = now.time;
  evaluate(now);
}

void CoordinatorState::on_token_pending(const std::vector<Hello>& hellos, Now now) {
  observe(now);
  for (const Hello& hello : hellos) {
    if (!refusal(hello)) contacts_.at(hello.slot).review_at = now.time;
  }
}

void CoordinatorState::on_hello(SessionId session, const Hello& hello, Now now) {
  observe(now);
  std::optional<Refused> refused = refusal(hello);
  const std::int64_t known = std::max(hello.promised.term, hello.welcomed);
  if (!refused && (std::max(known, hello.promised.generation) > kMostPromised)) {
    refused = Refused{fmt::format("slot {} promised term {} and generation {}: at most {} is possible", hello.slot,
                                  known, hello.promised.generation, kMostPromised),
                      false};
    on_turned_away(refused->message);
  } else if (!refused && known > keeper_.term()) {
    keeper_.note_foreign_term(known);
    evaluate_term(now);
    if (keeper_.deposed()) refused = Refused{"this coordinator's term is over", false};
  }
  if (refused) {
    if (refused->final) on_turned_away(refused->message);
    send(session, *refused);
    close(session);
    evaluate(now);
    return;
  }
  if (const SessionId replaced = contacts_.connect(session, hello, now.time); replaced != 0) close(replaced);
  Member& member = contacts_.at(hello.slot);
  keeper_.note_number(std::max(hello.promised.generation, hello.generation));
  changed_ = true;
  send(session, Welcome{keeper_.term(), static_cast<int>(milliseconds(member.heartbeats))});
  generation_.note_in_force(member);
  greet(member, hello, now);
  evaluate(now);
}

// What a member that came (back) has missed.
void CoordinatorState::greet(Member& member, const Hello& hello, Now now) {
  const int slot = member.expected.slot;
  if (modes_.proposal() != nullptr && modes_.proposal()->has(slot)) {
    send_propose(member);
    return;
  }
  if (!modes_.active() || !generation_.has(member)) return;
  if (hello.generation == gang().generation) {
    if (hello.up) gang().note_up(slot);
    return;
  }
  if (gang().go && hello.phase == MemberPhase::kReady && hello.promised == gang().go->id) {
    send(member.session, gang().go_to(slot));
  } else if (mode() != Mode::kResuming) {
    lose_member(slot, "its agent came back without its processes", now.time, now);
  }
}

void CoordinatorState::on_disconnected(SessionId session, Now now) {
  observe(now);
  if (contacts_.disconnect(session, now.time)) changed_ = true;
  evaluate(now);
}

void CoordinatorState::on_message(SessionId session, const AgentToCoordinator& message, Now now) {
  observe(now);
  Member* member = contacts_.by_session(session);
  if (member == nullptr) return;
  // The first heartbeat after a silence of all members, or of this one.
  const bool again = contacts_.heard_again(*member, now.time);
  member->heard = now.time;
  const bool news = std::visit([&](const auto& m) { return on(*member, m, now); }, message);
  if (news || again) return evaluate(now);
  acknowledge_exits();
}

bool CoordinatorState::on(Member& member, const Heartbeat& heartbeat, Now now) {
  member.arrivals.note(now.time, timing_.silent_after);
  if (generation_.exists() && heartbeat.phase == MemberPhase::kWarm && member.phase != MemberPhase::kWarm)
    contacts_.note_joined(now.time);
  const bool runs = (mode() == Mode::kStarting || mode() == Mode::kUp) && generation_.has(member) &&
                    heartbeat.phase == MemberPhase::kRunning && heartbeat.generation == gang().generation;
  bool news = !runs && (member.phase != heartbeat.phase || member.regroups != heartbeat.regroups ||
                        member.generation != heartbeat.generation);
  member.phase = heartbeat.phase;
  member.regroups = heartbeat.regroups;
  member.generation = heartbeat.generation;
  if (member.generation == 0 && heartbeat.up && !heartbeat.regroups && member.start == Member::Start::kAwaited) {
    member.start = Member::Start::kForeign;
    news = true;
  }
  if (!heartbeat.identities.empty() && heartbeat.identities != member.identities) {
    member.identities = heartbeat.identities;
    generation_.note_identities();
    news = true;
  }
  news = generation_.note_in_force(member) || news;
  news = note_checkpoint(heartbeat.newest_checkpoint) || news;
  if (mode() == Mode::kLoading) generation_.early(member.expected.slot).heartbeat = heartbeat;
  if (!modes_.active() || !generation_.has(member) || heartbeat.generation != gang().generation) return news;
  if (heartbeat.up && gang().note_up(member.expected.slot)) {
    changed_ = true;
    news = news || news_of_up();
  }
  if (heartbeat.progress) news = note_progress(member, *heartbeat.progress, now) || news;
  // Only rank 0 tells of progress, and its agent may be the one that has yet to find the way.
  for (const RankActivity& rank : heartbeat.ranks) {
    const bool committed = rank.said && rank.said->generation == gang().generation;
    if (!committed || rank.said->step <= gang().restored_step) continue;
    news = generation_.note_advance(member, rank.said->step, now.time) || news;
  }
  note_activities(member, heartbeat, now);
  return news;
}

bool CoordinatorState::on(Member& member, const Up& up, Now) {
  if (!modes_.active() || !generation_.has(member) || up.generation != gang().generation) return false;
  gang().note_up(member.expected.slot);
  member.regroups = up.regroups;
  if (generation_.recovered()) {
    RecoveryTimes& times = generation_.times();
    times.init_ms = std::max(times.init_ms, up.entry.init_ms);
    times.transfer_ms = std::max(times.transfer_ms, up.entry.transfer_ms);
  }
  changed_ = true;
  return news_of_up();
}

// Before the last one is up nothing follows from it, unless a rank has ended already.
bool CoordinatorState::news_of_up() const {
  return gang().all_up() || !gang().end.exits.empty();
}

bool CoordinatorState::note_progress(Member& member, const Progress& progress, Now now) {
  const bool news = progress.step > gang().restored_step && generation_.note_advance(member, progress.step, now.time);
  if (!generation_.note_progress(member.expected.slot, progress)) return news;
  progress_changed_ = true;
  if (mode() == Mode::kUp && progress.step > gang().restored_step && generation_.note_first_step(now.time)) {
    changed_ = true;
  }
  return news;
}

bool CoordinatorState::note_checkpoint(const std::optional<CheckpointReport>& checkpoint) {
  if (!keeper_.note_checkpoint(checkpoint)) return false;
  progress_changed_ = true;
  return true;
}

bool CoordinatorState::on(Member& member, const Ready& ready, Now now) {
  Proposal* proposal = modes_.proposal();
  if (proposal == nullptr || ready.id != GenerationId{keeper_.term(), proposal->generation} ||
      !proposal->has(member.expected.slot)) {
    ++ignored_;
    return false;
  }
  const auto procs = static_cast<std::size_t>(plan_->procs_per_node);
  if (ready.problem == api::Cause::kNone &&
      (ready.addresses.size() != procs || (!ready.holdings.empty() && ready.holdings.size() != procs))) {
    ++ignored_;  // it cannot become part of a list of peers; the deadline for READY will name it
    return false;
  }
  member.phase = MemberPhase::kReady;
  member.life = ready.life;
  member.identities = ready.identities;
  if (proposal->ready.insert_or_assign(member.expected.slot, ready).second) proposal->ready_at = now.time;
  changed_ = true;
  return proposal->ready.size() == proposal->size() || ready.problem != api::Cause::kNone;
}

bool CoordinatorState::on(Member& member, const Broken& broken, Now) {
  if (mode() == Mode::kLoading) {  // which ranks it has is not known yet
    auto& early = generation_.early(member.expected.slot).broken;
    if (early.size() < kMaxRanksPerMember) early[broken.rank] = broken.report;
    return false;
  }
  if (!modes_.active() || !generation_.has(member) || broken.report.generation != gang().generation) return false;
  if (gang().slot_of(broken.rank) != member.expected.slot) {
    ++ignored_;
    return false;
  }
  gang().note_broken(broken.rank, broken.report);
  // Others that say the same do not shorten the time for which a death is listened for.
  return broken.report.yielded || gang().end.broken.size() == 1;
}

bool CoordinatorState::on(Member& member, const Exit& exit, Now) {
  contacts_.note_exit(member, exit);
  const bool failed = exit.reason == Exit::Reason::kOwn && (exit.code != 0 || exit.signal != 0);
  if (exit.generation == 0 && failed) member.start = Member::Start::kFailed;
  if (mode() == Mode::kLoading) {
    auto& early = generation_.early(member.expected.slot).exits;
    if (early.size() < kMaxRanksPerMember) early[exit.rank] = exit;
    return true;
  }
  if (!generation_.exists() || exit.generation != gang().generation || !generation_.has(member)) return true;
  if (gang().slot_of(exit.rank) != member.expected.slot) {
    ++ignored_;
    return true;
  }
  const bool fresh = gang().note_exit(exit);
  if (gang().exited(member.expected.slot)) member.phase = MemberPhase::kExited;
  changed_ = true;
  // Of ranks that end well the last one is news, of those that saw a peer go away the first one.
  if (mode() != Mode::kUp || !fresh) return true;
  if (succeeded(exit)) return gang().succeeded_whole();
  const auto failures = static_cast<int>(gang().end.exits.size()) - gang().end.successes;
  return failures == 1 || blame_of(exit, gang().kind) != Blame::kCommunication;
}

void CoordinatorState::on_tick(Now now) {
  observe(now);
  if (mode() == Mode::kResuming && contacts_.may_evict(now.time)) changed_ = true;  // view() shows it from now on
  for (const SessionId session : contacts_.disconnect_silent(now.time)) {
    close(session);
    changed_ = true;
  }
  evaluate(now);
}

MonotonicTime CoordinatorState::deadline() const {
  MonotonicTime next = evaluated_at_ + timing_.tick;
  if (modes_.active() && gang().end.gather_until > evaluated_at_) next = std::min(next, gang().end.gather_until);
  if (modes_.active() && loss_due_ > evaluated_at_) next = std::min(next, loss_due_);
  return next;
}

void CoordinatorState::send(SessionId session, CoordinatorToAgent message) {
  actions_.push_back(SendToMember{session, std::move(message)});
}

}  // namespace lockstep::rendezvous
