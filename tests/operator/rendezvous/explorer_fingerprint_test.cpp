// Every field of a machine that counts changes its fingerprint. A field that Contents::add() forgets would make the
// explorer take different states for the same one, and look at only one of them.
#include "tests/operator/rendezvous/explorer_fingerprint.h"

#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"
#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {

// Each names all fields, so one that is added does not compile before somebody has said whether it counts. Of those
// that are left out explorer_fingerprint.cpp says why they do not.
template <typename Visit>
void Contents::each(MemberState& state, const Visit& visit) {
  auto& [options, actions, contact, proposal, processes, news, departure, warming, ignored] = state;
  visit("actions", actions);
  visit("warming", warming);
  {
    auto& [connected, welcomed, term, alone_since, heartbeat_at, heartbeat_every, sequence] = contact;
    visit("connected", connected);
    visit("welcomed", welcomed);
    visit("term", term);
    visit("alone_since", alone_since);
    visit("heartbeat_at", heartbeat_at);
  }
  auto& [promised, used, under_way] = proposal;
  visit("promised", promised.generation);
  visit("used", used);
  visit("under_way", under_way);
  if (under_way) {
    auto& [propose, ready, keeping, hold_until, held, prepared, of_existing] = *under_way;
    visit("propose", propose.first_rank);
    visit("ready", ready);
    visit("keeping", keeping);
    visit("hold_until", hold_until);
    visit("held", held);
    visit("prepared", prepared);
    visit("of_existing", of_existing);
  }
  auto& [go, ranks, sockets, life, alive, up, standby, first, ending] = processes;
  visit("go", go);
  visit("ranks", ranks);
  visit("sockets", sockets.host);
  visit("life", life);
  visit("alive", alive);
  visit("up", up);
  visit("standby", standby);
  visit("first", first);
  visit("ending", ending);
  if (ending) visit("kill_at", ending->kill_at);
  if (ending) visit("reason", ending->reason);
  for (auto& [rank, process] : ranks) {
    auto& [is_up, regroups, entry, broken, exit, left_behind, acknowledged, report, identity, process_state, activity,
           activity_at, hang, kill_at] = process;
    visit("up of a process", is_up);
    visit("regroups", regroups);
    visit("broken", broken);
    visit("exit", exit);
    visit("left_behind", left_behind);
    visit("acknowledged", acknowledged);
    visit("report", report);
    visit("identity", identity);
    visit("hang", hang);
    visit("kill_at of a process", kill_at);
  }
  auto& [progress, checkpoint, unsaid, checkpoint_unsaid, identity_unsaid] = news;
  visit("progress", progress);
  visit("checkpoint", checkpoint);
  visit("unsaid", unsaid);
  visit("checkpoint_unsaid", checkpoint_unsaid);
  visit("identity_unsaid", identity_unsaid);
  auto& [unwanted, code, leave_at, leave_by, left] = departure;
  visit("unwanted", unwanted);
  visit("code", code);
  visit("leave_at", leave_at);
  visit("leave_by", leave_by);
  visit("left", left);
}

template <typename Visit>
void Contents::each(CoordinatorState& state, const Visit& visit) {
  auto& [timing, make_key, actions, plan, contacts, keeper, generation, modes, evaluated_at, loss_due, evaluations,
         changed, progress_changed, ignored] = state;
  visit("plan", plan);
  visit("actions", actions);
  each(contacts, visit);
  each(keeper, visit);
  each(generation, visit);
  each(modes, visit);
}

template <typename Visit>
void Contents::each(Contacts& contacts, const Visit& visit) {
  auto& [timing, members, slot_of_session, unacknowledged, turned_away, joined_at, slowest_heartbeats, evict_from,
         alone_since, last_event, held_up] = contacts;
  visit("members", members);
  visit("slot_of_session", slot_of_session);
  visit("unacknowledged", unacknowledged);
  visit("joined_at", joined_at);
  visit("evict_from", evict_from);
  visit("alone_since", alone_since);
  visit("last_event", last_event);
  for (auto& [slot, member] : members) each(member, visit);
}

