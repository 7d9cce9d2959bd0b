// What is asked of the simulated world, and the faults that it suffers.
#include "tests/operator/rendezvous/simulated_world.h"

#include <algorithm>

namespace lockstep::rendezvous {

SimulatedWorld::SimulatedWorld(unsigned seed, WorldOptions options)
    : random_(seed),
      slots_(between(1, 5)),
      procs_(between(1, 2)),
      regroups_(options.regroups),
      min_slots_(options.elastic ? between(1, slots_) : 0),
      spares_(options.spares ? between(1, 2) : 0),
      watched_(options.watched),
      racks_(seed % 2 == 1) {
  for (int slot = 0; slot < slots_ + spares_; ++slot) create_pod(slot);
  start_leader();
}

void SimulatedWorld::disturb(int seconds) {
  faults_ = true;
  const MonotonicTime end = now_ + std::chrono::seconds(seconds);
  while (now_ < end && violation_.empty()) {
    run_for(ms(between(20, 1500)));
    fault();
  }
  faults_ = false;
  store_.set_trouble(0);
}

void SimulatedWorld::run_for(Duration duration) {
  const MonotonicTime end = now_ + duration;
  while (!events_.empty() && events_.top().at <= end && violation_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.act();
  }
  now_ = end;
}

bool SimulatedWorld::reaches(int seconds, const std::function<bool()>& condition) {
  for (int i = 0; i < seconds * 20 && violation_.empty(); ++i) {
    if (condition()) return true;
    run_for(ms(50));
  }
  return condition();
}

bool SimulatedWorld::all_up() const {
  const auto view = leader_view();
  if (!view || view->phase != Phase::kUp || view->world_size != slots_ * procs_) return false;
  for (const auto& pod : pods_) {
    const MemberView* member = view->member_of(pod->slot);
    const bool in_gang = member != nullptr && member->in_gang && member->incarnation == pod->incarnation;
    // The view of a member that the leader does not hear may be outdated.
    const bool heard = pod->link && pod->link->coordinator == leader_ && pod->state->welcomed();
    if (in_gang && (!heard || pod->processes.empty())) return false;
    for (const auto& process : pod->processes) {
      if (in_gang && !process->alive) return false;
      const bool waits = process->generation == 0;  // in a spare
      if (process->alive && !waits && process->generation != view->generation) return false;
    }
  }
  return leaving_.empty();
}

bool SimulatedWorld::all_left_with_zero() const {
  for (const auto& pod : pods_) {
    if (!pod->left || *pod->left != 0) return false;
  }
  return true;
}

void SimulatedWorld::finish_all_processes() {
  finishing_ = true;
  for (const auto& pod : everybody()) {
    for (const auto& process : pod->processes) {
      if (process->alive) finish(pod, process, 1);
    }
  }
}

bool SimulatedWorld::hang() {
  const auto view = leader_view();
  if (!view || view->phase != Phase::kUp) return false;
  std::vector<std::shared_ptr<Process>> candidates;
  for (const auto& pod : pods_) {
    for (const auto& process : pod->processes) {
      const bool up = process->alive && pod->alive && !pod->left && process->generation == view->generation;
      if (up) candidates.push_back(process);
    }
  }
  if (candidates.empty()) return false;
  Process& chosen = *candidates[static_cast<std::size_t>(between(0, static_cast<int>(candidates.size()) - 1))];
  chosen.stuck = chosen.hangs = chosen.ignores_term = true;
  chosen.stopped = chance(50);
  return true;
}

bool SimulatedWorld::cut_two() {
  const auto view = leader_view();
  if (!view || view->phase != Phase::kUp) return false;
  std::vector<PodPtr> members;  // in order of rank: neighbours have a link
  for (const Place& place : view->places) {
    const MemberView* member = view->member_of(place.slot);
    if (member != nullptr && member->in_gang && wanted(place.slot)) {
      members.push_back(pods_[static_cast<std::size_t>(place.slot)]);
    }
  }
  if (members.size() < 2) return false;
  const auto first = static_cast<std::size_t>(between(0, static_cast<int>(members.size()) - 1));
  const PodPtr a = members[first], b = members[(first + 1) % members.size()];
  cut_pods_.insert(std::minmax(a->uid, b->uid));
  miss_unreached(view->generation, 0);
  return true;
}

int SimulatedWorld::members() const {
  const auto view = leader_view();
  return view ? static_cast<int>(std::count_if(view->members.begin(), view->members.end(),
                                               [](const auto& member) { return member.in_gang; }))
              : 0;
}

void SimulatedWorld::silence(Duration duration) {
  for (const auto& pod : everybody()) {
    pod->cut_off_until = now_ + duration;
    cut(pod);
  }
}

bool SimulatedWorld::anybody_hangs() const {
  return std::any_of(pods_.begin(), pods_.end(), [](const auto& pod) {
    return std::any_of(pod->processes.begin(), pod->processes.end(),
                       [](const auto& process) { return process->alive && process->stuck; });
  });
}

void SimulatedWorld::restart_leader() {
  kill_coordinator(leader_);
  start_leader();
}

std::string SimulatedWorld::describe() const {
  const auto view = leader_view();
  std::string text = fmt::format("slots {} procs {}; ", slots_, procs_);
  if (view)
    text += fmt::format("phase {} generation {}: {}; ", static_cast<int>(view->phase), view->generation, view->message);
  for (const auto& pod : pods_) {
    text += fmt::format("[slot {} inc {} phase {} gen {} promised {}/{} welcomed {}] ", pod->slot, pod->incarnation,
                        static_cast<int>(pod->state->phase()), pod->state->generation(), pod->state->promised().term,
                        pod->state->promised().generation, pod->state->welcomed());
  }
  return text;
}

void SimulatedWorld::violate(const std::string& what) {
  if (violation_.empty()) violation_ = fmt::format("at {} ms: {}", now_.time_since_epoch().count() / 1'000'000, what);
}

void SimulatedWorld::fault() {
  const auto all = everybody();
  const PodPtr pod = all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
  switch (between(0, min_slots_ > 0 ? 11 : 9)) {
    case 0:
    case 1:
      for (const auto& process : pod->processes) {
        if (process->alive && chance(60)) end_process(pod, process, chance(50) ? 137 : 1, chance(50) ? 9 : 0);
      }
      break;
    case 2:
    case 3:
      min_slots_ + spares_ > 0 && chance(50) ? cut_off(pod) : cut(pod);
      break;
    case 4:
      kill_pod(pod);
      break;
    case 5: {
      kill_coordinator(leader_);
      after(ms(between(10, 3000)), [this] {
        if (!leader_) start_leader();
      });
      break;
    }
    case 6: {  // another leads, and this one does not know yet
      if (!leader_) break;
      const auto old = leader_;
      start_leader();
      after(ms(between(10, 4000)), [this, old] { kill_coordinator(old); });
      break;
    }
    case 7:
      store_.set_trouble(chance(50) ? 0 : between(10, 90));
      break;
    case 8:
      if (leader_) leader_->paused_until = now_ + ms(between(100, 3000));
      break;
    case 10:
    case 11:
      scale(between(min_slots_, 5));
      break;
    default:
      const bool for_long = min_slots_ + spares_ > 0 && chance(50);
      for (const auto& each : everybody()) {
        if (chance(50)) for_long ? cut_off(each) : cut(each);
      }
  }
}

}  // namespace lockstep::rendezvous
