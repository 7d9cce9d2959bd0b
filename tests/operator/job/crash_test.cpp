// A crash between any two writes changes nothing. The operator dies after the k-th write of a job's life, for all k,
// and the end is the same. The invariants also hold under random faults.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "tests/operator/job/world.h"
#include "tests/sanitizer.h"

namespace lockstep::job::crash_test {
namespace {

// Of the writes after which the operator dies.
constexpr int kStride = sanitizer::kOn ? 4 : 1;

// The status without times, and the pods that are left.
std::string end_state(World& world) {
  auto job = world.job();
  job.status.start_time.reset();
  job.status.completion_time.reset();
  job.status.progress.reset();
  for (auto& condition : job.status.conditions) condition.last_transition.reset();
  for (auto& attempt : job.status.attempts) attempt.start_time = attempt.end_time = std::nullopt;
  for (auto& entry : *job.status.restarts.window) entry.time = {};
  for (auto& entry : *job.status.slots) entry.since.reset();
  job.status.selector.clear();
  std::string text = api::to_json(job.status).dump(1);
  for (const auto& pod : world.pods()) {
    text += fmt::format("\nslot {} incarnation {} {}", pod.meta.label(api::kLabelSlot),
                        pod.meta.label(api::kLabelIncarnation), pod.phase);
  }
  // Names hold four characters of the uid, which differs from world to world.
  const auto part = job.meta.uid.substr(0, 4);
  for (size_t at = text.find("a-" + part); at != std::string::npos; at = text.find("a-" + part, at))
    text.replace(at, 6, "a-uid");
  return text;
}

struct Life {
  std::function<void(api::TrainingJob&)> change;
  std::vector<std::function<void(World&)>> steps;  // the next is taken when a generation is up (or nothing runs)
};

std::string pod_of_slot(World& world, int slot) {
  for (const auto& pod : world.pods()) {
    if (pod.meta.label(api::kLabelSlot) == std::to_string(slot) && !pod.meta.deleted && !pod.terminal())
      return pod.meta.name;
  }
  return "";
}

struct End {
  std::string state;
  int writes = 0;
  std::vector<std::string> violations;
  int crashes = 0;
};

End live(const Life& life, int die_after) {
  World world;
  world.mortal.die_after = die_after;
  world.create_job(life.change);
  size_t next = 0;
  std::int64_t generation = -1;
  int quiet = 0;
  world.start_operator();
  for (int turn = 0; turn < 400 && quiet < 40; ++turn) {
    const int before = world.mortal.writes;
    world.move();
    if (!world.reconcile()) world.start_operator();
    world.clock.advance(std::chrono::seconds(1));
    quiet = world.mortal.writes == before ? quiet + 1 : 0;
    const bool settled = quiet >= 3 && (world.up() || world.gang.stopped);
    if (settled && next < life.steps.size() && (world.gang.generation != generation || world.gang.stopped)) {
      generation = world.gang.generation;
      life.steps[next++](world);
      quiet = 0;
    }
  }
  if (next < life.steps.size()) world.violations.push_back(fmt::format("only {} steps were taken", next));
  for (const auto& [name, times] : world.mortal.pods_created) {
    if (times > 1) world.violations.push_back(fmt::format("pod {} was created {} times", name, times));
  }
  return {end_state(world), world.mortal.writes, world.violations, world.crashes};
}

void dies_after_every_write(const Life& life) {
  const End whole = live(life, 0);
  EXPECT_TRUE(whole.violations.empty()) << whole.violations.front();
  EXPECT_GT(whole.writes, 5);
  for (int k = 1; k <= whole.writes; k += kStride) {
    const End end = live(life, k);
    EXPECT_EQ(end.crashes, 1) << "after write " << k;
    EXPECT_TRUE(end.violations.empty()) << "after write " << k << ": " << end.violations.front();
    EXPECT_EQ(end.state, whole.state) << "after write " << k;
  }
}

const auto kKillProcess = [](World& world) { world.break_gang(api::Cause::kProcessSignal, 1, 137); };
const auto kDeletePod = [](World& world) { world.delete_pod(pod_of_slot(world, 1)); };
const auto kFailPod = [](World& world) { world.fail_pod(pod_of_slot(world, 2), 1); };
const auto kFinish = [](World& world) { world.finish(); };

TEST(Crash, recovers_from_a_death_after_any_write_of_a_job_with_faults) {
  dies_after_every_write({{}, {kKillProcess, kDeletePod, kFailPod, kFinish}});
}

TEST(Crash, after_any_write_with_strategy_gang) {
  dies_after_every_write({[](api::TrainingJob& job) { job.spec.restart.strategy = api::RestartStrategy::kGang; },
                          {kKillProcess, kDeletePod, kFinish}});
}

TEST(Crash, after_any_write_of_a_node_failure) {
  dies_after_every_write({{}, {[](World& world) { world.set_node(0, false); }, kFinish}});
}

TEST(Crash, after_any_write_of_a_job_that_fails_for_good) {
  dies_after_every_write({{}, {kKillProcess, [](World& world) { world.break_gang(api::Cause::kProcessExit, 0, 65); }}});
}

TEST(Crash, after_any_write_of_suspending_and_resuming) {
  dies_after_every_write(
      {{}, {[](World& world) { world.set_suspend(true); }, [](World& world) { world.set_suspend(false); }, kFinish}});
}

const auto kElastic = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{.min_nodes = 1}; };

TEST(Crash, after_any_write_of_scaling_up_and_down) {
  const auto to = [](int nodes) { return [nodes](World& world) { world.set_nodes(nodes); }; };
  const Life life{kElastic, {to(5), to(2), kKillProcess, to(4), to(1), kFinish}};
  dies_after_every_write(life);
  EXPECT_NE(live(life, 0).state.find("\"total\": 1"), std::string::npos) << "the one that was killed";
}

TEST(Crash, after_any_write_of_scaling_down_and_up_at_once) {
  const auto down_and_up = [](World& world) {
    world.set_nodes(1);
    (void)world.reconcile();
    world.set_nodes(3);
  };
  dies_after_every_write({kElastic, {down_and_up, kFinish}});
}

TEST(Crash, after_any_write_of_a_life_with_a_spare) {
  const auto with_spare = [](api::TrainingJob& job) { job.spec.spares = 1; };
  const auto fail_spare = [](World& world) {
    for (const int slot : {0, 1, 2, 3}) {
      if (world.gang.uid_of_slot.count(slot) == 0) world.delete_pod(pod_of_slot(world, slot));
    }
    world.break_gang(api::Cause::kProcessSignal, 0, 137);  // the next step waits for a generation
  };
  dies_after_every_write({with_spare, {kDeletePod, kFailPod, fail_spare, kKillProcess, kFinish}});
}

TEST(Crash, after_any_write_of_a_member_that_leaves_because_it_is_sick) {
  const auto with_spare = [](api::TrainingJob& job) { job.spec.spares = 1; };
  const auto sicken = [](World& world) { world.sicken(pod_of_slot(world, 1)); };
  const Life life{with_spare, {sicken, kKillProcess, kFinish}};
  dies_after_every_write(life);
  EXPECT_NE(live(life, 0).state.find("\"cause\": \"Unhealthy\""), std::string::npos);
}

TEST(Crash, after_any_write_of_a_process_that_fails_in_a_sick_pod) {
  const auto fail_sick = [](World& world) {
    world.sicken(pod_of_slot(world, 1));
    world.break_gang(api::Cause::kProcessExit, 1, 75);
  };
  const std::function<void(api::TrainingJob&)> kinds[] = {
      {},
      [](api::TrainingJob& job) { job.spec.spares = 1; },
      [](api::TrainingJob& job) { job.spec.restart.strategy = api::RestartStrategy::kGang; },
  };
  for (const auto& kind : kinds) {
    const Life life{kind, {fail_sick, kKillProcess, kFinish}};
    dies_after_every_write(life);
    EXPECT_NE(live(life, 0).state.find("GPU-0 is Unhealthy; ProcessExit"), std::string::npos);
  }
}

TEST(Crash, after_any_write_of_a_node_that_is_called_dead) {
  const auto call_dead = [](World& world) { world.call_dead(1, true); };
  const Life life{{}, {call_dead, kKillProcess, kFinish}};
  dies_after_every_write(life);
  EXPECT_NE(live(life, 0).state.find("counts as lost: it has label:example.com/dead"), std::string::npos);
}

// How often a storm saw what it is there for.
struct Seen {
  int gang_placed = 0;   // pods that were created while Placed was GangPlaced
  int left = 0;          // members that left because they were sick
  int lost_by_sign = 0;  // pods of nodes that were called dead
};

// Random faults, then peace: what must always hold held, and the job has come to rest.
Seen storm(unsigned seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const auto pick = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  World world;
  world.create_job([&](api::TrainingJob& job) {
    job.spec.nodes = 1 + pick(4);
    job.spec.restart.max_restarts = pick(3) == 0 ? 3 : 1000;
    if (pick(3) == 0)
      job.spec.restart.strategy = api::RestartStrategy::kGang;
    else if (pick(2) == 0)
      job.spec.elastic = api::ElasticSpec{.min_nodes = 1};
    if (job.spec.restart.strategy != api::RestartStrategy::kGang && pick(3) == 0) job.spec.spares = 1 + pick(2);
    job.spec.restart.backoff_max_seconds = 8;
  });
  int nodes = world.job().spec.nodes;
  const int spares = world.job().spec.spares;
  for (int turn = 0; turn < 150; ++turn) {
    const auto some_pod = [&] {
      const auto pods = world.pods();
      return pods.empty() ? std::string() : pods[static_cast<size_t>(pick(static_cast<int>(pods.size())))].meta.name;
    };
    switch (pick(29)) {
      case 0:
        world.break_gang(api::Cause::kProcessSignal, pick(nodes), 139);
        break;
      case 1:
        world.break_gang(api::Cause::kProcessExit, pick(nodes), pick(8) == 0 ? 65 : 75);
        break;
      case 2:
        world.delete_pod(some_pod());
        break;
      case 3:
        world.fail_pod(some_pod(), 1 + pick(200));
        break;
      case 4:
        world.set_node(pick(3), false);
        break;
      case 5:
      case 6:
        world.set_node(pick(3), true);
        break;
      case 7:
        world.gang.silent[pick(nodes)] = true;
        break;
      case 8:
        world.gang.silent.clear();
        break;
      case 9:
        world.stop_operator();
        break;
      case 10:
        world.mortal.die_after = world.mortal.writes + 1 + pick(6);
        break;
      case 11:
        world.set_suspend(pick(2) == 0);
        break;
      case 12:
        world.clock.advance(std::chrono::seconds(pick(100)));
        break;
      case 13:
      case 14:
        if (!world.job().spec.elastic) break;
        nodes = 1 + pick(5);
        world.set_nodes(nodes);
        break;
      case 15:
        world.sicken(some_pod());
        break;
      case 16:
        world.call_dead(pick(2), true);  // three that are dead before a decision would be doubted
        break;
      case 17:
        world.call_dead(pick(2), false);
        break;
      default:
        break;
    }
    world.run(1 + pick(3));
  }
  world.mortal.die_after = 0;
  world.gang.silent.clear();
  for (int node = 0; node < 3; ++node) {
    world.set_node(node, true);
    world.call_dead(node, false);
  }
  world.set_suspend(false);
  world.run(120);
  // Ten minutes of new steps reset the budget of restarts, once. And a sick pod leaves that could not go elsewhere
  // before.
  world.clock.advance(std::chrono::minutes(11));
  world.run(120);
  const int writes = world.mortal.writes;
  world.run(200);
  EXPECT_EQ(world.mortal.writes, writes) << "written without a change";
  for (const auto& violation : world.violations) ADD_FAILURE() << violation;
  for (const auto& name : world.mortal.created_while_gang_placed) {
    ADD_FAILURE() << name << ": Placed was GangPlaced without the pods of a gang";
  }
  for (const auto& name : world.mortal.created_while_placed) ADD_FAILURE() << name << " replaces an unrecorded loss";

  const auto job = world.job();
  const bool finished = job.status.state == "Succeeded" || job.status.state == "Failed";
  if (!finished) {
    EXPECT_EQ(job.status.state, "Running");
    EXPECT_TRUE(world.up());
    std::map<std::string, std::int64_t> of_slot;
    for (const auto& pod : world.pods()) {
      EXPECT_FALSE(pod.terminal() || pod.meta.deleted) << pod.meta.name;
      EXPECT_TRUE(of_slot.emplace(pod.meta.label(api::kLabelSlot), 0).second)
          << "an older incarnation is left: " << pod.meta.name;
    }
    EXPECT_EQ(of_slot.size(), static_cast<size_t>(nodes + spares));
  }
  EXPECT_LE(job.status.attempts.size(), 10u);
  for (size_t i = 1; i < job.status.attempts.size(); ++i) {
    EXPECT_LE(job.status.attempts[i - 1].generation, job.status.attempts[i].generation);
  }
  return {world.mortal.gang_placed, world.left, world.lost_by_sign};
}

TEST(Crash, random_faults_never_break_what_must_always_hold) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned first =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  Seen seen;
  for (unsigned i = 0; i < sanitizer::cases(sanitizer::kOn ? 30 : 60) && !HasFailure(); ++i) {
    const Seen one = storm(first + i);
    seen.gang_placed += one.gang_placed;
    seen.left += one.left;
    seen.lost_by_sign += one.lost_by_sign;
  }
  if (sanitizer::kOn || HasFailure()) return;
  EXPECT_GT(seen.gang_placed, 0) << "GangPlaced was never checked";
  EXPECT_GT(seen.left, 0) << "no member ever left";
  EXPECT_GT(seen.lost_by_sign, 0) << "no node was ever called dead";
}

}  // namespace
}  // namespace lockstep::job::crash_test
