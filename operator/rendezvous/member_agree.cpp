// How a member comes from one generation to the next: PROPOSE, READY, GO, and what stays of its processes on the way.
#include <algorithm>
#include <utility>

#include "operator/rendezvous/member_state.h"
#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

void MemberState::on(const Propose& propose, MonotonicTime now) {
  using Verdict = MemberProposal::Verdict;
  const Verdict verdict = proposal_.judge(propose.id);
  if (departure_.decided() || propose.id.term < contact_.term() || verdict == Verdict::kStale) {
    ++ignored_;
    return;
  }
  if (verdict == Verdict::kKnown) {
    if (const Ready* ready = proposal_.ready()) send(*ready);
    return;
  }
  drop_proposal();
  warming_.reset();
  proposal_.accept(propose);
  if (processes_.can_stay(propose.ranks)) {
    proposal_.keep(now + options_.hold_within);
    actions_.push_back(AskHoldings{propose.id});
    Propose anew = propose;
    anew.ranks = processes_.exited();
    if (anew.ranks > 0) actions_.push_back(PrepareSockets{anew});
    if (kMutation == Mutation::kKeepUnasked) {
      for (const auto& [rank, process] : processes_.by_rank()) {
        hold(rank, {propose.id.term, propose.id.generation, {}});
      }
    }
    return;
  }
  if (processes_.alive()) end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  if (!processes_.alive() || kMutation == Mutation::kReadyWhileRunning) prepare_ready();
}

// For the proposal under way, with ranks that listen there.
Ready MemberState::ready_with(const Prepared& sockets) const {
  Ready ready;
  ready.id = proposal_.promised();
  ready.addresses = sockets.addresses;
  ready.host = sockets.host;
  ready.master_port = sockets.master_port;
  ready.life = processes_.life();
  return ready;
}

void MemberState::say_ready(const Ready& ready, bool existing) {
  proposal_.say(ready, existing);
  tell(ready);
}

// Nothing is left: READY once there are sockets for new processes, or at once for those that ended too early.
void MemberState::prepare_ready() {
  const Propose& propose = *proposal_.propose();
  if (!processes_.ended_before_first() || propose.ranks != processes_.go()->ranks) {
    actions_.push_back(PrepareSockets{propose});
    return;
  }
  say_ready(ready_with(processes_.sockets()), true);
}

void MemberState::hold(int rank, const Holding& holding) {
  if (proposal_.hold(rank, holding)) ready_to_go_on();
}

// READY, once all processes that stay have answered and there are sockets for the others.
void MemberState::ready_to_go_on() {
  Ready ready = ready_with(processes_.sockets());
  const std::vector<std::string> listening = std::exchange(ready.addresses, {});
  const Prepared* prepared = proposal_.prepared();
  std::size_t local = 0;
  std::size_t anew = 0;
  for (const auto& [rank, process] : processes_.by_rank()) {
    const StateVersion* holding = proposal_.holding_of(rank);
    if (process.exit ? prepared == nullptr : holding == nullptr) return;
    if (!process.exit) {
      ready.addresses.push_back(listening.at(local));
      ready.holdings.push_back(*holding);
    } else if (prepared->problem == api::Cause::kNone) {
      ready.addresses.push_back(prepared->addresses.at(anew++));
      ready.holdings.emplace_back();
    } else {
      ready.problem = prepared->problem;
      ready.message = prepared->message;
    }
    ++local;
  }
  ready.identities = processes_.identities();
  say_ready(ready, true);
}

void MemberState::on_prepared(const GenerationId& id, const Prepared& prepared, MonotonicTime now) {
  if (warming_ && id == warming_->go.id) {
    const Warm warm = *std::exchange(warming_, std::nullopt);
    if (prepared.problem != api::Cause::kNone) {  // READY will say so when it matters
      actions_.push_back(DropSockets{});
      return;
    }
    start(warm.go, prepared, now);
    processes_.wait(warm.first);
    return;
  }
  if (!proposal_.awaits_ready() || id != proposal_.promised()) return;
  // They may be for processes that were to be started beside others, which have ended since, too.
  const bool keeping = proposal_.keeping();
  const auto wanted = keeping ? processes_.exited() : proposal_.propose()->ranks;
  if (prepared.problem == api::Cause::kNone && prepared.addresses.size() != static_cast<std::size_t>(wanted)) return;
  if (keeping) {
    proposal_.prepare(prepared);
    return ready_to_go_on();
  }
  if (processes_.alive() && kMutation != Mutation::kReadyWhileRunning) return;
  Ready ready = ready_with(prepared);
  ready.problem = prepared.problem;
  ready.message = prepared.message;
  say_ready(ready, false);
}

