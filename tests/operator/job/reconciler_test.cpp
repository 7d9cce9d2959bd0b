// Carrying plans out: order, refusals, names that are taken, lost answers.
#include "operator/job/reconciler.h"

#include <gtest/gtest.h>

#include "tests/operator/job/world.h"

namespace lockstep::job::reconciler_test {
namespace {

std::string reason_of(World& world, const char* type) {
  const auto job = world.job();
  const auto* condition = api::find_condition(job.status.conditions, type);
  return condition == nullptr ? "" : condition->reason;
}

TEST(Reconciler, a_job_runs_and_then_nothing_is_written) {
  World world;
  world.create_job();
  world.run(10);
  EXPECT_EQ(world.job().status.state, "Running");
  const int writes = world.mortal.writes;
  world.run(600);
  // The world's progress is constant, so that not even progress is news.
  EXPECT_EQ(world.mortal.writes, writes);
  EXPECT_TRUE(world.violations.empty());
}

TEST(Reconciler, one_service_and_one_pod_per_slot_are_created) {
  World world;
  world.create_job();
  world.run(3);
  EXPECT_EQ(world.pods().size(), 3u);
  EXPECT_TRUE(world.api.get(kube::kServices, "default", "a"));
  for (const auto& [name, times] : world.mortal.pods_created) EXPECT_EQ(times, 1) << name;
}

// A user who may create pods in a namespace can write any owner into them.
kube::Json forged_pod(World& world, const std::string& name_space, const std::string& incarnation) {
  api::OwnerReference owner = owner_reference(world.job());
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", "forged"},
            {"namespace", name_space},
            {"labels",
             {{api::kLabelJob, "a"},
              {api::kLabelJobUid, owner.uid},
              {api::kLabelSlot, "0"},
              {api::kLabelIncarnation, incarnation}}},
            {"ownerReferences", kube::Json::array({to_json(owner)})}}},
          {"spec", {{"nodeName", "node-0"}}}};
}

TEST(Reconciler, a_pod_of_another_namespace_is_never_one_of_the_job) {
  World world;
  world.create_job();
  world.run(10);
  const int writes = world.mortal.writes;
  ASSERT_TRUE(world.api.create(kube::kPods, "other", forged_pod(world, "other", "7"), {}));
  world.run(10);
  EXPECT_EQ(world.mortal.writes, writes);
  EXPECT_EQ(world.pods().size(), 3u);
  EXPECT_EQ(world.job().status.state, "Running");
  EXPECT_EQ(world.job().status.incarnation, 1);
  EXPECT_TRUE(world.api.get(kube::kPods, "other", "forged")) << "it is left alone";
}

TEST(Reconciler, a_service_of_another_namespace_stands_for_none_of_the_job) {
  World world;
  world.create_job();
  kube::Json service = build_service(world.job());
  service["metadata"]["namespace"] = "other";
  ASSERT_TRUE(world.api.create(kube::kServices, "other", service, {}));
  world.run(5);
  EXPECT_TRUE(world.api.get(kube::kServices, "default", "a"));
}

TEST(Reconciler, an_incarnation_beyond_the_bound_is_not_counted_from) {
  World world;
  world.create_job();
  world.run(10);
  ASSERT_TRUE(world.api.create(kube::kPods, "default", forged_pod(world, "default", "9223372036854775807"), {}));
  world.run(10);
  EXPECT_EQ(world.job().status.incarnation, 1);
  EXPECT_EQ(world.job().status.state, "Running");
  world.delete_pod(pod_name(world.job(), 1, 1));
  world.run(10);
  EXPECT_EQ(world.job().status.incarnation, 2);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_quota_is_a_condition_and_the_job_runs_when_it_is_raised) {
  World world;
  bool full = true;
  world.mortal.refuse_create = [&](const std::string& kind, const kube::Json&) -> std::optional<Error> {
    if (kind == "Pod" && full) return fail(ErrorCode::kForbidden, "exceeded quota: small");
    return std::nullopt;
  };
  world.create_job();
  world.run(3);
  EXPECT_EQ(reason_of(world, "Placed"), "QuotaExceeded");
  const int writes = world.mortal.writes;
  world.run(30);
  EXPECT_EQ(world.mortal.writes, writes) << "refused again without a word";
  full = false;
  world.run(40);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_quota_that_refuses_a_part_of_a_gang_releases_the_rest) {
  World world;
  bool full = true;
  world.mortal.refuse_create = [&](const std::string& kind, const kube::Json&) -> std::optional<Error> {
    if (kind == "Pod" && full && world.pods().size() >= 2) return fail(ErrorCode::kForbidden, "exceeded quota: small");
    return std::nullopt;
  };
  world.create_job();
  int turns_with_pods = 0;
  for (int turn = 0; turn < 300; ++turn) {
    world.run(1);
    turns_with_pods += world.pods().empty() ? 0 : 1;
  }
  EXPECT_LT(turns_with_pods, 60) << "each try holds pods for a moment, and tries come ever more seldom";
  EXPECT_EQ(reason_of(world, "Placed"), "QuotaExceeded");
  const auto job = world.job();
  const auto* placed = api::find_condition(job.status.conditions, "Placed");
  ASSERT_NE(placed, nullptr);
  EXPECT_NE(placed->message.find("released until all of them fit"), std::string::npos) << placed->message;
  EXPECT_TRUE(world.job().status.attempts.empty()) << "a release is no failure";
  for (const auto& [name, times] : world.mortal.pods_created) EXPECT_EQ(times, 1) << name;
  full = false;
  world.run(60);
  EXPECT_EQ(world.job().status.state, "Running");
  EXPECT_TRUE(world.violations.empty());
}

