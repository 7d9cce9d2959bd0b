#include "operator/rendezvous/member_state.h"

#include <algorithm>
#include <utility>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {
namespace {

constexpr Duration kKillAgainAfter = std::chrono::milliseconds(20);  // what was killed may have left children behind

constexpr Duration kUnexpectedFor = std::chrono::seconds(3);  // within which a new leader knows the jobs that there are

bool newer(const CheckpointReport& a, const std::optional<CheckpointReport>& b) {
  return !b || std::pair(a.generation, a.step) > std::pair(b->generation, b->step);
}

}  // namespace

MemberState::MemberState(MemberOptions options, MonotonicTime now)
    : options_(std::move(options)), alone_since_(now), heartbeat_at_(now) {}

MemberPhase MemberState::phase() const {
  if (ready_) return MemberPhase::kReady;
  if (!go_) return MemberPhase::kIdle;
  if (all_exited()) return MemberPhase::kExited;
  return standby_ && all_regroup() ? MemberPhase::kWarm : MemberPhase::kRunning;
}

bool MemberState::all_exited() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.exit.has_value(); });
}

MemberState::Rank* MemberState::find(int rank) {
  const auto at = ranks_.find(rank);
  return at == ranks_.end() ? nullptr : &at->second;
}

void MemberState::send(AgentToCoordinator message) {
  actions_.push_back(SendToCoordinator{std::move(message)});
}

void MemberState::on_connected(MonotonicTime) {
  connected_ = true;
  welcomed_ = false;
  Hello hello;
  hello.name_space = options_.name_space;
  hello.pod_name = options_.pod_name;
  hello.pod_uid = options_.pod_uid;
  hello.slot = options_.slot;
  hello.incarnation = options_.incarnation;
  hello.session = options_.session;
  hello.phase = phase();
  hello.generation = generation();
  hello.up = up_;
  hello.regroups = all_regroup();
  hello.promised = promised_;
  hello.welcomed = term_;
  hello.life = life_;
  send(hello);
}

void MemberState::on_disconnected(MonotonicTime now) {
  connected_ = false;
  if (welcomed_) alone_since_ = now;
  welcomed_ = false;
  // Only an ACK of what was said after it shows that a heartbeat has arrived.
  checkpoint_unsaid_ = checkpoint_ && (alive_ || !acknowledged());
  leave_if_done(now);
}

void MemberState::on_message(const CoordinatorToAgent& message, MonotonicTime now) {
  const bool first = std::holds_alternative<Welcome>(message) || std::holds_alternative<Refused>(message);
  if (!connected_ || (!welcomed_ && !first)) {
    ++ignored_;
    return;
  }
  std::visit([&](const auto& m) { on(m, now); }, message);
}

void MemberState::on(const Welcome& welcome, MonotonicTime now) {
  if (welcome.term < term_) {
    actions_.push_back(CloseConnection{"the coordinator's term is over"});
    return;
  }
  term_ = welcome.term;
  heartbeat_every_ = std::chrono::milliseconds(welcome.heartbeat_ms);
  welcomed_ = true;
  if (leave_with_ && !alive_) leave_at_ = now + wait_for_acks();
  identity_unsaid_ = true;
  send_heartbeat(now);  // before the exits: with the last of them the generation is over and nobody listens any more
  for (auto& [number, rank] : ranks_) {
    rank.acknowledged = false;  // this coordinator may be another than the one that acknowledged
    if (kMutation == Mutation::kForgetReports) continue;
    if (rank.exit) send(*rank.exit);
    if (rank.broken) send(Broken{number, *rank.broken});
  }
}

void MemberState::on(const Refused& refused, MonotonicTime now) {
  actions_.push_back(CloseConnection{"refused: " + refused.message});
  if (refused.final) {
    unwanted_ = true;
    leave(1, now);
  } else {
    // One that has just begun to lead may not know the job yet; one that still does not expects this pod no more.
    leave_by_ = std::min(leave_by_, now + kUnexpectedFor);
  }
}

void MemberState::on(const Ack& ack, MonotonicTime now) {
  if (ack.generation != generation()) return;
  if (Rank* rank = find(ack.rank)) rank->acknowledged = true;
  leave_if_done(now);
}

void MemberState::on(const Abort& abort, MonotonicTime now) {
  Rank* rank = abort.generation == generation() ? find(abort.rank) : nullptr;
  if (rank == nullptr || rank->exit || rank->hang || ending_) {
    ++ignored_;
    return;
  }
  rank->hang = abort.message;
  rank->kill_at = now + options_.abort_grace;
  actions_.push_back(AbortProcess{abort.rank});
}

void MemberState::on(const Stop& stop, MonotonicTime now) {
  if (alive_) end_processes(Exit::Reason::kOrdered, std::chrono::seconds(stop.grace_seconds), true, now);
  leave(stop.exit_code, now);
}

void MemberState::on(const Done&, MonotonicTime now) {
  leave(0, now);
}

