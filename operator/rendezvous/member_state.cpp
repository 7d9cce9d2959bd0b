#include "operator/rendezvous/member_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

MemberState::MemberState(MemberOptions options, MonotonicTime now) : options_(std::move(options)), contact_(now) {}

MemberPhase MemberState::phase() const {
  if (proposal_.ready() != nullptr) return MemberPhase::kReady;
  if (!processes_.go()) return MemberPhase::kIdle;
  if (processes_.all_exited()) return MemberPhase::kExited;
  return processes_.standby() && processes_.all_regroup() ? MemberPhase::kWarm : MemberPhase::kRunning;
}

void MemberState::send(AgentToCoordinator message) {
  actions_.push_back(SendToCoordinator{std::move(message)});
}

void MemberState::tell(AgentToCoordinator message) {
  if (contact_.welcomed()) send(std::move(message));
}

void MemberState::on_connected(MonotonicTime) {
  contact_.connect();
  Hello hello;
  hello.name_space = options_.name_space;
  hello.pod_name = options_.pod_name;
  hello.pod_uid = options_.pod_uid;
  hello.slot = options_.slot;
  hello.incarnation = options_.incarnation;
  hello.session = options_.session;
  hello.phase = phase();
  hello.generation = generation();
  hello.up = processes_.up();
  hello.regroups = processes_.all_regroup();
  hello.promised = proposal_.promised();
  hello.welcomed = contact_.term();
  hello.life = processes_.life();
  send(hello);
}

void MemberState::on_disconnected(MonotonicTime now) {
  contact_.disconnect(now);
  news_.lose_connection(processes_.alive() || !processes_.acknowledged());
  leave_if_done(now);
}

void MemberState::on_message(const CoordinatorToAgent& message, MonotonicTime now) {
  if (!contact_.hears(message)) {
    ++ignored_;
    return;
  }
  std::visit([&](const auto& m) { on(m, now); }, message);
}

void MemberState::on(const Welcome& welcome, MonotonicTime now) {
  if (!contact_.welcome(welcome)) {
    actions_.push_back(CloseConnection{"the coordinator's term is over"});
    return;
  }
  if (departure_.decided() && !processes_.alive()) departure_.listen(now, wait_for_acks());
  news_.identity_is_new();
  send_heartbeat(now);  // before the exits: with the last of them the generation is over and nobody listens
  processes_.forget_acknowledgements();
  if (kMutation == Mutation::kForgetReports) return;
  for (const auto& [number, process] : processes_.by_rank()) {
    if (process.exit) send(*process.exit);
    if (process.broken) send(Broken{number, *process.broken});
  }
}

void MemberState::on(const Refused& refused, MonotonicTime now) {
  actions_.push_back(CloseConnection{"refused: " + refused.message});
  if (refused.final) {
    departure_.be_unwanted();
    leave(1, now);
  } else {
    departure_.be_unexpected(now);
  }
}

void MemberState::on(const Ack& ack, MonotonicTime now) {
  if (ack.generation != generation()) return;
  processes_.acknowledge(ack.rank);
  leave_if_done(now);
}

void MemberState::on(const Abort& abort, MonotonicTime now) {
  if (abort.generation != generation() || !processes_.abort(abort.rank, abort.message, now + options_.abort_grace)) {
    ++ignored_;
    return;
  }
  actions_.push_back(AbortProcess{abort.rank});
}

void MemberState::on(const Stop& stop, MonotonicTime now) {
  if (processes_.alive()) end_processes(Exit::Reason::kOrdered, std::chrono::seconds(stop.grace_seconds), true, now);
  leave(stop.exit_code, now);
}

void MemberState::on(const Done&, MonotonicTime now) {
  leave(0, now);
}

void MemberState::on(const Echo& echo, MonotonicTime) {
  actions_.push_back(DialAddresses{echo.generation, echo.peers});
}

void MemberState::on_dialled(std::int64_t generation, const std::string& problem) {
  tell(Echoed{generation, problem});
}

void MemberState::on(const Unknown&, MonotonicTime) {
  ++ignored_;
}

void MemberState::on_started(int rank, MonotonicTime) {
  if (processes_.started(rank)) tell_up();
}

void MemberState::on_process_state(int rank, char state) {
  processes_.note_state(rank, state);
}

void MemberState::on_worker_message(int rank, const WorkerMessage& message, MonotonicTime now) {
  if (!processes_.has(rank)) return;
  if (processes_.hear(rank, message, now)) tell_up();
  if (message.up && processes_.standby() && contact_.welcomed()) send_heartbeat(now);  // it may be warm now
  news_.take(rank, message);
  if (message.identity && processes_.identify(rank, *message.identity)) {
    news_.identity_is_new();
    if (contact_.welcomed()) send_heartbeat(now);  // others may wait for it
  }
  if (message.holding) hold(rank, *message.holding);
  if (message.broken && message.broken->generation == generation()) tell(Broken{rank, *message.broken});
}

