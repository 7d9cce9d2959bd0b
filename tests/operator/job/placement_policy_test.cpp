// What the placer is told of a job, and which conditions tell of placement.
#include "operator/job/placement_policy.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/job/leave_policy.h"
#include "operator/job/startup_policy.h"
#include "operator/placement/placer.h"
#include "tests/operator/job/placed.h"

namespace lockstep::job::placement_policy_test {
namespace {

using namespace std::chrono_literals;
using api::RestartStrategy;
using placement::SeatState;
using placement::Why;
using rendezvous::Phase;

// ---- what the placer is told ----

TEST(GangOf, a_job_and_its_spec) {
  Placed s(4);
  s.job.spec.spares = 1;
  s.job.spec.elastic = api::ElasticSpec{.min_nodes = 2, .max_nodes = {}};
  const auto gang = gang_of(s.snapshot());
  EXPECT_EQ(gang.key, "abcd-1");
  EXPECT_EQ(gang.name, "default/a");
  EXPECT_EQ(gang.pods, 4);
  EXPECT_EQ(gang.whole, 2);
  EXPECT_EQ(gang.spares, 1);
  EXPECT_EQ(gang.since, kStart);
  EXPECT_TRUE(gang.may_release);
  EXPECT_FALSE(gang.running);
  EXPECT_EQ(gang.held_for, 0s);
  ASSERT_EQ(gang.seats.size(), 5U);
  EXPECT_EQ(gang.seats[4], (placement::Seat{.slot = 4, .pod = "default/a-abcd-4-1", .node = {}}));
}

TEST(GangOf, a_pod_that_is_being_deleted_takes_room_until_it_is_gone) {
  Placed s(2);
  s.pod(1);
  api::Pod& ending = s.pod(0);
  EXPECT_TRUE(gang_of(s.snapshot()).ending.empty());
  ending.meta.deleted = kStart;
  const auto gang = gang_of(s.snapshot());
  ASSERT_EQ(gang.ending.size(), 1U);
  EXPECT_EQ(gang.ending[0].pod, "default/" + ending.meta.name);
  EXPECT_EQ(gang.ending[0].node, "node-0");
  EXPECT_EQ(gang.ending[0].uid, ending.meta.uid);
  EXPECT_EQ(gang.seats[0].state, SeatState::kWanted);
  ending.phase = "Failed";
  EXPECT_TRUE(gang_of(s.snapshot()).ending.empty()) << "its containers have ended";
  ending.phase = "Pending";
  ending.node_name.clear();
  EXPECT_TRUE(gang_of(s.snapshot()).ending.empty()) << "it is on no node";
}

// A gang of three that trains without a spare, and the pod of slot 1 is sick.
struct Sick : TrainingThree {
  Sick() : TrainingThree(0) {
    placing.emplace();
    sicken(1, kSignLasts);
  }
  Sickness& sicken(int slot, Duration age) {
    return sick_pods[pods.at(static_cast<size_t>(slot)).meta.name] = {"sick", age};
  }
};

TEST(GangOf, a_sick_member_that_cannot_be_spared_asks_for_a_node_for_its_successor) {
  Sick s;
  const auto gang = gang_of(s.snapshot());
  ASSERT_EQ(gang.successors.size(), 1U);
  EXPECT_EQ(gang.successors[0], (placement::Successor{.slot = 1, .pod = "default/a-abcd-1-2", .from = "node-1"}));
  EXPECT_EQ(gang.seats[1].pod, "default/a-abcd-1-1") << "it stays until then";
  s.sicken(0, kSignLasts);
  ASSERT_EQ(gang_of(s.snapshot()).successors.size(), 1U) << "one after the other";
  EXPECT_EQ(gang_of(s.snapshot()).successors[0].slot, 0);
}

TEST(GangOf, nobody_asks_for_a_node_who_leaves_without_one_or_stays_in_any_case) {
  struct Row {
    const char* why;
    std::function<void(Sick&)> change;
  };
  const Row rows[] = {
      {"the sign is young", [](Sick& s) { s.sicken(1, kSignLasts - 1s); }},
      {"the sign is doubted", [](Sick& s) { s.sicken(1, kSignLasts).doubt = "doubted"; }},
      {"enough others stay", [](Sick& s) { s.shrinks_to(2); }},
      {"the leader is new", [](Sick& s) { s.settling = true; }},
      {"a generation forms", [](Sick& s) { s.see(Phase::kProposing, 2); }},
      {"the whole gang would restart", [](Sick& s) { s.job.spec.restart.strategy = RestartStrategy::kGang; }},
      {"it came after another that left the node",
       [](Sick& s) {
         s.job.status.slots = {{{.slot = 2,
                                 .trouble = api::SlotTrouble::kUnhealthy,
                                 .pod = "a-abcd-2-0",
                                 .node = "node-1",
                                 .since = s.now,
                                 .sign = "sick"}}};
       }},
  };
  for (const Row& row : rows) {
    Sick s;
    ASSERT_FALSE(gang_of(s.snapshot()).successors.empty());
    row.change(s);
    EXPECT_TRUE(gang_of(s.snapshot()).successors.empty()) << row.why;
  }
}

TEST(GangOf, a_seat_shows_how_far_its_pod_has_come) {
  struct Row {
    const char* name;
    std::function<void(Placed&)> make;
    SeatState state;
    const char* node;
    bool unschedulable = false;
  };
  const Row rows[] = {
      {"no pod", [](Placed&) {}, SeatState::kWanted, ""},
      {"gated", [](Placed& s) { s.gated(0); }, SeatState::kGated, "node-0"},
      {"gated without its annotation", [](Placed& s) { s.gated(0).reserved_node.clear(); }, SeatState::kWanted, ""},
      {"pinned", [](Placed& s) { s.pinned(0); }, SeatState::kPinned, "node-0"},
      {"pinned, with another gate", [](Placed& s) { s.pinned(0).gates = {"x"}; }, SeatState::kPinned, "node-0"},
      {"unschedulable", [](Placed& s) { s.pinned(0).unschedulable_reason = "Unschedulable"; }, SeatState::kPinned,
       "node-0", true},
      {"gated elsewhere, too", [](Placed& s) { s.pinned(0).unschedulable_reason = "SchedulingGated"; },
       SeatState::kPinned, "node-0"},
      {"bound", [](Placed& s) { s.pod(0, 1, "Pending"); }, SeatState::kBound, "node-0"},
      {"bound elsewhere", [](Placed& s) { s.pod(0).reserved_node = "node-9"; }, SeatState::kBound, "node-0"},
      {"refused", [](Placed& s) { s.refuse(s.pod(0)); }, SeatState::kRefused, "node-0"},
      {"of kube-scheduler", [](Placed& s) { s.unbound(0); }, SeatState::kWanted, ""},
      {"unbound, and deleted", [](Placed& s) { s.pinned(0).meta.deleted = kStart; }, SeatState::kWanted, ""},
  };
  for (const Row& row : rows) {
    Placed s;
    s.accept();
    row.make(s);
    s.placing.reset();  // it is not there yet when the placer is asked
    const auto seat = s.seat(0);
    EXPECT_EQ(seat.state, row.state) << row.name;
    EXPECT_EQ(seat.node, row.node) << row.name;
    EXPECT_EQ(seat.pod, "default/a-abcd-0-1") << row.name;
    EXPECT_EQ(seat.unschedulable, row.unschedulable) << row.name;
    if (!s.pods.empty() && row.state != SeatState::kWanted) {
      EXPECT_EQ(seat.version, s.pods[0].meta.resource_version) << row.name;
    }
  }
}

TEST(GangOf, a_lost_pod_wants_a_node_under_the_name_of_its_successor) {
  Placed s(3);
  s.training();
  s.pods[1].meta.deleted = s.now;
  EXPECT_EQ(s.seat(1), (placement::Seat{.slot = 1, .pod = "default/a-abcd-1-2", .node = {}}));
  EXPECT_EQ(s.seat(0).pod, "default/a-abcd-0-1");
  s.accept();
  EXPECT_EQ(s.job.status.incarnation, 2);
  EXPECT_EQ(s.seat(1).pod, "default/a-abcd-1-2") << "the same when the loss is stored";
  EXPECT_EQ(s.seat(0).state, SeatState::kBound);
  s.job.spec.restart.strategy = RestartStrategy::kGang;
  EXPECT_EQ(s.seat(0), (placement::Seat{.slot = 0, .pod = "default/a-abcd-0-2", .node = {}})) << "all are replaced";
}

TEST(GangOf, a_gang_runs_while_survivors_hold_its_state) {
  Placed s;
  s.accept();
  s.pod(0);
  s.pod(1);
  EXPECT_FALSE(gang_of(s.snapshot()).running) << "it has not trained";
  s.see(Phase::kUp, 1);
  s.accept();
  EXPECT_TRUE(gang_of(s.snapshot()).running);
  s.job.spec.restart.strategy = RestartStrategy::kGang;
  EXPECT_FALSE(gang_of(s.snapshot()).running) << "its pods are all replaced";
  s.job.spec.restart.strategy = RestartStrategy::kInPlace;
  s.pods.clear();
  EXPECT_FALSE(gang_of(s.snapshot()).running) << "no survivor waits";
}

TEST(GangOf, is_releasable_before_it_trained_or_with_a_checkpoint) {
  Placed s;
  s.accept();
  EXPECT_TRUE(gang_of(s.snapshot()).may_release);
  s.running();
  EXPECT_FALSE(gang_of(s.snapshot()).may_release) << "a generation is up";
  s.broken(1, api::Cause::kProcessSignal, 1, 137);
  EXPECT_FALSE(gang_of(s.snapshot()).may_release) << "its end is not in the status yet";
  s.accept();
  EXPECT_FALSE(gang_of(s.snapshot()).may_release) << "its state is in its pods";
  s.job.spec.checkpoint.path = "/checkpoint";
  EXPECT_TRUE(gang_of(s.snapshot()).may_release);
  s.see(Phase::kProposing, 2);
  EXPECT_FALSE(gang_of(s.snapshot()).may_release) << "a generation is about to be";
  s.view.reset();
  EXPECT_FALSE(gang_of(s.snapshot()).may_release) << "the coordinator has not told yet what runs";
}

TEST(GangOf, is_held_for_since_the_first_pod_was_bound_and_the_gang_not_whole) {
  Placed s;
  s.place_all();
  s.accept();
  s.now += 1h;
  s.gated(1);
  EXPECT_EQ(gang_of(s.snapshot()).held_for, 0s) << "a gate holds nothing";
  s.pod(0, 1, "Pending");
  s.now += 30s;
  EXPECT_EQ(gang_of(s.snapshot()).held_for, 30s) << "not since Placed is False";
  s.pods.clear();
  s.training();
  s.now += 1h;
  EXPECT_EQ(gang_of(s.snapshot()).held_for, 0s) << "it is whole";
  s.remove("a-abcd-1-1");
  s.accept();
  s.now += 7s;
  EXPECT_EQ(gang_of(s.snapshot()).held_for, 7s) << "not since its pods are bound";
}

TEST(GangOf, avoids_the_node_of_a_partitioned_pod) {
  Placed s;
  s.training();
  s.broken(1, api::Cause::kPartitioned, 1);
  s.accept();
  EXPECT_EQ(gang_of(s.snapshot()).avoid, std::vector<std::string>{"node-1"});
  s.now += 10min;
  EXPECT_TRUE(gang_of(s.snapshot()).avoid.empty());
}

TEST(GangOf, a_resumed_job_goes_to_the_end_of_the_queue) {
  Placed s;
  s.job.spec.suspend = true;
  s.accept();
  s.accept();
  s.now += 1h;
  s.job.spec.suspend = false;
  s.accept();
  EXPECT_EQ(gang_of(s.snapshot()).since, s.now);
}

TEST(WantsNodes, until_the_job_has_ended_or_waits) {
  struct Row {
    const char* name;
    std::function<void(Placed&)> change;
    bool wants;
  };
  const Row rows[] = {
      {"new", [](Placed&) {}, true},
      {"training", [](Placed& s) { s.training(); }, true},
      {"to be suspended", [](Placed& s) { s.job.spec.suspend = true; }, false},
      {"suspended", [](Placed& s) { s.job.spec.suspend = true, s.accept(), s.job.spec.suspend = false; }, false},
      {"resumed", [](Placed& s) { s.job.spec.suspend = true, s.accept(), s.job.spec.suspend = false, s.accept(); },
       true},
      {"deleted", [](Placed& s) { s.job.meta.deleted = kStart; }, false},
      {"finished", [](Placed& s) { s.training(), s.see(Phase::kFinished, 1), s.accept(); }, false},
      {"let go",
       [](Placed& s) {
         api::set_condition(s.job.status.conditions,
                            {.type = "Restarting", .status = "True", .reason = "BelowMinimum", .message = {}}, kStart);
       },
       false},
  };
  for (const Row& row : rows) {
    Placed s;
    row.change(s);
    EXPECT_EQ(wants_nodes(s.snapshot()), row.wants) << row.name;
  }
}

// ---- conditions ----

TEST(PlacementConditions, a_wait_is_the_reason_of_placed_and_running) {
  struct Row {
    Why why;
    const char* reason;
  };
  const Row rows[] = {
      {Why::kPaused, "PlacementPaused"}, {Why::kReleasing, "GangReleased"},
      {Why::kReplacing, "Replacing"},    {Why::kNoRoom, "WaitingForRoom"},
      {Why::kTooLarge, "GangTooLarge"},  {Why::kPreferred, "PreferredLevelUnavailable"},
  };
  for (const Row& row : rows) {
    Placed s;
    s.accept();
    s.wait(row.why, 2).wait.level = 1;
    s.placing->level_name = "rack";
    const Plan plan = s.accept();
    EXPECT_EQ(s.reason("Placed"), row.reason);
    EXPECT_EQ(s.reason("Running"), row.reason);
    EXPECT_EQ(s.condition("Placed")->message, placement::describe(s.answer().wait, "rack"));
    EXPECT_EQ(plan.events.at(0).reason, row.reason);
    s.now += 1000h;
    s.accept();
    EXPECT_EQ(s.job.status.state, "Pending") << "however long it waits";
  }
}

TEST(PlacementConditions, without_an_answer_placed_says_so_and_no_event_is_sent) {
  for (const bool answered : {false, true}) {
    Placed s;
    if (answered) s.wait(Why::kUnknown);
    const Plan plan = s.accept();
    EXPECT_EQ(s.reason("Placed"), "PlacementPending");
    EXPECT_EQ(s.reason("Running"), "Starting");
    EXPECT_TRUE(plan.events.empty());
  }
}

TEST(PlacementConditions, a_job_that_cannot_be_placed_as_it_asks_says_why) {
  Placed s;
  s.placing->refusal = "placement.required: there is no level \"rak\"";
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "PlacementRefused");
  EXPECT_EQ(s.condition("Running")->message, s.placing->refusal);
  EXPECT_EQ(s.job.status.state, "Pending");
}

TEST(PlacementConditions, a_refusal_that_may_end_is_looked_at_again_ever_more_rarely) {
  Placed s;
  s.placing->refusal = "the job's pods name the PriorityClass \"late\", which the cluster does not have";
  s.accept();
  EXPECT_EQ(s.plan().requeue_after, std::nullopt) << "its spec has to change, which is an event";
  s.placing->may_end = true;
  EXPECT_EQ(s.accept().requeue_after, 5s);
  s.now += 12s;
  EXPECT_EQ(s.accept().requeue_after, 12s) << "as long as the job has waited already";
  s.now += 24h;
  EXPECT_EQ(s.accept().requeue_after, 20s);
  s.placing->refusal.clear();
  s.placing->may_end = false;
  s.place_all();
  s.accept();
  EXPECT_EQ(s.plan().creates.size(), 2U);
}

TEST(PlacementConditions, a_refusal_of_a_gang_that_has_its_nodes_waits_for_an_event) {
  Placed s;
  s.training();
  s.placing->answer.reset();
  s.placing->refusal = "the job's pods name a PriorityClass that the cluster does not have";
  s.placing->may_end = true;
  ASSERT_EQ(s.reason("Placed"), "AllPodsPlaced");
  EXPECT_EQ(s.accept().requeue_after, std::nullopt);
  s.job.spec.spares = 1;
  s.accept();
  ASSERT_EQ(s.reason("Placed"), "GangPlaced");
  EXPECT_EQ(s.accept().requeue_after, 20s) << "a spare waits";
}

TEST(PlacementConditions, a_gang_that_replaces_a_pod_says_so_until_the_pod_is_bound) {
  Placed s(3);
  s.training();
  s.remove("a-abcd-1-1");
  s.accept();
  const auto replaces = [&](const char* when) {
    EXPECT_FALSE(s.is("Placed")) << when;
    EXPECT_EQ(s.reason("Placed"), "Replacing") << when;
    EXPECT_EQ(s.condition("Placed")->message, "of 3 pods, that of slot 1 is not bound to a node") << when;
  };
  replaces("it is lost");
  s.accept();
  replaces("its successor is created");
  s.pinned(1, 2);
  s.accept();
  replaces("its successor is there");
  s.wait(Why::kNoRoom);
  s.remove("a-abcd-1-2");
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "WaitingForRoom") << "what it waits for says more";
}

