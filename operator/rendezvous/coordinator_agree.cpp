// From members that are there to a generation that runs: who goes on, PROPOSE, READY, the record, GO.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/failure_choice.h"
#include "operator/rendezvous/gang_choice.h"
#include "operator/rendezvous/mutation.h"
#include "operator/rendezvous/rank_order.h"

namespace lockstep::rendezvous {
namespace {

// Slots are sorted wherever there are several.
bool among(const std::vector<int>& slots, int slot) {
  return std::binary_search(slots.begin(), slots.end(), slot);
}

}  // namespace

void CoordinatorState::evaluate_waiting(Now now) {
  if (const std::vector<int> slots = next_gang(now); !slots.empty()) {
    if (awaits_warm(slots, now)) return;
    if (!proposes(slots)) propose(slots, now);
    record_proposal(now);
  } else {
    modes_.set_proposal(std::nullopt);
  }
}

// While the controller decides what becomes of a failure, processes that can stay end their communicators and say what
// they hold; if the job goes on, only the record is missing then. A foreign program is not ended before the word is
// spoken: if the job stops, it has its grace to save what it likes.
void CoordinatorState::evaluate_broken(Now now) {
  if (plan_->kind != Kind::kLockstep || gang().over) return;
  const std::vector<int> slots = next_gang(now);
  if (slots.empty()) {
    modes_.set_proposal(std::nullopt);
  } else if (!proposes(slots)) {
    propose(slots, now);
  }
}

// The members that may form a generation now; empty: nobody yet.
std::vector<int> CoordinatorState::next_gang(Now now) const {
  if (!keeper_.claimed() || plan_->slots < 1 || too_few()) return {};
  const std::vector<int> all = present(now);
  std::vector<int> near = all;
  std::erase_if(near, [this](int slot) {
    const Member& member = contacts_.at(slot);
    return unreaching(member) || differs_from_gang(member);
  });
  // Survivors do not wait for restarts if enough of them are left or spares are warm.
  if (generation_.exists()) {
    if (std::vector<int> slots = may_form(choose(quick(near)), now); !slots.empty()) return slots;
  }
  if (std::vector<int> slots = may_form(choose(near), now); !slots.empty()) return slots;
  return near.size() < all.size() ? may_form(choose(all), now) : std::vector<int>();
}

bool CoordinatorState::too_few() const {
  return contacts_.connected() < static_cast<std::size_t>(elastic() ? plan_->elastic.min_slots : plan_->slots);
}

// `slots`, with those who have to promise as well; empty: they may not.
std::vector<int> CoordinatorState::may_form(std::vector<int> slots, Now now) const {
  const bool full = slots.size() == gang_size();
  if (full && !leaves_out(slots)) return slots;
  if (!full && !elastic()) return {};
  if (slots.size() < static_cast<std::size_t>(plan_->elastic.min_slots)) return {};
  // Some other generation may be in force: nobody may be left out.
  const bool unclear = generation_.unclear() && kMutation != Mutation::kDisjointSuccessor;
  if (full && unclear) {
    // All of the record's have to promise, though that makes the gang too large for a step.
    std::vector<int> all;
    for (const int slot : present(now)) {
      if (among(slots, slot) || generation_.in_force_has(contacts_.at(slot))) all.push_back(slot);
    }
    return leaves_out(all) ? std::vector<int>() : all;
  }
  if (unclear || !generation_.ends_with(contacts_, [&](int slot) { return among(slots, slot); })) return {};
  for (const auto& [slot, member] : contacts_.members()) {
    // One that was here a moment ago is back in a moment, or lost.
    const bool known_lost = generation_.exists() && gang().end.lost_slot == slot && generation_.has(member);
    if (member.session != 0 || member.expected.leaving || known_lost || (full && !generation_.has(member))) continue;
    if (!member.agent.empty() && !contacts_.silent(member, now.time)) return {};
  }
  // The survivors of a generation go on at once. A job that starts, and one whose members have yet to find this
  // coordinator, waits for the others.
  const bool goes_on = (generation_.exists() || full) && contacts_.may_evict(now.time);
  return goes_on || stable(now) ? slots : std::vector<int>();
}

// Whether the proposal that is out is of these slots, as they are planned now.
bool CoordinatorState::proposes(const std::vector<int>& slots) const {
  const Proposal* proposal = modes_.proposal();
  return proposal != nullptr && proposal->procs() == plan_->procs_per_node && contacts_.still_expects(*proposal) &&
         slots.size() == proposal->size() &&
         std::all_of(slots.begin(), slots.end(), [&](int slot) { return proposal->has(slot); });
}

std::vector<int> CoordinatorState::present(Now now) const {
  std::vector<int> slots;
  for (const auto& [slot, member] : contacts_.members()) {
    if (slot < 0 || slot >= plan_->slots + plan_->spares || member.session == 0) continue;
    if (member.expected.leaving || generation_.evicted(member)) continue;
    if (!contacts_.silent(member, now.time)) slots.push_back(slot);
  }
  return slots;
}

std::vector<int> CoordinatorState::quick(const std::vector<int>& slots) const {
  std::vector<int> found;
  for (const int slot : slots) {
    const Member& member = contacts_.at(slot);
    const bool died = generation_.has(member) && gang().some_exited(slot);
    const bool holds = member.regroups && !died && (generation_.has(member) || member.phase == MemberPhase::kReady);
    if (holds || member.phase == MemberPhase::kWarm) found.push_back(slot);
  }
  return found;
}

Go CoordinatorState::go_for(const Roster& roster) const {
  Go go;
  go.job = plan_->name;
  go.job_uid = plan_->uid;
  go.kind = plan_->kind;
  go.ranks = roster.procs();
  go.world_size = roster.ranks();
  go.group_world_size = static_cast<int>(roster.size());
  go.program = plan_->program;
  return go;
}

std::vector<int> CoordinatorState::choose(const std::vector<int>& slots) const {
  std::vector<Candidate> candidates;
  candidates.reserve(slots.size());
  for (const int slot : slots) candidates.push_back({slot, generation_.has(contacts_.at(slot))});
  return choose_gang(std::move(candidates), gang_size());
}

bool CoordinatorState::leaves_out(const std::vector<int>& slots) const {
  return std::any_of(contacts_.members().begin(), contacts_.members().end(), [&](const auto& entry) {
    const auto& [slot, member] = entry;
    if (member.expected.leaving || among(slots, slot)) return false;
    return generation_.has(member) || generation_.in_force_has(member);
  });
}

bool CoordinatorState::stable(Now now) const {
  return contacts_.stable(std::chrono::seconds(plan_->elastic.stabilization_seconds), now.time);
}

// Slots that have come while an elastic gang runs without them are taken in: the next generation has them too. It must
// have got a step further first, so that members which come and go do not keep the others from training. A gang that is
// larger than it is to be gives up the members that it does not need; they become spares. Ranks of our trainer end the
// generation themselves, after a step; others, and those that do not come to the end of one, are interrupted.
void CoordinatorState::evaluate_growth(Now now) {
  if (mode() != Mode::kUp) return;
  if (gang().yields_since) {
    if (now.time - *gang().yields_since > timing_.yield_within) end_gang();
    return;
  }
  if (gang().size() == gang_size()) return;
  const std::vector<int> there = present(now);
  const bool stays = plan_->kind == Kind::kLockstep && contacts_.all_regroup(gang());
  std::vector<int> fit = stays ? quick(there) : there;
  const std::size_t now_size = gang().size();
  const bool too_large = now_size > gang_size();
  if (stays && now_size < gang_size()) {
    std::erase_if(fit, [&](int slot) {
      Member& member = contacts_.at(slot);
      return !generation_.has(member) && (differs_from_gang(member) || !reaches_gang(member, now));
    });
  }
  const std::size_t size = std::min(fit.size(), gang_size());
  if (!too_large && size <= now_size) return;
  // The controller tells a member with foreign processes to leave.
  if (too_large && plan_->kind != Kind::kLockstep) return;
  for (const auto& [slot, incarnation] : gang().places()) {
    if (!among(there, slot) || gang().exited(slot)) return;
  }
  const bool whole = size == gang_size() || too_large;
  const bool advanced = generation_.last_advance() > gang().up_at || plan_->kind != Kind::kLockstep;
  if (!advanced || !(whole || stable(now))) return;
  if (plan_->kind != Kind::kLockstep) return end_gang();
  gang().yields_since = now.time;
  // What is reported only now, or never, is of the step that somebody has told of.
  generation_.note_first_step(generation_.last_advance());
  changed_ = true;
}

// By the nodes of their pods, whatever scheduler bound them.
std::vector<Place> CoordinatorState::in_order_of_rank(const std::vector<int>& slots) const {
  std::vector<LocatedMember> members;
  members.reserve(slots.size());
  for (const int slot : slots) {
    const Member& member = contacts_.at(slot);
    const std::vector<std::string>& domains = member.expected.path;
    LocatedMember located{member.place(), {domains.begin(), domains.end()}};
    if (!domains.empty()) located.path.push_back(member.expected.node);
    members.push_back(std::move(located));
  }
  return rank_order(generation_.exists() ? gang().places() : std::vector<Place>(), std::move(members));
}

void CoordinatorState::propose(const std::vector<int>& slots, Now now) {
  Proposal proposal;
  static_cast<Roster&>(proposal) = Roster(in_order_of_rank(slots), plan_->procs_per_node);
  proposal.generation = keeper_.next_number();
  proposal.at = now.time;
  modes_.set_proposal(std::move(proposal));
  const Failure* failure = modes_.failure();
  const bool recovers = failure != nullptr || !generation_.exists() || !gang().yields_since;
  if (recovers) {
    generation_.times() = {.after = failure != nullptr     ? failure->generation
                                    : generation_.exists() ? gang().generation
                                                           : 0};
  }
  for (const int slot : slots) send_propose(contacts_.at(slot));
}

void CoordinatorState::record_proposal(Now now) {
  Proposal proposal = *modes_.take_proposal();
  proposal.permitted_at = now.time;
  Record record;
  record.generation = proposal.generation;
  for (const auto& [slot, incarnation] : proposal.places()) {
    record.members.push_back({slot, incarnation, contacts_.at(slot).life + 1});
  }
  enter(mode::Proposing{std::move(proposal)});
  record.checkpoint = keeper_.checkpoint();
  write(record);
}

void CoordinatorState::send_propose(const Member& member) {
  if (member.session == 0) return;
  const Proposal& proposal = *modes_.proposal();
  Propose propose;
  propose.id = {keeper_.term(), proposal.generation};
  propose.first_rank = proposal.first_rank(member.expected.slot);
  propose.ranks = proposal.procs();
  propose.world_size = proposal.ranks();
  propose.port = plan_->port;
  send(member.session, propose);
}

void CoordinatorState::discard_proposal() {
  keeper_.forget_next();
  if (kMutation == Mutation::kReuseNumber) keeper_.reuse_number();
  enter(mode::Waiting{});
}

void CoordinatorState::evaluate_proposal(Now now) {
  const Proposal& proposal = *modes_.proposal();
  if (!contacts_.still_expects(proposal) || contacts_.somebody_leaves(proposal) ||
      proposal.procs() != plan_->procs_per_node) {
    return discard_proposal();
  }
  int missing = -1;
  for (const auto& [slot, incarnation] : proposal.places()) {
    const Member& member = contacts_.at(slot);
    if (contacts_.silent(member, now.time)) return discard_proposal();
    if (missing < 0 && proposal.ready.count(slot) == 0) missing = slot;
  }
  const bool recorded = proposal.recorded || kMutation == Mutation::kGoBeforeRecord;
  if (!recorded) return;
  for (const auto& [slot, ready] : proposal.ready) {
    if (ready.problem == api::Cause::kNone) continue;
    return give_up_proposal(slot, ready.problem, ready.message, now);
  }
  if (missing < 0) {
    if (const auto difference = difference_in(proposal)) {
      return give_up_proposal(difference->slot, api::Cause::kIdentityMismatch, in_words(*difference), now);
    }
  }
  const auto promised = [&](int slot) { return proposal.ready.count(slot) != 0; };
  if (missing < 0 && generation_.ends_with(contacts_, promised)) return go(now);
  if (missing >= 0 && now.time - proposal.at > timing_.ready_within) {
    give_up_proposal(missing, api::Cause::kStartTimeout,
                     fmt::format("slot {} (pod {}) did not confirm within {:.1f} s that its old processes are gone",
                                 missing, contacts_.at(missing).expected.pod_name,
                                 static_cast<double>(milliseconds(timing_.ready_within)) / 1000),
                     now);
  }
}

Gang CoordinatorState::proposed_gang() const {
  Gang gang;
  static_cast<Roster&>(gang) = *modes_.proposal();
  gang.generation = modes_.proposal()->generation;
  gang.kind = plan_->kind;
  return gang;
}

// The proposal cannot become a generation: it counts as one that failed, and policy decides.
void CoordinatorState::give_up_proposal(int slot, api::Cause cause, std::string message, Now now) {
  generation_.fail_to_start(proposed_gang());
  Failure failure;
  failure.cause = cause;
  failure.slot = slot;
  failure.rank = gang().first_rank(slot);
  failure.message = std::move(message);
  failure.time = now.wall;
  failure.detect_ms = 0;
  break_gang(failure);
}

std::vector<HeldState> CoordinatorState::held_states() const {
  const Proposal& proposal = *modes_.proposal();
  std::vector<HeldState> held;
  for (const auto& [slot, incarnation] : proposal.places()) {
    const Ready& ready = proposal.ready.at(slot);
    for (std::size_t i = 0; i < ready.holdings.size(); ++i) {
      if (ready.holdings[i].digest.empty()) continue;  // it had not come as far as to hold anything
      held.push_back({proposal.first_rank(slot) + static_cast<int>(i), ready.holdings[i]});
    }
  }
  return held;
}

void CoordinatorState::go(Now now) {
  const Proposal& proposal = *modes_.proposal();
  Gang gang = proposed_gang();
  gang.go_at = now.time;

  Go go = go_for(gang);
  go.id = {keeper_.term(), gang.generation};
  std::vector<PeerBlock::Member> peers;
  peers.reserve(gang.size());
  for (const auto& [slot, incarnation] : gang.places()) {
    peers.push_back({slot, incarnation, proposal.ready.at(slot).addresses});
  }
  go.peers = Peers(std::move(peers));
  const Ready& first = proposal.ready.at(gang.slot_of(0));
  go.master_addr = first.host;
  go.master_port = first.master_port;
  go.key = make_key_();
  if (kMutation == Mutation::kReuseKey && generation_.exists() && this->gang().go) go.key = this->gang().go->key;
  SourceChoice choice = choose_source(held_states(), gang.ranks(), keeper_.checkpoint());
  go.source = choice.source;
  if (!choice.divergence.empty()) {
    generation_.note_divergence(fmt::format("generation {}: {}", gang.generation, choice.divergence));
  }
  if (go.source.rank < 0 && keeper_.checkpoint()) go.restore = keeper_.checkpoint()->name;
  gang.restored_step = go.source.rank >= 0    ? go.source.version.step
                       : keeper_.checkpoint() ? keeper_.checkpoint()->step
                                              : 0;
  gang.go = std::move(go);
  for (const auto& [slot, incarnation] : gang.places()) {
    Member& member = contacts_.at(slot);
    member.step = -1;
    member.told.warmed_at.reset();
    if (member.session != 0) send(member.session, gang.go_to(slot));
  }
  if (RecoveryTimes& times = generation_.times(); times.into == 0) {
    times.into = gang.generation;
    times.agree_ms = milliseconds(now.time - proposal.at);
    times.decide_ms = milliseconds(proposal.permitted_at - proposal.at);
    times.abort_ms = milliseconds(proposal.ready_at - proposal.at);
    times.record_ms = milliseconds(proposal.recorded_at - proposal.permitted_at);
  }
  generation_.start(std::move(gang), now.time);
  enter(mode::Starting{});
}

}  // namespace lockstep::rendezvous