// They are up; those of a generation tell so.
void MemberState::tell_up() {
  if (!processes_.standby()) tell(Up{generation(), processes_.all_regroup(), processes_.entry()});
}

void MemberState::on_exit(const ProcessEnd& end, MonotonicTime now) {
  const std::optional<Exit> exit = processes_.exit(end);
  if (!exit) return;
  const bool listens = contact_.welcomed();
  if (listens && news_.unsaid()) send_heartbeat(now);  // the last step and checkpoint, before word of the end
  tell(*exit);
  if (proposal_.keeping()) {
    proposal_.stop_keeping();
    if (!processes_.ending()) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (processes_.before_first()) {
    if (!processes_.ending() && processes_.ended_before_first() && !processes_.all_exited()) {
      end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
    }
    if (listens) send_heartbeat(now);  // nobody need wait for them
  } else if (processes_.standby() && !processes_.ending()) {
    // A newcomer's process has nothing to do that it could end with: the pod fails, and policy sees that.
    leave(end.code == 0 ? 1 : end.code, now);
  }
  // What is left now was left behind; it is not asked, only ended.
  if (processes_.ending() && processes_.all_exited()) actions_.push_back(KillProcesses{});
}

void MemberState::on_no_process_left(MonotonicTime now) {
  // Said again, it is no news: what it let go on has been asked for. Before all have exited a start is under way.
  if (!processes_.alive() || !processes_.all_exited()) return;
  processes_.vanish();
  if (departure_.decided()) {
    leave_when_told(now);
  } else if (proposal_.awaits_ready()) {
    prepare_ready();
  } else if (warming_) {
    prepare_warm();
  }
}

void MemberState::on_terminate(int code, Duration grace, MonotonicTime now) {
  // The pod of a finished job may be deleted before the coordinator's DONE has reached it; its work was done all the
  // same.
  const bool succeeded = processes_.succeeded();
  // Asked over the link all ranks of the job would stop; the signal alone asks these to leave.
  if (processes_.alive()) end_processes(Exit::Reason::kTerminated, grace, false, now);
  leave(succeeded ? 0 : code, now);
}

void MemberState::end_processes(Exit::Reason reason, Duration grace, bool ask, MonotonicTime now) {
  if (!processes_.end(reason, now + grace)) return;
  actions_.push_back(EndProcesses{ask});
  if (processes_.all_exited()) actions_.push_back(KillProcesses{});
}

void MemberState::leave(int code, MonotonicTime now) {
  drop_proposal();
  warming_.reset();
  departure_.decide(code);
  if (!processes_.alive()) return leave_when_told(now);
  if (!processes_.ending()) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
}

// Of a job that stops the exits are acknowledged once its last checkpoint is recorded.
Duration MemberState::wait_for_acks() const {
  return news_.has_checkpoint() ? options_.tell_checkpoint_within : options_.flush_exits_within;
}

void MemberState::leave_when_told(MonotonicTime now) {
  departure_.begin(now, wait_for_acks(), options_.tell_checkpoint_within);
  leave_if_done(now);
}

void MemberState::leave_if_done(MonotonicTime now) {
  if (!departure_.decided() || processes_.alive()) return;
  const MemberDeparture::Telling telling{contact_.welcomed(), processes_.acknowledged(), news_.checkpoint_unsaid()};
  if (const auto code = departure_.leave(telling, now)) actions_.push_back(ExitAgent{*code});
}

void MemberState::send_heartbeat(MonotonicTime now) {
  Heartbeat heartbeat;
  heartbeat.sequence = contact_.say_heartbeat(now);
  heartbeat.phase = phase();
  heartbeat.generation = generation();
  heartbeat.up = processes_.up();
  heartbeat.regroups = processes_.all_regroup();
  heartbeat.ranks = processes_.activities(now);
  if (news_.identity_unsaid()) heartbeat.identities = processes_.identities();
  news_.say(heartbeat);
  send(heartbeat);
}

void MemberState::on_tick(MonotonicTime now) {
  if (heartbeat_due(now)) send_heartbeat(now);
  for (const int rank : processes_.overdue(now)) actions_.push_back(KillProcess{rank});
  if (processes_.alive() && !processes_.ending() && now >= contact_.orphaned_at(options_.orphan_after)) {
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (!processes_.ending() && now >= proposal_.hold_until()) {
    proposal_.stop_keeping();
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (processes_.kill_due(now)) actions_.push_back(KillProcesses{});
  leave_if_done(now);
}

MonotonicTime MemberState::deadline() const {
  MonotonicTime next = std::min(contact_.next_heartbeat(), processes_.next_kill());
  if (!processes_.ending()) next = std::min(next, proposal_.hold_until());
  if (processes_.alive() && !processes_.ending()) next = std::min(next, contact_.orphaned_at(options_.orphan_after));
  if (!processes_.alive()) next = std::min(next, departure_.latest(contact_.welcomed()));
  return next;
}

}  // namespace lockstep::rendezvous
