// Processes of the simulated world: what they say, how they begin and end, and the checks on each generation.
#include "tests/operator/rendezvous/simulated_world.h"

#include <algorithm>

namespace lockstep::rendezvous {

void SimulatedWorld::renumber(const PodPtr& pod, int first_rank) {
  for (const auto& process : pod->processes) process->rank = first_rank++;
}

void SimulatedWorld::regroup(const PodPtr& pod, const SimulatedProcessPtr& process, const GenerationId& id) {
  if (chance(3)) process->hangs = true;
  if (process->hangs) return;
  after(ms(between(0, 40)), [this, pod, process, id] {
    if (!process->alive || !pod->alive) return;
    WorkerMessage message;
    message.holding = Holding{id.term, id.generation, training_.regroup(process, id.generation)};
    pod->state->on_worker_message(process->rank, message, now_);
    pump(pod);
  });
}

void SimulatedWorld::check_generation(const PodPtr& pod, const Go& go) {
  const std::int64_t generation = go.id.generation;
  if (generation <= pod->last_started) {
    violate(fmt::format("slot {} started generation {} after {}", pod->slot, generation, pod->last_started));
  }
  pod->last_started = generation;
  const SimulatedStore::Members* const recorded = store_.members(generation);
  if (recorded == nullptr) {
    violate(fmt::format("slot {} started generation {}, which is not in the record", pod->slot, generation));
  } else if (recorded->count(pod->slot) == 0 || recorded->at(pod->slot) != pod->incarnation) {
    violate(fmt::format("slot {} incarnation {} started generation {}, whose record names another", pod->slot,
                        pod->incarnation, generation));
  }
  const std::string agreed =
      fmt::format("{} {} {} {}", go.key, go.master_addr, go.master_port, fmt::join(go.peers->addresses(), ","));
  if (const auto at = agreed_.emplace(generation, agreed).first; at->second != agreed) {
    violate(fmt::format("members of generation {} were given different peers", generation));
  }
  if (go.world_size < slots_ * procs_) smaller_.insert(generation);
  // A GO that comes late may start processes of a generation that is over: it lacks those that went on without them.
  const auto went_on = [&](const PodPtr& other) {
    return recorded != nullptr && recorded->count(other->slot) != 0 &&
           recorded->at(other->slot) == other->incarnation && other->last_started > generation;
  };
  const auto everyone = everybody();
  if (std::any_of(everyone.begin(), everyone.end(), went_on)) return;
  for (const auto& other : everyone) {
    for (const auto& process : other->processes) {
      // Of a slot that the generation does without something may be left, if that can make no further step.
      const bool without =
          recorded != nullptr && (recorded->count(other->slot) == 0 || recorded->at(other->slot) != other->incarnation);
      if (without && !training_.can_step(process->generation)) continue;
      if (process->alive && process->generation != generation && process->promised < generation) {
        violate(fmt::format("slot {} starts generation {} while slot {} runs {}", pod->slot, generation, other->slot,
                            process->generation));
      }
    }
  }
}

void SimulatedWorld::finish(const PodPtr& pod, const SimulatedProcessPtr& process, int least) {
  after(ms(between(least, least + 300)), [this, pod, process] {
    if (process->generation > 0) end_process(pod, process, 0, 0);
  });
}

void SimulatedWorld::enter(const PodPtr& pod, const SimulatedProcessPtr& process, const Go& go) {
  if (finishing_) finish(pod, process, 200);
  // The process keeps this, and the pod keeps the process.
  const auto say = [this, weak = std::weak_ptr(pod), process = process.get()](const WorkerMessage& message) {
    const PodPtr there = weak.lock();
    if (!there || !there->alive || there->left || process->stopped) return;
    there->state->on_worker_message(process->rank, message, now_);
    pump(there);
  };
  training_.enter(
      process, go,
      [this, say, process = process.get()] {
        if (watched_) say({.activity = activity_of(*process)});  // it does from its start on
        say({.up = true, .regroups = process->regroups});
      },
      [say](std::int64_t step) {
        WorkerMessage message;
        message.progress = Progress{.step = step};
        say(message);
      },
      [say, generation = go.id.generation] {
        WorkerMessage message;
        message.broken = BrokenReport{generation, -1, "others join", true};
        say(message);
      });
  // When all are there whose links are to stand.
  if (!cut_pods_.empty()) after(ms(0), [this, generation = go.id.generation] { miss_unreached(generation, 400); });
}

void SimulatedWorld::start_processes(const PodPtr& pod, const Go& go, std::vector<int> only) {
  const bool warm = go.id.generation == 0;
  ++(warm ? warm_starts_ : starts_);
  if (only.empty()) {
    if (!warm) check_generation(pod, go);
    std::erase_if(pod->processes, [](const auto& process) { return !process->alive; });
    for (int i = 0; i < go.ranks; ++i) only.push_back(i);
  } else {
    partly_kept_ += 1;
    for (auto i = only.rbegin(); i != only.rend(); ++i) {
      const auto at = pod->processes.begin() + *i;
      if ((*at)->alive) violate("a process is started in the place of one that lives");
      pod->processes.erase(at);
    }
  }
  for (const int i : only) {
    const auto process = std::make_shared<Process>();
    process->generation = go.id.generation;
    process->rank = go.first_rank + i;
    process->pod = pod->uid;
    process->ignores_term = chance(20);
    process->regroups = regroups_;
    pod->processes.insert(pod->processes.begin() + std::min<std::ptrdiff_t>(i, std::ssize(pod->processes)), process);
    after(ms(between(5, 100)), [this, pod, process, go, warm] {
      if (!process->alive || !pod->alive) return;
      if (!warm) return enter(pod, process, go);
      pod->state->on_worker_message(process->rank, {.up = true, .regroups = regroups_}, now_);
      pump(pod);
    });
  }
}

void SimulatedWorld::end_process(const PodPtr& pod, const std::shared_ptr<Process>& process, int code, int signal) {
  if (!process->alive || !pod->alive) return;
  process->alive = false;
  ProcessEnd end;
  end.rank = process->rank;
  end.code = code;
  end.signal = signal;
  end.end_ms = now_.time_since_epoch().count() / 1'000'000;
  end.left_behind = chance(10);
  pod->state->on_exit(end, now_);
  if (code != 0 && process->generation > 0) miss(process->generation);
  look_for_processes(pod);
  pump(pod);
}

void SimulatedWorld::miss(std::int64_t generation) {
  for (const auto& other : everybody()) {
    for (const auto& peer : other->processes) {
      if (!peer->alive || peer->generation != generation || !chance(70)) continue;
      after(ms(between(5, 500)), [this, other, peer, generation] {
        if (!peer->alive || !other->alive || peer->generation != generation) return;
        WorkerMessage report;
        if (peer->regroups) {
          report.broken = BrokenReport{generation, -1, "a peer went away"};
          other->state->on_worker_message(peer->rank, report, now_);
          return pump(other);
        }
        report.failure = FailureReport{FailureReport::Class::kCommunication, -1, "a peer went away"};
        other->state->on_worker_message(peer->rank, report, now_);
        end_process(other, peer, kExitCommunication, 0);
      });
    }
  }
}

void SimulatedWorld::miss_unreached(std::int64_t generation, int least) {
  for (const auto& pod : everybody()) {
    for (const auto& process : pod->processes) {
      if (!process->alive || process->generation != generation || training_.unreached(*process) < 0) continue;
      after(ms(between(least, least + 300)),
            [this, pod, process, generation] { say_unreached(pod, process, generation); });
    }
  }
}

void SimulatedWorld::say_unreached(const PodPtr& pod, const SimulatedProcessPtr& process, std::int64_t generation) {
  const int suspect = training_.unreached(*process);
  if (!process->alive || !pod->alive || process->generation != generation || process->promised > generation) return;
  if (suspect < 0) return;
  WorkerMessage report;
  if (process->regroups) {
    const bool stepped = process->state && process->state->generation == generation;
    report.broken = BrokenReport{generation, suspect, "it cannot be reached", false, stepped};
    pod->state->on_worker_message(process->rank, report, now_);
    return pump(pod);
  }
  report.failure = FailureReport{FailureReport::Class::kCommunication, suspect, "it cannot be reached"};
  pod->state->on_worker_message(process->rank, report, now_);
  end_process(pod, process, kExitCommunication, 0);
}

void SimulatedWorld::look_for_processes(const PodPtr& pod) {
  if (!pod->alive || pod->left) return;
  for (const auto& process : pod->processes) {
    if (process->alive) return;
  }
  pod->state->on_no_process_left(now_);
  pump(pod);
}

}  // namespace lockstep::rendezvous
