#include "tests/operator/rendezvous/explorer_fingerprint.h"

namespace lockstep::rendezvous {
namespace {

// Whether a struct with a base class is made of so many elements, its base being the first. A structured binding cannot
// ask that. `{}` makes any of them.
template <typename T>
constexpr bool kOf3 = requires {
  T{{}, {}, {}};
}
&&!requires {
  T{{}, {}, {}, {}};
};
template <typename T>
constexpr bool kOf8 = requires {
  T{{}, {}, {}, {}, {}, {}, {}, {}};
}
&&!requires {
  T{{}, {}, {}, {}, {}, {}, {}, {}, {}};
};
template <typename T>
constexpr bool kOf17 = requires {
  T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
}
&&!requires {
  T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
};

}  // namespace

void Contents::add(Fingerprint& to, const MemberState& state) {
  // Only all parts together tell which times are asked for.
  const auto& [options, actions, contact, proposal, processes, news, departure, warming, ignored] = state;
  to.add(options.slot, options.incarnation, contact, proposal, processes, news, departure, warming, actions.size());
  const bool welcomed = contact.welcomed(), alive = processes.alive(), ending = processes.ending();
  to.add_due(alive && !ending, contact.orphaned_at(options.orphan_after)).add_due(contact.next_heartbeat());
  to.add_due(!ending, proposal.hold_until()).add_due(!alive, departure.latest(welcomed));
}

void Contents::add(Fingerprint& to, const MemberContact& contact) {
  // The sequence is for people, and all coordinators here want heartbeats as often.
  const auto& [connected, welcomed, term, alone_since, heartbeat_at, heartbeat_every, sequence] = contact;
  to.add(connected, welcomed, term);
}

void Contents::add(Fingerprint& to, const MemberProposal& proposal) {
  const auto& [promised, used, under_way] = proposal;
  to.add(promised, used, under_way);
}

void Contents::add(Fingerprint& to, const MemberProposal::UnderWay& under_way) {
  const auto& [propose, ready, keeping, hold_until, held, prepared, of_existing] = under_way;
  to.add(propose, ready, keeping, held, prepared, of_existing);
}

void Contents::add(Fingerprint& to, const MemberProcesses& processes) {
  const auto& [go, ranks, sockets, life, alive, up, standby, first, ending] = processes;
  to.add(go, ranks, sockets, life, alive, up, standby, first, ending.has_value());
  if (!ending) return;
  const auto& [kill_at, reason] = *ending;
  to.add_due(kill_at).add(reason);
}

void Contents::add(Fingerprint& to, const MemberProcess& process) {
  // Activities are only passed on, for the watch over hangs, which is not explored.
  const auto& [up, regroups, entry, broken, exit, left_behind, acknowledged, report, identity, process_state, activity,
               activity_at, hang, kill_at] = process;
  to.add(up, regroups, broken, exit, left_behind, acknowledged, report, identity, hang.has_value(), kill_at);
}

void Contents::add(Fingerprint& to, const MemberNews& news) {
  const auto& [progress, checkpoint, unsaid, checkpoint_unsaid, identity_unsaid] = news;
  to.add(progress, checkpoint, unsaid, checkpoint_unsaid, identity_unsaid);
}

void Contents::add(Fingerprint& to, const MemberDeparture& departure) {
  const auto& [unwanted, code, leave_at, leave_by, left] = departure;
  to.add(unwanted, code, left);
}

void Contents::add(Fingerprint& to, const CoordinatorState& state) {
  const auto& [timing, make_key, actions, plan, contacts, keeper, generation, modes, evaluated_at, loss_due,
               evaluations, changed, progress_changed, ignored] = state;
  to.add(plan, contacts, keeper, generation, modes, actions.size());
  if (!plan) return;
  using std::chrono::seconds;
  to.add_due(plan->elastic.min_slots > 0, contacts.joined_at_ + seconds(plan->elastic.stabilization_seconds));
  if (!modes.active()) return;
  const Gang& gang = generation.gang();
  to.add_due(modes.now() == Mode::kStarting, gang.go_at + seconds(plan->deadlines.start_timeout_seconds));
  to.add(generation.last_advance_, generation.last_advance_ > gang.up_at);
}

void Contents::add(Fingerprint& to, const Generation& generation) {
  // Only the machine's state tells whether last_advance is asked for; times and divergence are for people.
  const auto& [gang, in_force, early, progress, progress_place, last_advance, times, identities_changed, divergence,
               edges, evicted] = generation;
  to.add(gang, in_force, early, progress, progress_place, identities_changed, edges.failures(), evicted);
}

void Contents::add(Fingerprint& to, const RecordKeeper& keeper) {
  const auto& [term, foreign_term, deposed, timing, make_key, writer, record, recorded, version, seen, work, writing,
               write_next, retry_at, error, checkpoint, checkpoint_written_at, highest] = keeper;
  to.add(term, foreign_term, deposed, writer, record, version, seen, work, write_next, checkpoint, highest);
  if (work == RecordKeeper::Work::kWrite) to.add(writing);
  to.add_due(retry_at).add_due(checkpoint.has_value(), checkpoint_written_at + timing.checkpoint_every);
}

void Contents::add(Fingerprint& to, const Contacts& contacts) {
  // Only the plan tells whether joined_at is asked for. How long a heartbeat takes is the same for all sizes here.
  const auto& [timing, members, slot_of_session, unacknowledged, turned_away, joined_at, slowest_heartbeats, evict_from,
               alone_since, last_event, held_up] = contacts;
  to.add(members, std::map<SessionId, int>(slot_of_session.begin(), slot_of_session.end()), unacknowledged, alone_since,
         last_event);
  to.add_due(evict_from);
}

void Contents::add(Fingerprint& to, const Member& member) {
  // Of `arrivals` nothing follows where a silence has one length, and no token is reviewed here.
  const auto& [session, heard, activity_at, review_at, arrivals, heartbeats, generation, step, phase, regroups,
               expected, agent, life, told, start, identities, to_acknowledge] = member;
  to.add(expected, session, agent, heard, phase, generation, life, step, start, regroups, told, identities,
         to_acknowledge);
}

void Contents::add(Fingerprint& to, const Told& told) {
  const auto& [to_leave, halted, yields, warmed_at, reach] = told;
  to.add(to_leave, halted, yields, warmed_at, reach);
}

void Contents::add(Fingerprint& to, const Reach& reach) {
  const auto& [generation, asked_at, answered, problem, failures] = reach;
  to.add(generation, asked_at, answered, problem, failures);
}

void Contents::add(Fingerprint& to, const Early& early) {
  const auto& [exits, broken, heartbeat] = early;
  to.add(exits, broken, heartbeat);
}

void Contents::add(Fingerprint& to, const Roster& roster) {
  to.add(roster.places(), roster.procs());  // the index follows from them
}

void Contents::add(Fingerprint& to, const Gang& gang) {
  static_assert(kOf17<Gang>, "add the new member here");
  add(to, static_cast<const Roster&>(gang));
  to.add(gang.generation, gang.kind, gang.resumed, gang.over, gang.up, gang.end, gang.go, gang.restored_step,
         gang.yields_since, gang.renounced_since, gang.hang.has_value());
  // The watch over hangs and rests_until see only activities. Of go_at and up_at see CoordinatorState, which alone
  // knows whether they are asked for.
}

void Contents::add(Fingerprint& to, const Ending& end) {
  const auto& [exits, successes, broken, yielded, lost_slot, gather_until] = end;
  to.add(exits, broken, yielded, lost_slot, gather_until == MonotonicTime::max());
  to.add_due(gather_until);
}

void Contents::add(Fingerprint& to, const InForce& in_force) {
  static_assert(kOf3<InForce>, "add the new member here");
  add(to, static_cast<const Roster&>(in_force));
  to.add(in_force.kind, in_force.known);
}

void Contents::add(Fingerprint& to, const Modes& modes) {
  const auto& [state, illegal] = modes;
  to.add(state);
}

void Contents::add(Fingerprint& to, const mode::Waiting& state) {
  const auto& [proposal] = state;
  to.add(proposal);
}

void Contents::add(Fingerprint& to, const mode::Proposing& state) {
  const auto& [proposal] = state;
  to.add(proposal);
}

void Contents::add(Fingerprint& to, const mode::Broken& state) {
  const auto& [failure, proposal] = state;
  to.add(failure, proposal);
}

void Contents::add(Fingerprint& to, const mode::Stop& stop) {
  const auto& [since, failure, finished] = stop;
  to.add(since, failure, finished);
}

void Contents::add(Fingerprint& to, const mode::Stopping& state) {
  const auto& [stop] = state;
  to.add(stop);
}

void Contents::add(Fingerprint& to, const mode::Stopped& state) {
  const auto& [stop] = state;
  to.add(stop);
}

void Contents::add(Fingerprint& to, const Failure& failure) {
  const auto& [generation, cause, rank, slot, exit_code, signal, message, time, detect_ms, step] = failure;
  to.add(generation, exit_code, cause == api::Cause::kPartitioned, slot);
}

void Contents::add(Fingerprint& to, const Proposal& proposal) {
  static_assert(kOf8<Proposal>, "add the new member here");
  add(to, static_cast<const Roster&>(proposal));  // of the times only `at` decides anything
  to.add(proposal.generation, proposal.at, proposal.recorded, proposal.ready);
}

void Contents::add(Fingerprint& to, const Place& place) {
  const auto& [slot, incarnation] = place;
  to.add(slot, incarnation);
}

void Contents::add(Fingerprint& to, const GenerationId& id) {
  const auto& [term, generation] = id;
  to.add(term, generation);
}

void Contents::add(Fingerprint& to, const StateVersion& version) {
  const auto& [generation, step, digest] = version;
  to.add(generation, step, digest);
}

void Contents::add(Fingerprint& to, const StateSource& source) {
  const auto& [rank, version, send] = source;
  to.add(rank, version, send);
}

void Contents::add(Fingerprint& to, const Progress& progress) {
  const auto& [step, total_steps, epoch, loss, samples_per_second, eta_seconds] = progress;
  to.add(step, total_steps, epoch, loss, samples_per_second, eta_seconds);
}

void Contents::add(Fingerprint& to, const CheckpointReport& report) {
  const auto& [name, step, generation, digest] = report;
  to.add(name, step, generation, digest);
}

void Contents::add(Fingerprint& to, const FailureReport& report) {
  const auto& [kind, suspect_rank, message] = report;
  to.add(kind, suspect_rank);
}

void Contents::add(Fingerprint& to, const BrokenReport& report) {
  const auto& [generation, suspect_rank, message, yielded, stepped] = report;
  to.add(generation, suspect_rank, yielded, stepped);
}

void Contents::add(Fingerprint& to, const Prepared& prepared) {
  const auto& [addresses, host, master_port, problem, message] = prepared;
  to.add(addresses, host, master_port, problem);
}

void Contents::add(Fingerprint& to, const IdentityRun& run) {
  const auto& [ranks, line] = run;
  to.add(ranks, line);
}

void Contents::add(Fingerprint& to, const Hello& hello) {
  const auto& [protocol, name_space, pod_name, pod_uid, slot, incarnation, token, session, phase, generation, up,
               regroups, promised, welcomed, life] = hello;
  to.add(protocol, pod_uid, slot, incarnation, session, phase, generation, up, regroups, promised, welcomed, life);
}

void Contents::add(Fingerprint& to, const Heartbeat& heartbeat) {
  const auto& [sequence, phase, generation, up, regroups, progress, newest_checkpoint, ranks, identities] = heartbeat;
  to.add(phase, generation, up, regroups, progress, newest_checkpoint, identities);  // nobody reads the sequence
}

void Contents::add(Fingerprint& to, const Ready& ready) {
  const auto& [id, addresses, holdings, host, master_port, life, problem, message, identities] = ready;
  to.add(id, addresses, holdings, host, master_port, life, problem, identities);
}

void Contents::add(Fingerprint& to, const Up& up) {
  const auto& [generation, regroups, entry] = up;
  to.add(generation, regroups);
}

void Contents::add(Fingerprint& to, const Broken& broken) {
  const auto& [rank, report] = broken;
  to.add(rank, report);
}

void Contents::add(Fingerprint& to, const Exit& exit) {
  const auto& [generation, rank, code, signal, end_ms, reason, report, stderr_tail, problem, message] = exit;
  to.add(generation, rank, code, signal, end_ms, reason, report, problem);
}

void Contents::add(Fingerprint& to, const Welcome& welcome) {
  const auto& [term, heartbeat_ms] = welcome;
  to.add(term);
}

void Contents::add(Fingerprint& to, const Refused& refused) {
  const auto& [message, final] = refused;
  to.add(message, final);
}

void Contents::add(Fingerprint& to, const Propose& propose) {
  const auto& [id, first_rank, ranks, world_size, port] = propose;
  to.add(id, first_rank, ranks, world_size, port);
}

void Contents::add(Fingerprint& to, const Go& go) {
  const auto& [id, job, job_uid, kind, first_rank, ranks, world_size, group_rank, group_world_size, peers, master_addr,
               master_port, key, source, restore, program] = go;
  to.add(id, kind, first_rank, ranks, world_size, group_rank, group_world_size, peers, master_addr, master_port, key,
         source, restore);
}

void Contents::add(Fingerprint& to, const Peers& peers) {
  to.add(static_cast<bool>(peers));
  if (!peers) return;
  for (const auto& [slot, incarnation, addresses] : peers->members()) to.add(slot, incarnation, addresses);
}

void Contents::add(Fingerprint& to, const Warm& warm) {
  const auto& [go, first] = warm;
  to.add(go, first);
}

void Contents::add(Fingerprint& to, const Abort& abort) {
  const auto& [generation, rank, message] = abort;
  to.add(generation, rank);
}

void Contents::add(Fingerprint& to, const Echo& echo) {
  const auto& [generation, peers] = echo;
  to.add(generation, peers);
}

void Contents::add(Fingerprint& to, const Echoed& echoed) {
  const auto& [generation, problem] = echoed;
  to.add(generation, problem);
}

void Contents::add(Fingerprint& to, const Ack& ack) {
  const auto& [generation, rank] = ack;
  to.add(generation, rank);
}

void Contents::add(Fingerprint& to, const Halt& halt) {
  const auto& [id] = halt;
  to.add(id);
}

void Contents::add(Fingerprint& to, const Yield& yield) {
  const auto& [id] = yield;
  to.add(id);
}

void Contents::add(Fingerprint& to, const Stop& stop) {
  const auto& [grace_seconds, exit_code] = stop;
  to.add(grace_seconds, exit_code);
}

void Contents::add(Fingerprint& to, const Record& record) {
  const auto& [format, term, writer, generation, members, checkpoint, finished, progress] = record;
  to.add(format, term, writer, generation, members, checkpoint, finished, progress);
}

void Contents::add(Fingerprint& to, const Record::Member& member) {
  const auto& [slot, incarnation, life] = member;
  to.add(slot, incarnation, life);
}

void Contents::add(Fingerprint& to, const JobPlan& plan) {
  const auto& [name_space, name, uid, kind, slots, spares, elastic, procs_per_node, port, program, members,
               handled_generation, stop, goes_on, stop_grace_seconds, deadlines] = plan;
  const auto& [min_slots, stabilization_seconds] = elastic;
  const auto& [start_timeout_seconds, progress_seconds, watch_reports] = deadlines;
  to.add(kind, slots, spares, min_slots, procs_per_node, members, handled_generation, stop, goes_on, progress_seconds);
}

void Contents::add(Fingerprint& to, const ExpectedMember& member) {
  // The path follows from slot and incarnation.
  const auto& [slot, incarnation, pod_name, pod_uid, node, leaving, path] = member;
  to.add(slot, incarnation, leaving);
}

}  // namespace lockstep::rendezvous