void MemberState::on(const Echo& echo, MonotonicTime) {
  actions_.push_back(DialAddresses{echo.generation, echo.peers});
}

void MemberState::on_dialled(std::int64_t generation, const std::string& problem) {
  if (welcomed_) send(Echoed{generation, problem});
}

void MemberState::on(const Unknown&, MonotonicTime) {
  ++ignored_;
}

void MemberState::on_started(int number, MonotonicTime) {
  Rank* rank = find(number);
  if (rank == nullptr || go_->kind == Kind::kLockstep) return;
  rank->up = true;
  note_up();
}

void MemberState::on_process_state(int number, char state) {
  if (Rank* rank = find(number)) rank->state = state;
}

void MemberState::on_worker_message(int number, const WorkerMessage& message, MonotonicTime now) {
  Rank* rank = find(number);
  if (rank == nullptr) return;
  if (message.activity) {
    rank->activity = message.activity;
    rank->activity_at = now;
  }
  unsaid_ = unsaid_ || message.progress || message.checkpoint;
  if (message.up) {
    rank->regroups = message.regroups;
    rank->entry = message.entry;
  }
  // Progress alone is what foreign programs say; of a process that stays it may be of the generation before.
  if (message.up || (message.progress && !rank->regroups)) {
    rank->up = true;
    note_up();
  }
  if (message.up && standby_ && welcomed_) send_heartbeat(now);  // it may be warm now
  if (message.progress && (!progress_ || number <= progress_->first)) progress_ = {number, *message.progress};
  if (message.checkpoint && newer(*message.checkpoint, checkpoint_)) {
    checkpoint_ = message.checkpoint;
    checkpoint_unsaid_ = true;
  }
  if (message.failure) rank->report = message.failure;
  if (message.identity && *message.identity != rank->identity) {
    rank->identity = *message.identity;
    identity_unsaid_ = true;
    if (welcomed_) send_heartbeat(now);  // others may wait for it
  }
  if (message.holding) note_holding(*rank, *message.holding);
  if (message.broken && message.broken->generation == generation()) {
    rank->broken = message.broken;
    if (welcomed_) send(Broken{number, *message.broken});
  }
}

void MemberState::note_up() {
  if (up_ || !std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.up; })) return;
  up_ = true;
  if (!welcomed_ || standby_) return;
  EntryTimes longest;
  for (const auto& [number, rank] : ranks_) {
    longest.init_ms = std::max(longest.init_ms, rank.entry.init_ms);
    longest.transfer_ms = std::max(longest.transfer_ms, rank.entry.transfer_ms);
  }
  send(Up{generation(), all_regroup(), longest});
}

void MemberState::on_exit(const ProcessEnd& end, MonotonicTime now) {
  Rank* rank = find(end.rank);
  if (rank == nullptr || rank->exit) return;
  Exit exit;
  exit.generation = generation();
  exit.rank = end.rank;
  exit.code = end.code;
  exit.signal = end.signal;
  exit.end_ms = end.end_ms;
  exit.reason = ending_ ? ending_->reason : Exit::Reason::kOwn;
  exit.report = rank->report;
  exit.stderr_tail = end.stderr_tail;
  exit.problem = end.problem;
  exit.message = end.message;
  if (rank->hang && (end.code != 0 || end.signal != 0)) {
    exit.problem = api::Cause::kHang;
    exit.message = *rank->hang;
  }
  rank->exit = exit;
  rank->left_behind = end.left_behind;
  if (welcomed_ && unsaid_) send_heartbeat(now);  // the last step and checkpoint, before word of the end overtakes them
  if (welcomed_) send(exit);
  if (keeping_) {
    stop_keeping();
    if (!ending_) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (standby_ && first_) {
    if (!ending_ && ended_before_first() && !all_exited()) {
      end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
    }
    if (welcomed_) send_heartbeat(now);  // nobody need wait for them
  } else if (standby_ && !ending_) {
    // A newcomer's process has nothing to do that it could end with: the pod fails, and policy sees that.
    leave(end.code == 0 ? 1 : end.code, now);
  }
  // What is left now was left behind; it is not asked, only ended.
  if (ending_ && all_exited()) actions_.push_back(KillProcesses{});
}

void MemberState::on_no_process_left(MonotonicTime now) {
  // Said again, it is no news: what it let go on has been asked for. Before all have exited a start is under way.
  if (!alive_ || !all_exited()) return;
  alive_ = false;
  ending_.reset();
  if (leave_with_) {
    leave_when_told(now);
  } else if (propose_ && !ready_) {
    prepare_ready();
  } else if (warming_) {
    prepare_warm();
  }
}

void MemberState::on_terminate(int code, Duration grace, MonotonicTime now) {
  // The pod of a finished job may be deleted before the coordinator's DONE has reached it; its work was done all the
  // same.
  const bool succeeded = !ranks_.empty() && std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    const auto& exit = entry.second.exit;
    return exit && exit->reason == Exit::Reason::kOwn && exit->code == 0 && exit->signal == 0;
  });
  // Asked over the link all ranks of the job would stop; the signal alone asks these to leave.
  if (alive_) end_processes(Exit::Reason::kTerminated, grace, false, now);
  leave(succeeded ? 0 : code, now);
}