TEST(Reconciler, a_quota_that_refuses_a_replacement_releases_no_survivor) {
  World world;
  world.create_job();
  world.run(10);
  ASSERT_EQ(world.job().status.state, "Running");
  world.mortal.refuse_create = [](const std::string& kind, const kube::Json&) -> std::optional<Error> {
    if (kind == "Pod") return fail(ErrorCode::kForbidden, "exceeded quota: small");
    return std::nullopt;
  };
  world.gang_holds_state = true;
  world.fail_pod(pod_name(world.job(), 1, 1), 1);
  world.run(30);
  int live = 0;
  for (const auto& pod : world.pods()) live += pod.terminal() || pod.meta.deleted ? 0 : 1;
  EXPECT_EQ(live, 2) << "they hold what they have trained";
  world.mortal.refuse_create = {};
  world.run(60);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_pod_that_is_refused_as_invalid_fails_the_job) {
  World world;
  world.mortal.refuse_create = [](const std::string& kind, const kube::Json&) -> std::optional<Error> {
    if (kind == "Pod") return fail(ErrorCode::kInvalid, "spec.containers[0].image: Required value");
    return std::nullopt;
  };
  world.create_job();
  world.run(4);
  EXPECT_EQ(reason_of(world, "Failed"), "PodRefused");
}

TEST(Reconciler, a_namespace_that_wants_non_root_pods_gets_them) {
  World world;
  world.mortal.refuse_create = [](const std::string& kind, const kube::Json& object) -> std::optional<Error> {
    if (kind != "Pod" || object["spec"]["securityContext"].value("runAsNonRoot", false)) return std::nullopt;
    return fail(ErrorCode::kForbidden, "violates PodSecurity \"restricted:latest\": runAsNonRoot != true");
  };
  world.create_job();
  world.run(10);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_name_that_somebody_else_has_is_a_condition) {
  World world;
  world.create_job();
  const auto name = pod_name(world.job(), 1, 1);
  const kube::Json foreign{{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"metadata", {{"name", name}, {"namespace", "default"}}},
                           {"spec", {{"nodeName", "node-0"}}}};
  ASSERT_TRUE(world.api.create(kube::kPods, "default", foreign, {}));
  world.run(5);
  EXPECT_EQ(reason_of(world, "Placed"), "NameConflict");
  EXPECT_TRUE(world.api.get(kube::kPods, "default", name)) << "it is left alone";
  world.delete_pod(name);
  (void)world.api.remove(kube::kPods, "default", name, {.grace_period_seconds = 0});
  world.run(20);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_service_that_somebody_else_has_is_a_condition) {
  World world;
  const kube::Json foreign{
      {"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", {{"name", "a"}, {"namespace", "default"}}}};
  ASSERT_TRUE(world.api.create(kube::kServices, "default", foreign, {}));
  world.create_job();
  world.run(5);
  EXPECT_EQ(reason_of(world, "Placed"), "NameConflict");
  EXPECT_TRUE(world.pods().empty());
}

TEST(Reconciler, a_job_that_is_deleted_is_forgotten) {
  World world;
  world.create_job();
  world.run(10);
  ASSERT_TRUE(world.api.remove(kube::kTrainingJobs, "default", "a", {}));
  const int writes = world.mortal.writes;
  world.run(10);
  EXPECT_EQ(world.mortal.writes, writes);
}

TEST(Reconciler, events_follow_a_status_that_was_written) {
  World world;
  world.create_job();
  world.run(10);
  ASSERT_FALSE(world.events.empty());
  EXPECT_EQ(world.events.back().reason, "Running");
  const auto count = world.events.size();
  world.run(50);
  EXPECT_EQ(world.events.size(), count);
}

TEST(Reconciler, many_sick_nodes_are_told_once_and_nobody_leaves) {
  World world;
  world.create_job([](api::TrainingJob& job) { job.spec.spares = 1; });
  world.run(10);
  const auto pods = world.pods();
  ASSERT_EQ(pods.size(), 4U);
  for (int slot = 0; slot < 3; ++slot) world.sicken(pod_name(world.job(), slot, 1));
  world.run(60);
  EXPECT_EQ(world.left, 0);
  EXPECT_EQ(world.mortal.pods_created.size(), pods.size());
  std::vector<std::string> told;
  for (const auto& event : world.events) {
    if (event.reason == "ManyNodesSick") told.push_back(event.note);
  }
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("more than 20 % of all nodes became sick together"), std::string::npos) << told[0];
}

