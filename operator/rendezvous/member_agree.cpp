// How a member comes from one generation to the next: PROPOSE, READY, GO, and what stays of its processes on the way.
#include <algorithm>
#include <utility>

#include "operator/rendezvous/member_state.h"
#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

bool MemberState::all_regroup() const {
  return alive_ && !ending_ && std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
           return entry.second.regroups && !entry.second.exit && !entry.second.hang;
         });
}

void MemberState::on(const Propose& propose, MonotonicTime now) {
  if (leave_with_ || propose.epoch < promised_ || propose.epoch.term < term_ || propose.epoch.generation <= used_) {
    ++ignored_;
    return;
  }
  if (propose_ && propose.epoch == propose_->epoch) {
    if (ready_) send(*ready_);
    return;
  }
  if (propose.epoch == promised_) {  // promised, then called off by a HALT
    ++ignored_;
    return;
  }
  drop_proposal();
  warming_.reset();
  promised_ = propose.epoch;
  propose_ = propose;
  if (can_keep(propose)) {
    keeping_ = true;
    hold_until_ = now + options_.hold_within;
    for (auto& [number, rank] : ranks_) rank.holding.reset();
    actions_.push_back(AskHoldings{propose.epoch});
    Propose anew = propose;
    anew.ranks = to_start_anew();
    if (anew.ranks > 0) actions_.push_back(PrepareSockets{anew});
    if (kMutation == Mutation::kKeepUnasked) {
      for (auto& [number, rank] : ranks_) note_holding(rank, {propose.epoch.term, propose.epoch.generation, {}});
    }
    return;
  }
  if (alive_) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  if (!alive_ || kMutation == Mutation::kReadyWhileRunning) prepare_ready();
}

// Whether the processes can be regrouped: those that live have said that they can, and of the others nothing is left.
bool MemberState::can_keep(const Propose& propose) const {
  if (!go_ || go_->kind != Kind::kLockstep || propose.ranks != go_->ranks) return false;
  if (all_regroup()) return true;
  return alive_ && !ending_ && !standby_ && !all_exited() &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
           return entry.second.exit ? !entry.second.left_behind : entry.second.regroups && !entry.second.hang;
         });
}

// Whether one of the processes has failed, or all have ended, before there was a generation. The first one has them:
// what they ended with is told as if it had been then, so that policy sees it.
bool MemberState::ended_before_first() const {
  if (!standby_ || !first_) return false;
  const auto by_itself = [](const Rank& rank) { return rank.exit && rank.exit->reason == Exit::Reason::kOwn; };
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [&](const auto& entry) {
                       const Rank& rank = entry.second;
                       return by_itself(rank) && (rank.exit->code != 0 || rank.exit->signal != 0);
                     }) ||
         std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) { return by_itself(entry.second); });
}

// Nothing is left: READY once there are sockets for new processes, or at once for those that ended too early.
void MemberState::prepare_ready() {
  if (!ended_before_first() || propose_->ranks != go_->ranks) {
    actions_.push_back(PrepareSockets{*propose_});
    return;
  }
  Ready ready;
  ready.epoch = propose_->epoch;
  ready.addresses = offered_.addresses;
  ready.host = offered_.host;
  ready.master_port = offered_.master_port;
  ready.life = life_;
  ready_ = ready;
  kept_ready_ = true;
  if (welcomed_) send(ready);
}

// How many of the processes have ended, while the others stay.
int MemberState::to_start_anew() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.exit.has_value(); }));
}

void MemberState::note_holding(Rank& rank, const Holding& holding) {
  if (!keeping_ || !propose_ || ready_ || Epoch{holding.term, holding.generation} != propose_->epoch) return;
  rank.holding = holding.version;
  ready_to_go_on();
}

// READY, once all processes that stay have answered and there are sockets for the others.
void MemberState::ready_to_go_on() {
  Ready ready;
  std::size_t local = 0;
  std::size_t anew = 0;
  for (const auto& [number, each] : ranks_) {
    if (each.exit ? !prepared_ : !each.holding) return;
    if (!each.exit) {
      ready.addresses.push_back(offered_.addresses.at(local));
      ready.holdings.push_back(*each.holding);
    } else if (prepared_->problem == api::Cause::kNone) {
      ready.addresses.push_back(prepared_->addresses.at(anew++));
      ready.holdings.emplace_back();
    } else {
      ready.problem = prepared_->problem;
      ready.message = prepared_->message;
    }
    ++local;
  }
  ready.epoch = propose_->epoch;
  ready.host = offered_.host;
  ready.master_port = offered_.master_port;
  ready.life = life_;
  ready.identities = identities();
  ready_ = ready;
  kept_ready_ = true;
  if (welcomed_) send(ready);
}

// A process of those that were to stay has ended: READY, said or not, is void, and new ones will be started.
void MemberState::stop_keeping() {
  keeping_ = false;
  prepared_.reset();
  ready_.reset();
}

void MemberState::on_prepared(const Epoch& epoch, const Prepared& prepared, MonotonicTime now) {
  if (warming_ && epoch == warming_->go.epoch) {
    const Warm warm = *std::exchange(warming_, std::nullopt);
    if (prepared.problem != api::Cause::kNone) {  // READY will say so when it matters
      actions_.push_back(DropSockets{});
      return;
    }
    offered_ = prepared;
    start(warm.go, now);
    standby_ = true;
    first_ = warm.first;
    return;
  }
  if (!propose_ || propose_->epoch != epoch || ready_) return;
  // They may be for processes that were to be started beside others, which have ended since, too.
  const auto wanted = keeping_ ? to_start_anew() : propose_->ranks;
  if (prepared.problem == api::Cause::kNone && prepared.addresses.size() != static_cast<std::size_t>(wanted)) return;
  if (!keeping_ && alive_ && kMutation != Mutation::kReadyWhileRunning) return;
  if (keeping_) {
    prepared_ = prepared;
    return ready_to_go_on();
  }
  Ready ready;
  ready.epoch = epoch;
  ready.addresses = prepared.addresses;
  ready.host = prepared.host;
  ready.master_port = prepared.master_port;
  ready.life = life_;
  ready.problem = prepared.problem;
  ready.message = prepared.message;
  ready_ = ready;
  if (welcomed_) send(ready);
}