void MemberState::end_processes(Exit::Reason reason, Duration grace, bool ask, MonotonicTime now) {
  const MonotonicTime kill_at = now + grace;
  if (ending_) {
    ending_->kill_at = std::min(ending_->kill_at, kill_at);
    return;
  }
  ending_ = Ending{kill_at, reason};
  actions_.push_back(EndProcesses{ask});
  if (all_exited()) actions_.push_back(KillProcesses{});
}

void MemberState::leave(int code, MonotonicTime now) {
  drop_proposal();
  warming_.reset();
  if (!leave_with_ || *leave_with_ == 0) leave_with_ = code;
  if (alive_) {
    if (!ending_) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
    return;
  }
  leave_when_told(now);
}

bool MemberState::acknowledged() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& entry) { return entry.second.acknowledged || !entry.second.exit; });
}

// Of a job that stops the exits are acknowledged once its last checkpoint is recorded.
Duration MemberState::wait_for_acks() const {
  return checkpoint_ ? options_.tell_checkpoint_within : options_.flush_exits_within;
}

void MemberState::leave_when_told(MonotonicTime now) {
  leave_at_ = now + wait_for_acks();
  leave_by_ = now + options_.tell_checkpoint_within;
  leave_if_done(now);
}

void MemberState::leave_if_done(MonotonicTime now) {
  if (!leave_with_ || alive_ || left_) return;
  const bool told = welcomed_ ? acknowledged() : !checkpoint_unsaid_ || unwanted_;
  if (!told && now < (welcomed_ ? leave_at_ : leave_by_)) return;
  left_ = true;
  actions_.push_back(ExitAgent{*leave_with_});
}

// Of the processes that are there; empty: none of them has said anything.
std::vector<IdentityRun> MemberState::identities() const {
  std::vector<IdentityRun> runs;
  bool said = false;
  for (const auto& [number, rank] : ranks_) {
    const std::string line = rank.exit ? "" : rank.identity;
    said = said || !line.empty();
    if (!runs.empty() && runs.back().line == line) {
      ++runs.back().ranks;
    } else {
      runs.push_back({1, line});
    }
  }
  return said ? runs : std::vector<IdentityRun>();
}

void MemberState::send_heartbeat(MonotonicTime now) {
  Heartbeat heartbeat;
  heartbeat.sequence = ++sequence_;
  heartbeat.phase = phase();
  heartbeat.generation = generation();
  heartbeat.up = up_;
  heartbeat.regroups = all_regroup();
  if (progress_) heartbeat.progress = progress_->second;
  heartbeat.newest_checkpoint = checkpoint_;
  for (const auto& [number, rank] : ranks_) {
    if (!alive_) break;
    // What was said after the caller had looked at its clock is new.
    const Duration age = rank.activity ? std::max(now - rank.activity_at, Duration::zero()) : Duration::zero();
    heartbeat.ranks.push_back(
        {rank.state, std::chrono::duration_cast<std::chrono::milliseconds>(age).count(), rank.activity});
  }
  if (identity_unsaid_) heartbeat.identities = identities();
  send(heartbeat);
  unsaid_ = checkpoint_unsaid_ = identity_unsaid_ = false;
  heartbeat_at_ = now + heartbeat_every_;
}

void MemberState::on_tick(MonotonicTime now) {
  if (heartbeat_due(now)) send_heartbeat(now);
  for (auto& [number, rank] : ranks_) {
    if (rank.exit || now < rank.kill_at) continue;
    rank.kill_at = MonotonicTime::max();
    actions_.push_back(KillProcess{number});
  }
  if (!welcomed_ && alive_ && !ending_ && now >= alone_since_ + options_.orphan_after) {
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (keeping_ && !ready_ && !ending_ && now >= hold_until_) {
    stop_keeping();
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
  if (ending_ && now >= ending_->kill_at) {
    actions_.push_back(KillProcesses{});
    ending_->kill_at = now + kKillAgainAfter;
  }
  leave_if_done(now);
}

MonotonicTime MemberState::deadline() const {
  MonotonicTime next = MonotonicTime::max();
  if (welcomed_) next = std::min(next, heartbeat_at_);
  if (!welcomed_ && alive_ && !ending_) next = std::min(next, alone_since_ + options_.orphan_after);
  if (keeping_ && !ready_ && !ending_) next = std::min(next, hold_until_);
  if (ending_) next = std::min(next, ending_->kill_at);
  for (const auto& [number, rank] : ranks_) {
    if (!rank.exit) next = std::min(next, rank.kill_at);
  }
  if (leave_with_ && !alive_ && !left_) next = std::min(next, welcomed_ ? leave_at_ : leave_by_);
  return next;
}

}  // namespace lockstep::rendezvous