TEST(Reconciler, each_phase_of_a_recovery_is_counted_once) {
  World world;
  world.create_job();
  world.run(10);
  EXPECT_NE(world.metrics.text().find("lockstep_recovery_phase_seconds_count{phase=\"agree\"} 0\n"), std::string::npos);
  world.break_gang(api::Cause::kProcessSignal, 1, 137);
  world.run(30);
  const std::string text = world.metrics.text();
  EXPECT_NE(text.find("lockstep_recovery_phase_seconds_count{phase=\"agree\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lockstep_recovery_phase_seconds_bucket{phase=\"start\",le=\"0.2\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("lockstep_recovery_phase_seconds_bucket{phase=\"start\",le=\"0.5\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("lockstep_recovery_phase_seconds_count{phase=\"transfer\"} 0\n"), std::string::npos)
      << "nobody has told";
}

TEST(Reconciler, attempts_of_each_cause_are_counted_from_0) {
  World world;
  world.create_job();
  world.run(10);
  EXPECT_NE(world.metrics.text().find("lockstep_attempts_total{cause=\"ProcessSignal\"} 0\n"), std::string::npos);
  world.break_gang(api::Cause::kProcessSignal, 1, 137);
  world.run(30);
  const std::string text = world.metrics.text();
  EXPECT_NE(text.find("lockstep_attempts_total{cause=\"ProcessSignal\"} 1\n"), std::string::npos) << text;
  for (const api::Cause cause : api::all_causes()) {
    EXPECT_NE(text.find("lockstep_attempts_total{cause=\"" + std::string(api::name_of(cause)) + "\"}"),
              std::string::npos)
        << api::name_of(cause);
  }
}

TEST(Reconciler, a_restart_keeps_pods_and_a_lost_pod_does_not) {
  World world;
  world.create_job();
  world.run(10);
  world.break_gang(api::Cause::kProcessSignal, 1, 137);
  world.run(10);
  EXPECT_EQ(world.job().status.state, "Running");
  EXPECT_EQ(world.mortal.pods_created.size(), 3u);
  world.delete_pod(world.pods()[0].meta.name);
  world.run(10);
  EXPECT_EQ(world.job().status.state, "Running");
  EXPECT_EQ(world.mortal.pods_created.size(), 4u);
  EXPECT_EQ(world.job().status.attempts.size(), 2u);
}

// ---- a wall clock that is set back ----

TEST(Reconciler, a_refused_create_is_tried_again_after_the_clock_was_set_back) {
  World world;
  bool full = true;
  world.mortal.refuse_create = [&](const std::string& kind, const kube::Json&) -> std::optional<Error> {
    if (kind == "Pod" && full) return fail(ErrorCode::kForbidden, "exceeded quota: small");
    return std::nullopt;
  };
  world.create_job();
  world.run(5);
  world.clock.jump_wall(-std::chrono::hours(24));
  full = false;
  world.run(40);
  EXPECT_EQ(world.job().status.state, "Running");
}

TEST(Reconciler, a_status_is_written_after_the_clock_was_set_back) {
  World world;
  world.create_job();
  world.run(10);
  world.clock.jump_wall(-std::chrono::hours(24));
  const auto name = world.pods()[0].meta.name;
  auto pod = world.api.get(kube::kPods, "default", name);
  (*pod)["status"]["conditions"][0]["status"] = "False";
  ASSERT_TRUE(world.api.replace(kube::kPods, "default", name, *pod, "status"));
  world.run(3);
  EXPECT_EQ(world.job().status.nodes.ready, 2);
}

TEST(Reconciler, a_silent_agent_has_its_time_when_the_clock_is_set_back) {
  World world;
  world.create_job();
  world.run(10);
  world.gang.silent[1] = true;
  world.run(3);
  world.clock.jump_wall(-std::chrono::hours(24));
  world.run(50);
  EXPECT_EQ(world.mortal.pods_created.size(), 3u) << "60 s are not over";
  world.run(10);
  EXPECT_EQ(world.mortal.pods_created.size(), 4u);
}

// ---- what a job that was deleted with --cascade=orphan leaves behind ----

TEST(Reconciler, a_job_takes_over_the_service_of_a_predecessor_that_is_gone) {
  World world;
  world.create_job();
  world.run(10);
  const std::string before = world.job().meta.uid;
  ASSERT_TRUE(world.api.remove(kube::kTrainingJobs, "default", "a", {.propagation = "Orphan"}));
  world.run(2);
  ASSERT_TRUE(world.api.get(kube::kServices, "default", "a"));
  world.create_job();
  ASSERT_NE(world.job().meta.uid, before);
  world.run(20);
  EXPECT_EQ(reason_of(world, "Placed"), "AllPodsPlaced");
  const auto service = world.api.get(kube::kServices, "default", "a");
  const auto meta = api::parse_meta(*service);
  EXPECT_EQ(meta->controller_uid(), world.job().meta.uid);
  EXPECT_EQ(meta->label(api::kLabelJobUid), world.job().meta.uid);
  EXPECT_EQ((*service)["spec"]["selector"][api::kLabelJobUid], world.job().meta.uid);
}

}  // namespace
}  // namespace lockstep::job::reconciler_test