// `go` is the generation of the processes that are there; they may have other ranks in it.
void MemberState::adopt(const Go& go) {
  proposal_.use(go.id.generation);
  processes_.adopt(go);
  news_.forget_progress();
  actions_.push_back(RenumberProcesses{go.first_rank});
}

// GO came for processes that have ended since READY was said for them: the generation has them, and they are dead.
void MemberState::take_over(const Go& go) {
  drop_proposal();
  adopt(go);
  for (const auto& [rank, process] : processes_.by_rank()) {
    if (process.exit) tell(*process.exit);
  }
}

void MemberState::on(const Go& go, MonotonicTime now) {
  const Propose* propose = proposal_.propose();
  const Ready* ready = proposal_.ready();
  const bool promised = go.id == proposal_.promised() || kMutation == Mutation::kGoBelowPromise;
  if (departure_.decided() || propose == nullptr || !promised || go.ranks != propose->ranks ||
      go.first_rank != propose->first_rank || (ready != nullptr && ready->problem != api::Cause::kNone)) {
    ++ignored_;
    return;
  }
  const bool listed = ready != nullptr && go.peers && go.peers->lists(go.first_rank, ready->addresses);
  if (proposal_.outlived() && (!listed || processes_.ended_before_first())) return take_over(go);
  if (ready == nullptr) {
    ++ignored_;
    return;
  }
  const Prepared sockets{ready->addresses, ready->host, ready->master_port, api::Cause::kNone, ""};
  const bool stay = proposal_.keeping();
  proposal_.drop();
  if (!stay) return start(go, sockets, now);
  processes_.listen_at(sockets);
  adopt(go);
  actions_.push_back(ContinueProcesses{go});
  const std::vector<int> anew = processes_.replace_exited();
  if (!anew.empty()) actions_.push_back(StartProcesses{go, anew});
  contact_.hasten(now);
}

void MemberState::start(const Go& go, const Prepared& sockets, MonotonicTime now) {
  proposal_.use(go.id.generation);
  processes_.listen_at(sockets);
  processes_.start(go);
  news_.forget_progress();
  actions_.push_back(StartProcesses{go, {}});
  contact_.hasten(now);
}

// The processes that are there may be of a generation that is over; only those that have answered a regroup know that.
void MemberState::on(const Warm& warm, MonotonicTime now) {
  const bool waiting = proposal_.keeping() && proposal_.ready() != nullptr;
  if (departure_.decided() || warming_ || warm.go.id.term < contact_.term() ||
      (processes_.alive() && !waiting && !processes_.all_exited())) {
    ++ignored_;
    return;
  }
  drop_proposal();
  if (waiting) {
    processes_.wait(warm.first);
    return send_heartbeat(now);
  }
  // Another generation was the first: now they are newcomers that fail.
  if (processes_.ended_before_first() && !warm.first) return leave(processes_.failure(), now);
  warming_ = warm;
  if (!processes_.alive()) prepare_warm();
}

void MemberState::prepare_warm() {
  Propose as_if;
  const Go& go = warming_->go;
  as_if.id = go.id;
  as_if.first_rank = go.first_rank;
  as_if.ranks = go.ranks;
  as_if.world_size = go.world_size;
  as_if.port = go.master_port;
  actions_.push_back(PrepareSockets{as_if});
}

void MemberState::on(const Halt& halt, MonotonicTime now) {
  if (halt.id.term < contact_.term()) {
    ++ignored_;
    return;
  }
  const Propose* propose = proposal_.propose();
  if (propose != nullptr && propose->id.generation <= halt.id.generation) drop_proposal();
  if (processes_.alive() && generation() <= halt.id.generation) {
    end_processes(Exit::Reason::kOrdered, options_.kill_grace, false, now);
  }
}

void MemberState::on(const Yield& yield, MonotonicTime) {
  if (!processes_.alive() || yield.id.term < contact_.term() || yield.id.generation != generation() ||
      proposal_.under_way() || processes_.ending()) {
    ++ignored_;
    return;
  }
  if (processes_.all_regroup()) {
    actions_.push_back(AskYield{generation()});
  } else {
    send(
        Broken{processes_.by_rank().begin()->first, {generation(), -1, "its processes can only be interrupted", true}});
  }
}

void MemberState::drop_proposal() {
  if (proposal_.drop()) actions_.push_back(DropSockets{});
}

}  // namespace lockstep::rendezvous