template <typename Visit>
void Contents::each(Member& member, const Visit& visit) {
  auto& [session, heard, activity_at, review_at, arrivals, heartbeats, generation, step, phase, regroups, expected,
         agent, life, told, start, identities, to_acknowledge] = member;
  visit("session", session);
  visit("heard", heard);
  visit("generation of a member", generation);
  visit("step of a member", step);
  visit("phase", phase);
  visit("regroups", regroups);
  visit("expected", expected.incarnation);
  visit("agent", agent);
  visit("life", life);
  visit("start", start);
  visit("identities", identities);
  visit("to_acknowledge", to_acknowledge);
  auto& [to_leave, halted, yields, warmed_at, reach] = told;
  visit("to_leave", to_leave);
  visit("halted", halted);
  visit("yields", yields);
  visit("warmed_at", warmed_at);
  visit("reach", reach);
}

template <typename Visit>
void Contents::each(RecordKeeper& keeper, const Visit& visit) {
  auto& [term, foreign_term, deposed, timing, make_key, writer, record, recorded, version, seen, work, writing,
         write_next, retry_at, error, checkpoint, checkpoint_written_at, highest] = keeper;
  visit("term", term);
  visit("foreign_term", foreign_term);
  visit("deposed", deposed);
  visit("writer", writer);
  visit("record", record);
  visit("version", version);
  visit("seen", seen);
  visit("work", work);
  visit("writing", writing.generation);
  visit("write_next", write_next);
  visit("retry_at", retry_at);
  visit("checkpoint", checkpoint);
  visit("checkpoint_written_at", checkpoint_written_at);
  visit("highest", highest);
}

template <typename Visit>
void Contents::each(Generation& part, const Visit& visit) {
  auto& [gang, in_force, early, progress, progress_place, last_advance, times, identities_changed, divergence, edges,
         evicted] = part;
  visit("in_force", in_force);
  visit("early", early);
  visit("progress", progress.step);
  visit("progress_place", progress_place);
  visit("last_advance", last_advance);
  visit("identities_changed", identities_changed);
  visit("edges", edges);
  visit("evicted", evicted);
  if (in_force) visit("kind of in_force", in_force->kind);
  if (in_force) visit("known", in_force->known);
  visit("gang", gang);
  if (gang) {
    visit("generation", gang->generation);
    visit("kind", gang->kind);
    visit("resumed", gang->resumed);
    visit("over", gang->over);
    visit("up", gang->up);
    visit("go", gang->go);
    visit("go_at", gang->go_at);
    visit("restored_step", gang->restored_step);
    visit("yields_since", gang->yields_since);
    visit("renounced_since", gang->renounced_since);
    visit("hang", gang->hang);
    auto& [exits, successes, broken, yielded, lost_slot, gather_until] = gang->end;
    visit("exits", exits);
    visit("broken", broken);
    visit("yielded", yielded);
    visit("lost_slot", lost_slot);
    visit("gather_until", gather_until);
  }
}

template <typename Visit>
void Contents::each(Modes& modes, const Visit& visit) {
  auto& [mode, illegal] = modes;
  visit("mode", mode);
  if (auto* waiting = std::get_if<mode::Waiting>(&mode)) visit("proposal for later", waiting->proposal);
  if (auto* broken = std::get_if<mode::Broken>(&mode)) {
    visit("failure", broken->failure.generation);
    visit("proposal after a failure", broken->proposal);
  }
  if (auto* stopping = std::get_if<mode::Stopping>(&mode)) {
    visit("since", stopping->stop.since);
    visit("failure before the stop", stopping->stop.failure);
    visit("finished before the stop", stopping->stop.finished);
  }
  if (auto* proposing = std::get_if<mode::Proposing>(&mode)) {
    visit("number of the proposal", proposing->proposal.generation);
    visit("at", proposing->proposal.at);
    visit("recorded", proposing->proposal.recorded);
    visit("ready", proposing->proposal.ready);
  }
}

namespace {

// Makes a value another one.
struct Change {
  MonotonicTime now;