// `go` is the generation of the processes that are there; they may have other ranks in it.
void MemberState::adopt(const Go& go) {
  std::map<int, Rank> before = std::exchange(ranks_, {});
  for (auto& [number, rank] : before) {
    const int in_go = go.first_rank + (number - go_->first_rank);
    rank.up = rank.acknowledged = false;
    rank.entry = {};
    rank.holding.reset();
    rank.broken.reset();
    if (rank.exit) {
      rank.exit->generation = go.epoch.generation;
      rank.exit->rank = in_go;
    }
    ranks_[in_go] = std::move(rank);
  }
  go_ = go;
  used_ = std::max(used_, go.epoch.generation);
  up_ = standby_ = first_ = false;
  progress_.reset();
  actions_.push_back(RenumberProcesses{go.first_rank});
}

// GO came for processes that have ended since READY was said for them: the generation has them, and they are dead.
void MemberState::take_over(const Go& go) {
  drop_proposal();
  adopt(go);
  for (const auto& [number, rank] : ranks_) {
    if (rank.exit && welcomed_) send(*rank.exit);
  }
}

void MemberState::on(const Go& go, MonotonicTime now) {
  const bool promised = go.epoch == promised_ || kMutation == Mutation::kGoBelowPromise;
  if (leave_with_ || !propose_ || !promised || go.ranks != propose_->ranks || go.first_rank != propose_->first_rank ||
      (ready_ && ready_->problem != api::Cause::kNone)) {
    ++ignored_;
    return;
  }
  const bool listed = ready_ && go.peers && go.peers->lists(go.first_rank, ready_->addresses);
  if (kept_ready_ && !keeping_ && (!listed || ended_before_first())) return take_over(go);
  if (!ready_) {
    ++ignored_;
    return;
  }
  offered_ = {ready_->addresses, ready_->host, ready_->master_port, api::Cause::kNone, ""};
  propose_.reset();
  ready_.reset();
  if (std::exchange(keeping_, false)) {
    adopt(go);
    actions_.push_back(ContinueProcesses{go});
    std::vector<int> anew;
    for (auto& [number, rank] : ranks_) {
      rank.report.reset();
      if (!rank.exit) continue;
      anew.push_back(number - go.first_rank);
      rank = Rank{};
    }
    prepared_.reset();
    if (!anew.empty()) actions_.push_back(StartProcesses{go, anew});
    heartbeat_at_ = now;
    return;
  }
  start(go, now);
}

void MemberState::start(const Go& go, MonotonicTime now) {
  go_ = go;
  used_ = std::max(used_, go.epoch.generation);
  ranks_.clear();
  for (int i = 0; i < go.ranks; ++i) ranks_[go.first_rank + i];
  alive_ = true;
  ending_.reset();
  up_ = standby_ = first_ = false;
  progress_.reset();
  ++life_;
  actions_.push_back(StartProcesses{go, {}});
  heartbeat_at_ = now;
}

// The processes that are there may be of a generation that is over; only those that have answered a regroup know that.
void MemberState::on(const Warm& warm, MonotonicTime now) {
  const bool waiting = keeping_ && ready_;
  if (leave_with_ || warming_ || warm.go.epoch.term < term_ || (alive_ && !waiting && !all_exited())) {
    ++ignored_;
    return;
  }
  drop_proposal();
  if (waiting) {
    standby_ = true;
    first_ = warm.first;
    return send_heartbeat(now);
  }
  if (ended_before_first() && !warm.first) {  // another generation was the first: now they are newcomers that fail
    const auto failed = std::find_if(ranks_.begin(), ranks_.end(), [](const auto& entry) {
      return entry.second.exit && entry.second.exit->code != 0;
    });
    return leave(failed == ranks_.end() ? 1 : failed->second.exit->code, now);
  }
  warming_ = warm;
  if (!alive_) prepare_warm();
}

void MemberState::prepare_warm() {
  Propose as_if;
  const Go& go = warming_->go;
  as_if.epoch = go.epoch;
  as_if.first_rank = go.first_rank;
  as_if.ranks = go.ranks;
  as_if.world_size = go.world_size;
  as_if.port = go.master_port;
  actions_.push_back(PrepareSockets{as_if});
}

void MemberState::on(const Halt& halt, MonotonicTime now) {
  if (halt.epoch.term < term_) {
    ++ignored_;
    return;
  }
  if (propose_ && propose_->epoch.generation <= halt.epoch.generation) drop_proposal();
  if (alive_ && generation() <= halt.epoch.generation) {
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
}

void MemberState::on(const Yield& yield, MonotonicTime) {
  if (!alive_ || yield.epoch.term < term_ || yield.epoch.generation != generation() || propose_ || ending_) {
    ++ignored_;
    return;
  }
  if (all_regroup()) {
    actions_.push_back(AskYield{generation()});
  } else {
    send(Broken{ranks_.begin()->first, {generation(), -1, "its processes can only be interrupted", true}});
  }
}

void MemberState::drop_proposal() {
  keeping_ = kept_ready_ = false;
  prepared_.reset();
  if (propose_) actions_.push_back(DropSockets{});
  propose_.reset();
  ready_.reset();
}

}  // namespace lockstep::rendezvous