TEST(PlacementConditions, a_new_gang_is_pending_and_growth_scales_up) {
  Placed s(2);
  s.place_all();
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "PodsPending");
  EXPECT_EQ(s.condition("Placed")->message, "of 2 pods, those of slots 0, 1 are not bound to nodes");
  Placed grows;
  grows.job.spec.elastic = api::ElasticSpec{.min_nodes = 1, .max_nodes = 20};
  grows.training();
  grows.job.spec.nodes = 12;
  grows.place_all();
  grows.accept();
  EXPECT_EQ(grows.reason("Placed"), "ScalingUp");
  grows.accept();
  EXPECT_EQ(grows.reason("Placed"), "ScalingUp");
  EXPECT_EQ(grows.condition("Placed")->message,
            "of 12 pods, those of slots 2, 3, 4, 5, 6, 7, 8, 9 and 2 more are not bound to nodes");
}

TEST(PlacementConditions, a_gang_whose_spare_has_no_node_names_the_slot) {
  Placed s;
  s.job.spec.spares = 1;
  s.place_all();
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot);
  s.accept();
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_EQ(s.condition("Placed")->message,
            "as many pods as train are bound to nodes; of 3 pods, that of slot 2 is not bound to a node");
}

TEST(PlacementConditions, growth_that_waits_does_not_stand_in_the_way) {
  Placed s(3);
  s.job.spec.elastic = api::ElasticSpec{.min_nodes = 2, .max_nodes = {}};
  s.place_all();
  s.accept();
  s.pod(0, 1, "Pending");
  s.pod(1, 1, "Pending");
  s.wait(Why::kNoRoom);
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "WaitingForRoom");
  EXPECT_EQ(s.reason("Running"), "Starting");
}

