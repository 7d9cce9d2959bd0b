// Where a scenario begins, and how it is to end.
#include <fmt/format.h>

#include "tests/operator/rendezvous/explored_world.h"

namespace lockstep::rendezvous::explorer {

Explored::Explored(Scenario scenario) : scenario_(std::move(scenario)) {}

ExpectedMember Explored::expected(int slot, std::int64_t incarnation) const {
  ExpectedMember member{.slot = slot, .incarnation = incarnation};
  member.pod_name = member.pod_uid = fmt::format("pod-{}-{}", slot, incarnation);
  if (!scenario_.racks) return member;
  member.node = "node of " + member.pod_name;
  member.path = {(slot + incarnation) % 2 == 0 ? "rack 1" : "rack 2"};
  return member;
}

World Explored::boot() {
  World world;
  JobPlan plan;
  plan.name_space = "ns";
  plan.name = plan.uid = "job";
  plan.slots = scenario_.slots;
  plan.elastic.min_slots = scenario_.min_slots;
  plan.elastic.stabilization_seconds = scenario_.min_slots > 0 ? 1 : 0;
  plan.deadlines.start_timeout_seconds = 3;
  if (scenario_.checkpoints) plan.program.checkpoint_path = "/checkpoints";
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    plan.members.push_back(expected(slot, 1));
    world.pods[at(slot)] = parts_.pods.put(new_pod(slot, 1));
    world.links[at(slot)] = parts_.links.put({});
  }
  world.plan = parts_.plans.put(std::move(plan));
  world.store = parts_.stores.put({});
  world.chronicle = parts_.chronicles.put({});
  world.coordinators[0] = parts_.coordinators.put(new_coordinator(1, 1));
  world.faults = scenario_.faults;
  world.delays = scenario_.delays;
  world.kinds = scenario_.kinds;
  std::string violation;
  return after(world, {.kind = Choice::Kind::kPlan}, violation);
}

std::optional<World> Explored::root() {
  World world = boot();
  const int first_late = scenario_.slots - scenario_.late_slots;
  const auto there = [&] {
    const std::size_t steps = scenario_.root == Scenario::Root::kStepped ? 1 : 0;
    for (int slot = 0; slot < first_late; ++slot) {
      const std::vector<Process>& processes = pod(world, slot).processes;
      if (processes.empty() || processes[0].stage != Process::Stage::kTraining || processes[0].state->size() < steps)
        return false;
    }
    return coordinator(world, 0).up;
  };
  std::string violation;
  constexpr int kMost = 1000;  // choices that it may take
  for (int i = 0; scenario_.root != Scenario::Root::kBoot && !there(); ++i) {
    if (i == kMost) return std::nullopt;
    std::vector<Choice> all = choices(world);
    std::erase_if(all, [&](const Choice& choice) {
      return !calm(choice) || (choice.kind == Choice::Kind::kConnects && choice.a >= first_late);
    });
    // With a slot that does not come, time has to pass before the others begin.
    world = after(world, all.empty() ? Choice{} : all.front(), violation);
  }
  return world;
}

bool Explored::finished(const World& world) const {
  const Record& record = parts_.stores[world.store].record;
  if (!record.finished) return false;
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    const Pod& here = pod(world, slot);
    if (here.there()) return false;
    // One that was not needed may have failed.
    for (const Record::Member& member : record.members) {
      const bool of_it = member.slot == slot && member.incarnation == here.incarnation;
      if (of_it && here.alive && here.left != 0) return false;
    }
  }
  return true;
}

}  // namespace lockstep::rendezvous::explorer
