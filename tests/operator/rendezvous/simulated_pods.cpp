// Pods of the simulated world: agents, their links, and what they are told to do.
#include "tests/operator/rendezvous/simulated_world.h"

#include <algorithm>

namespace lockstep::rendezvous {

void SimulatedWorld::create_pod(int slot) {
  const auto pod = std::make_shared<Pod>();
  pod->slot = slot;
  pod->incarnation = ++incarnation_of_slot_[slot];
  pod->uid = fmt::format("pod-{}-{}", slot, pod->incarnation);
  MemberOptions options;
  options.name_space = "ns";
  options.pod_name = options.pod_uid = options.session = pod->uid;
  options.slot = slot;
  options.incarnation = pod->incarnation;
  pod->state = std::make_unique<MemberState>(options, now_);
  if (wanted(slot)) {
    pods_[static_cast<std::size_t>(slot)] = pod;
  } else {
    pods_.push_back(pod);
  }
  connect_later(pod);
  tick_later(pod);
}

std::vector<SimulatedWorld::PodPtr> SimulatedWorld::everybody() const {
  std::vector<PodPtr> all = pods_;
  all.insert(all.end(), leaving_.begin(), leaving_.end());
  return all;
}

void SimulatedWorld::scale(int slots) {
  for (; static_cast<int>(pods_.size()) > slots + spares_; pods_.pop_back()) {
    const PodPtr pod = pods_.back();
    leaving_.push_back(pod);
    ++released_;
    if (!pod->alive || pod->left) gone_later(pod);
    after(ms(between(1, 1500)), [this, pod] {
      if (!pod->alive || pod->left) return;
      pod->state->on_terminate(143, std::chrono::seconds(1), now_);
      pump(pod);
    });
  }
  slots_ = slots;
  while (static_cast<int>(pods_.size()) < slots + spares_) create_pod(static_cast<int>(pods_.size()));
  plan_all();
}

void SimulatedWorld::gone_later(const PodPtr& pod) {
  after(ms(between(20, 1500)), [this, pod] {
    if (std::erase(leaving_, pod) > 0) plan_all();
  });
}

void SimulatedWorld::tick_later(const PodPtr& pod) {
  if (pod->ticking || !pod->alive || pod->left) return;
  pod->ticking = true;
  const MonotonicTime at = std::min(pod->state->deadline(), now_ + std::chrono::seconds(1));
  after(std::max<Duration>(ms(1), at - now_), [this, pod] {
    pod->ticking = false;
    if (!pod->alive || pod->left) return;
    if (watched_) tell_activities(pod);
    pod->state->on_tick(now_);
    pump(pod);
  });
}

void SimulatedWorld::tell_activities(const PodPtr& pod) {
  for (const auto& process : pod->processes) {
    if (!process->alive) continue;
    pod->state->on_process_state(process->rank, process->stopped ? 'T' : 'S');
    if (process->stopped) continue;
    pod->state->on_worker_message(process->rank, WorkerMessage{.activity = activity_of(*process)}, now_);
  }
}

Activity SimulatedWorld::activity_of(const Process& process) const {
  Activity said;
  said.generation = process.generation;
  said.step = static_cast<std::int64_t>(process.history.size());
  said.sequence = said.step + (process.stuck ? 0 : 1);
  if (!process.stuck) said.waits_for_bytes_of = training_.before(process);
  return said;
}

void SimulatedWorld::connect_later(const PodPtr& pod) {
  after(ms(between(5, 200)), [this, pod] {
    if (!pod->alive || pod->left || pod->link) return;
    if (now_ < pod->cut_off_until) return connect_later(pod);
    std::vector<std::shared_ptr<Coordinator>> there;
    for (const auto& coordinator : coordinators_) {
      if (coordinator->alive) there.push_back(coordinator);
    }
    if (there.empty()) return connect_later(pod);
    pod->link = std::make_shared<Link>();
    pod->link->id = ++last_session_;
    pod->link->coordinator = there[static_cast<std::size_t>(between(0, static_cast<int>(there.size()) - 1))];
    pod->link->to_coordinator = pod->link->to_agent = now_;
    pod->state->on_connected(now_);
    pump(pod);
  });
}

void SimulatedWorld::cut(const PodPtr& pod) {
  const auto link = std::exchange(pod->link, nullptr);
  if (!link) return;
  link->open = false;
  pod->state->on_disconnected(now_);
  pump(pod);
  after(ms(between(0, 50)), [this, link] {
    at_coordinator(link->coordinator,
                   [this, link] { link->coordinator->state->on_disconnected(link->id, clock(link->coordinator)); });
  });
  connect_later(pod);
}

void SimulatedWorld::cut_off(const PodPtr& pod) {
  if (!pod->alive || pod->left) return;
  pod->cut_off_until = now_ + ms(between(500, 9000));
  for (const auto& process : pod->processes) {
    if (process->alive) miss(process->generation);
  }
  cut(pod);
}

void SimulatedWorld::kill_pod(const PodPtr& pod) {
  if (!pod->alive || pod->left) return;
  pod->alive = false;
  for (const auto& process : pod->processes) process->alive = false;
  if (const auto link = std::exchange(pod->link, nullptr)) {
    link->open = false;
    after(ms(between(0, 50)), [this, link] {
      at_coordinator(link->coordinator,
                     [this, link] { link->coordinator->state->on_disconnected(link->id, clock(link->coordinator)); });
    });
  }
  end_of_pod(pod);
}

void SimulatedWorld::end_of_pod(const PodPtr& pod) {
  std::count(leaving_.begin(), leaving_.end(), pod) > 0 ? gone_later(pod) : replace_later(pod);
}

void SimulatedWorld::replace_later(const PodPtr& pod) {
  after(ms(between(50, 3000)), [this, pod] {
    if (!wanted(pod->slot) || pods_[static_cast<std::size_t>(pod->slot)] != pod) return;  // released meanwhile
    if (leader_ && chance(50)) {
      const auto view = leader_->state->view();
      const bool concerns =
          view && (min_slots_ + spares_ == 0 ||
                   std::any_of(view->members.begin(), view->members.end(), [&](const auto& member) {
                     return member.in_gang && member.slot == pod->slot && member.incarnation == pod->incarnation;
                   }));
      if (concerns) handled_ = std::max(handled_, view->generation);
    }
    create_pod(pod->slot);
    plan_all();
  });
}

void SimulatedWorld::pump(const PodPtr& pod) {
  for (auto actions = pod->state->take_actions(); !actions.empty(); actions = pod->state->take_actions()) {
    for (const MemberAction& action : actions) act(pod, action);
  }
  tick_later(pod);
}

void SimulatedWorld::act(const PodPtr& pod, const MemberAction& action) {
  if (const auto* out = std::get_if<SendToCoordinator>(&action)) {
    const auto link = pod->link;
    if (!link) return;
    link->to_coordinator = std::max(link->to_coordinator, now_ + ms(between(0, chance(5) ? 400 : 10)));
    after(link->to_coordinator - now_, [this, link, message = out->message] {
      if (!link->open) return;
      at_coordinator(link->coordinator, [this, link, message] {
        CoordinatorState& state = *link->coordinator->state;
        if (const auto* hello = std::get_if<Hello>(&message)) {
          state.on_hello(link->id, *hello, clock(link->coordinator));
        } else {
          state.on_message(link->id, message, clock(link->coordinator));
        }
      });
    });
  } else if (const auto* prepare = std::get_if<PrepareSockets>(&action)) {
    Prepared prepared;
    prepared.host = pod->uid;
    prepared.master_port = between(20'000, 29'999);
    for (int i = 0; i < prepare->propose.ranks; ++i)
      prepared.addresses.push_back(fmt::format("{}:{}", pod->uid, ++last_port_));
    after(ms(between(0, 20)), [this, pod, id = prepare->propose.id, prepared] {
      if (!pod->alive || pod->left) return;
      pod->state->on_prepared(id, prepared, now_);
      pump(pod);
    });
  } else if (const auto* start = std::get_if<StartProcesses>(&action)) {
    start_processes(pod, start->go, start->only);
  } else if (const auto* ask = std::get_if<AskHoldings>(&action)) {
    for (const auto& process : pod->processes) {
      if (process->alive) regroup(pod, process, ask->id);
    }
  } else if (const auto* go_on = std::get_if<ContinueProcesses>(&action)) {
    check_generation(pod, go_on->go);
    for (const auto& process : pod->processes) {
      if (!process->alive) continue;
      training_.note_kept();
      enter(pod, process, go_on->go);
    }
  } else if (const auto* yield = std::get_if<AskYield>(&action)) {
    for (const auto& process : pod->processes) {
      if (process->alive && !process->regroups) violate("a process that cannot be regrouped is asked to yield");
      after(ms(between(0, 40)), [process, generation = yield->generation] { process->yields = generation; });
    }
  } else if (const auto* dial = std::get_if<DialAddresses>(&action)) {
    const std::vector<std::string> addresses = dial->peers->addresses();
    const bool cut = std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
      return cut_pods_.count(std::minmax(pod->uid, address.substr(0, address.find(':')))) != 0;
    });
    after(ms(cut ? 2000 : between(0, 40)), [this, pod, cut, generation = dial->generation] {
      if (!pod->alive || pod->left) return;
      pod->state->on_dialled(generation, cut ? "somebody: no answer" : "");
      pump(pod);
    });
  } else if (const auto* renumbering = std::get_if<RenumberProcesses>(&action)) {
    renumber(pod, renumbering->first_rank);
  } else if (const auto* abort = std::get_if<AbortProcess>(&action)) {
    for (const auto& process : pod->processes) {
      if (!process->alive || process->rank != abort->rank) continue;
      if (!process->stuck) violate(fmt::format("rank {}, which does not hang, is ended as if it did", abort->rank));
      ++aborted_;
      if (chance(70)) after(ms(between(0, 300)), [this, pod, process] { end_process(pod, process, 134, 6); });
    }
  } else if (const auto* hung = std::get_if<KillProcess>(&action)) {
    for (const auto& process : pod->processes) {
      if (process->alive && process->rank == hung->rank) end_process(pod, process, 137, 9);
    }
  } else if (std::holds_alternative<EndProcesses>(action)) {
    for (const auto& process : pod->processes) {
      if (!process->alive || process->ignores_term) continue;
      after(ms(between(0, 300)), [this, pod, process] { end_process(pod, process, 143, 15); });
    }
    after(ms(0), [this, pod] { look_for_processes(pod); });
  } else if (std::holds_alternative<KillProcesses>(action)) {
    for (const auto& process : pod->processes) {
      if (process->alive) after(ms(between(0, 5)), [this, pod, process] { end_process(pod, process, 137, 9); });
    }
    after(ms(0), [this, pod] { look_for_processes(pod); });
  } else if (std::holds_alternative<CloseConnection>(action)) {
    cut(pod);
  } else if (const auto* leave = std::get_if<ExitAgent>(&action)) {
    pod->left = leave->code;
    for (const auto& process : pod->processes) {
      if (process->alive) violate(fmt::format("the agent of slot {} left with a process alive", pod->slot));
    }
    if (pod->link) pod->link->open = false;
    if (leave->code != 0 || std::count(leaving_.begin(), leaving_.end(), pod) > 0) end_of_pod(pod);
  }
}

}  // namespace lockstep::rendezvous