TEST(PlacementConditions, a_gate_of_ours_is_no_trouble) {
  Placed s;
  s.place_all();
  s.accept();
  s.gated(0);
  s.gated(1);
  EXPECT_FALSE(find_blocker(s.snapshot(), survey(s.snapshot())));
  EXPECT_EQ(waiting_for(s.snapshot(), survey(s.snapshot())),
            "pod a-abcd-0-1 waits until all pods of the gang have a node");
  s.pods[0].gates = {"example.com/quota"};
  const auto blocker = find_blocker(s.snapshot(), survey(s.snapshot()));
  ASSERT_TRUE(blocker);
  EXPECT_EQ(blocker->reason, "SchedulingGated");
  EXPECT_NE(blocker->message.find("example.com/quota"), std::string::npos);
  s.pods[0].gates.clear();
  s.pods[0].unschedulable_reason = "Unschedulable";
  EXPECT_EQ(find_blocker(s.snapshot(), survey(s.snapshot()))->reason, "Unschedulable");
}

TEST(PlacementConditions, the_start_is_timed_from_the_binding_of_enough_pods) {
  Placed s;
  s.job.spec.deadlines.startup_seconds = 60;
  s.place_all();
  s.accept();
  s.gated(0);
  s.gated(1);
  s.now += 1h;
  s.accept();
  EXPECT_EQ(s.job.status.state, "Pending");
  for (api::Pod& pod : s.pods) {
    pod.gates.clear();
    pod.node_name = pod.reserved_node;
    pod.scheduled = true;
    s.place(pod);
  }
  s.accept();
  s.now += 59s;
  s.accept();
  EXPECT_FALSE(s.is("Failed"));
  s.now += 1s;
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
}

}  // namespace
}  // namespace lockstep::job::placement_policy_test