  void operator()(MonotonicTime& time) const { time = now + std::chrono::milliseconds(77); }
  void operator()(std::string& text) const { text += "x"; }
  void operator()(bool& value) const { value = !value; }
  template <typename T>
  void operator()(T& value) const {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(static_cast<int>(value) == 0 ? 1 : 0);
    } else {
      ++value;
    }
  }
  template <typename T>
  void operator()(std::optional<T>& value) const {
    if (value) {
      value.reset();
    } else {
      value.emplace();
    }
  }
  // A mode that is up has one.
  void operator()(std::optional<Gang>& gang) const { gang = Gang{}; }
  template <typename T>
  void operator()(std::vector<T>& values) const {
    values.emplace_back();
  }
  template <typename T>
  void operator()(SlotMap<T>& values) const {
    values.put(77, T{});
  }
  template <typename K, typename V>
  void operator()(std::map<K, V>& values) const {
    values.emplace(K{77}, V{});
  }
  template <typename K, typename V>
  void operator()(std::unordered_map<K, V>& values) const {
    values.emplace(K{77}, V{});
  }
  void operator()(EdgeWatch& edges) const { edges.failed({{Place{0, 1}, Place{1, 1}}}, false, {{0, 1}, {1, 1}}); }
  template <typename... States>
  void operator()(std::variant<States...>& state) const {
    if (state.index() == 0) {
      state = mode::Finished{};
    } else {
      state = mode::Loading{};
    }
  }
};

// Fields that changed the fingerprint of some state, and those that have yet to.
using Counts = std::map<std::string, bool>;

// Changes one field of the machine after the other.
template <typename State>
void try_fields(const State& machine, MonotonicTime now, Counts& counts) {
  const auto value_of = [&](const State& state) { return Fingerprint(now).add(state).value(); };
  const std::uint64_t before = value_of(machine);
  int fields = 0;
  State probe = machine;
  Contents::each(probe, [&](const char*, auto&) { ++fields; });
  for (int changed = 0; changed < fields; ++changed) {
    State state = machine;
    int at = 0;
    std::string name;
    Contents::each(state, [&](const char* of, auto& field) {
      if (at++ != changed) return;
      name = of;
      Change{now}(field);
    });
    counts[name] = counts[name] || value_of(state) != before;
  }
}

class Fingerprints : public CoordinatorStateTest {
 protected:
  Counts counts;

  void try_fields() { rendezvous::try_fields(*job, time, counts); }
};

class MemberFingerprints : public MemberStateTest {
 protected:
  Counts counts;

  void try_fields() { rendezvous::try_fields(member, now, counts); }
};

TEST_F(MemberFingerprints, change_with_every_field_that_counts) {
  const auto says = [&](WorkerMessage message) { member.on_worker_message(1, message, now); };
  try_fields();  // alone
  join();
  run_generation(1);
  says({.up = true, .regroups = true});
  says({.checkpoint = CheckpointReport{"step-5.g1", 5, 1, "d"}});
  try_fields();  // a process runs
  member.on_disconnected(now);
  try_fields();  // and trains on without a coordinator
  join();
  tell(proposal(2));
  try_fields();  // it is asked what it holds
  says({.holding = Holding{1, 2, {}}});
  try_fields();  // READY was said
  end_process(1);
  try_fields();  // for a process that has ended
  tell(Stop{1, 0});
  try_fields();  // it leaves
  member.on_no_process_left(now);
  try_fields();
  member.on_disconnected(now);
  try_fields();
  EXPECT_GT(counts.size(), 45U);
  for (const auto& [name, counted] : counts) EXPECT_TRUE(counted) << name;
}

TEST_F(Fingerprints, change_with_every_field_that_counts) {
  plan.elastic.min_slots = 1;
  plan.elastic.stabilization_seconds = 10;
  try_fields();  // nothing is known yet
  set_plan();
  loaded();
  join(0);
  try_fields();  // waiting
  join(1);
  try_fields();  // proposing, and writing the record
  written();
  ready(0, 1);
  ready(1, 1);
  Heartbeat heartbeat = runs(1);
  heartbeat.newest_checkpoint = CheckpointReport{"step-5.g1", 5, 1, "d"};
  say(0, heartbeat);
  try_fields();  // starting
  say(0, Up{1});
  say(1, Up{1});
  try_fields();  // up
  say(1, exit(1, 1, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  try_fields();
  plan.stop = true;
  set_plan();
  try_fields();  // stopping
  EXPECT_GT(counts.size(), 70U);
  for (const auto& [name, counted] : counts) EXPECT_TRUE(counted) << name;
}

}  // namespace
}  // namespace lockstep::rendezvous
