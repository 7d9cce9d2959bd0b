// Coordinators of the simulated world, its store, and a controller that does what decide() does.
#include "tests/operator/rendezvous/simulated_world.h"

#include <algorithm>

namespace lockstep::rendezvous {

void SimulatedWorld::start_leader() {
  leader_ = std::make_shared<Coordinator>();
  if (faults_ && chance(20)) term_ = 0;
  leader_->state = std::make_unique<CoordinatorState>(
      ++term_, CoordinatorTiming{}, [this] { return fmt::format("key-{}", ++last_key_); }, clock(leader_));
  coordinators_.push_back(leader_);
  plan_all();
  tick(leader_);
}

void SimulatedWorld::kill_coordinator(const std::shared_ptr<Coordinator>& coordinator) {
  if (!coordinator || !coordinator->alive) return;
  coordinator->alive = false;
  for (const auto& pod : everybody()) {
    if (pod->link && pod->link->coordinator == coordinator) cut(pod);
  }
  if (leader_ == coordinator) leader_ = nullptr;
  std::erase(coordinators_, coordinator);
}

void SimulatedWorld::tick(const std::shared_ptr<Coordinator>& coordinator) {
  const Duration wait = std::max<Duration>(ms(1), coordinator->state->deadline() - now_);
  after(wait, [this, coordinator] {
    if (!coordinator->alive) return;
    at_coordinator(coordinator, [this, coordinator] { coordinator->state->on_tick(clock(coordinator)); });
    tick(coordinator);
  });
}

void SimulatedWorld::at_coordinator(const std::shared_ptr<Coordinator>& coordinator, const std::function<void()>& act) {
  if (!coordinator->alive) return;
  if (coordinator->paused_until > now_) {
    after(coordinator->paused_until - now_, [this, coordinator, act] { at_coordinator(coordinator, act); });
    return;
  }
  act();
  pump(coordinator);
}

JobPlan SimulatedWorld::plan_now() const {
  JobPlan plan;
  plan.name_space = "ns";
  plan.name = plan.uid = "job";
  plan.slots = slots_;
  plan.elastic.min_slots = min_slots_;
  plan.spares = spares_;
  plan.elastic.stabilization_seconds = 1;
  plan.procs_per_node = procs_;
  plan.deadlines.start_timeout_seconds = 10;
  plan.deadlines.progress_seconds = watched_ ? 3 : 0;
  plan.handled_generation = handled_;
  // Where one that leaves is still there, its successor has to wait.
  std::map<int, ExpectedMember> members;
  const auto expected = [this](const PodPtr& pod, bool leaving) {
    ExpectedMember member{pod->slot, pod->incarnation, pod->uid, pod->uid, "", leaving};
    if (!racks_) return member;
    member.node = "node-" + pod->uid;
    member.path = {fmt::format("rack-{}", (pod->slot * 5 + pod->incarnation) % 3)};
    return member;
  };
  for (const auto& pod : pods_) members[pod->slot] = expected(pod, false);
  for (const auto& pod : leaving_) {
    const auto known = members.find(pod->slot);
    if (known != members.end() && known->second.leaving && known->second.incarnation < pod->incarnation) continue;
    members[pod->slot] = expected(pod, true);
  }
  for (const auto& [slot, member] : members) plan.members.push_back(member);
  return plan;
}

void SimulatedWorld::plan_all() {
  for (const auto& coordinator : std::vector(coordinators_)) {
    // One that lost its lease may still be told things for a while, as its own caches see them.
    if (coordinator != leader_ && chance(50)) continue;
    at_coordinator(coordinator, [this, coordinator] { coordinator->state->on_plan(plan_now(), clock(coordinator)); });
  }
}

void SimulatedWorld::pump(const std::shared_ptr<Coordinator>& coordinator) {
  if (const auto& illegal = coordinator->state->illegal()) {
    violate(fmt::format("the coordinator went from {} to {}", name_of(illegal->from), name_of(illegal->to)));
  }
  for (const CoordinatorAction& action : coordinator->state->take_actions()) {
    if (const auto* out = std::get_if<SendToMember>(&action)) {
      for (const auto& pod : everybody()) {
        const auto link = pod->link;
        if (!link || link->id != out->session) continue;
        link->to_agent = std::max(link->to_agent, now_ + ms(between(0, chance(5) ? 400 : 10)));
        after(link->to_agent - now_, [this, pod, link, message = out->message] {
          if (!link->open || !pod->alive || pod->left || pod->link != link) return;
          pod->state->on_message(message, now_);
          pump(pod);
        });
      }
    } else if (const auto* closing = std::get_if<CloseSession>(&action)) {
      for (const auto& pod : everybody()) {
        if (pod->link && pod->link->id == closing->session) {
          after(ms(20), [this, pod, link = pod->link] {
            if (pod->link == link && pod->alive && !pod->left) cut(pod);
          });
        }
      }
    } else if (std::holds_alternative<LoadRecord>(action)) {
      after(ms(between(1, 60)), [this, coordinator] {
        const auto loaded = store_.load();
        after(ms(between(1, 60)), [this, coordinator, loaded] {
          at_coordinator(coordinator,
                         [this, coordinator, loaded] { coordinator->state->on_loaded(loaded, clock(coordinator)); });
        });
      });
    } else if (const auto* writing = std::get_if<WriteRecord>(&action)) {
      after(ms(between(1, 60)), [this, coordinator, write = *writing] {
        const auto written = store_.compare_and_set(write);
        after(ms(between(1, chance(10) ? 800 : 60)), [this, coordinator, written] {
          at_coordinator(coordinator,
                         [this, coordinator, written] { coordinator->state->on_written(written, clock(coordinator)); });
        });
      });
    }
  }
  const auto view = coordinator->state->view();
  if (coordinator == leader_ && view && view->phase == Phase::kBroken && view->generation > noticed_) {
    noticed_ = view->generation;
    const bool evicts = view->failure && view->failure->cause == api::Cause::kPartitioned;
    after(ms(between(1, 300)), [this, generation = view->generation, slot = evicts ? view->failure->slot : -1] {
      handled_ = std::max(handled_, generation);
      if (slot >= 0 && wanted(slot)) {
        ++evicted_;
        kill_pod(pods_[static_cast<std::size_t>(slot)]);
      }
      plan_all();
    });
  }
}

}  // namespace lockstep::rendezvous
