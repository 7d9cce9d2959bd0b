#include "tests/operator/rendezvous/explored_pod.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous::explorer {
namespace {

// The order of the timers is that of the shipped ones; shorter, so that few quarters of a second matter.
MemberOptions options_of(int slot, std::int64_t incarnation) {
  MemberOptions options;
  options.name_space = "ns";
  options.pod_name = options.pod_uid = options.session = fmt::format("pod-{}-{}", slot, incarnation);
  options.slot = slot;
  options.incarnation = incarnation;
  options.kill_grace = std::chrono::milliseconds(300);
  options.hold_within = std::chrono::milliseconds(500);
  options.orphan_after = std::chrono::milliseconds(3500);
  options.flush_exits_within = std::chrono::milliseconds(500);
  options.tell_checkpoint_within = std::chrono::milliseconds(500);
  return options;
}

class Stepper {
 public:
  explicit Stepper(Pod& pod) : pod_(pod) {}

  PodStep take(const PodEvent& event) {
    act(event);
    carry_out();
    return std::move(step_);
  }

 private:
  using Kind = PodEvent::Kind;

  void act(const PodEvent& event) {
    MemberState& state = pod_.state;
    switch (event.kind) {
      case Kind::kConnected:
        return state.on_connected(pod_.clock);
      case Kind::kDisconnected:
        return state.on_disconnected(pod_.clock);
      case Kind::kHears:
        return state.on_message(*event.message, pod_.clock);
      case Kind::kQuarter:
        pod_.clock += kQuarterSecond;
        if (!pod_.frozen) state.on_tick(pod_.clock);
        return;
      case Kind::kFreezes:
        pod_.frozen = true;
        return;
      case Kind::kThaws:
        pod_.frozen = false;
        return state.on_tick(pod_.clock);
      case Kind::kDies:
        pod_.alive = false;
        pod_.processes.clear();
        return;
      default:
        break;
    }
    const auto at = std::find_if(pod_.processes.begin(), pod_.processes.end(),
                                 [&](const Process& process) { return process.generation == event.generation; });
    act(*at, event);
  }

  void act(Process& process, const PodEvent& event) {
    WorkerMessage message;
    switch (event.kind) {
      case Kind::kKilled:
        return end(process, 137, 9, event.number);
      case Kind::kExits:
        return end(process, 0, 0, event.number);
      case Kind::kEnds:
        return end(process, 143, 15, event.number);
      case Kind::kAnswers:
        message.holding = process.answer();
        break;
      case Kind::kLosesTouch:
      case Kind::kMisses:
        if (process.stage == Process::Stage::kTaking) process.tear();
        if (!process.introduced) {  // nobody expects it to stay
          message.failure = FailureReport{FailureReport::Class::kCommunication, static_cast<int>(event.number), ""};
          pod_.state.on_worker_message(process.rank, message, pod_.clock);
          return end(process, kExitCommunication, 0, 0);
        }
        process.broke = true;
        message.broken = BrokenReport{process.generation, static_cast<int>(event.number), ""};
        message.broken->stepped = process.stepped();
        break;
      case Kind::kLinks:
        return link(process);
      case Kind::kTakes:
        process.state = event.state;
        process.torn = false;
        process.stage = Process::Stage::kWaiting;
        return;
      case Kind::kBegins:
        process.stage = Process::Stage::kTraining;
        process.introduced = true;
        message.up = message.regroups = true;
        break;
      case Kind::kReduces:
        if (static_cast<std::int64_t>(process.state->size()) == event.number) {
          process.done = true;
          return;
        }
        process.committing = true;
        process.yielding = event.yields && static_cast<std::int64_t>(process.state->size()) + 1 < event.number;
        if (!process.saves || process.rank != 0 || process.state->empty()) return;
        if (kMutation == Mutation::kPublishUnconfirmed) return;
        message.checkpoint = checkpoint_of(*process.state);
        break;
      case Kind::kYields:
        process.yielding = false;
        process.broke = true;
        message.broken = BrokenReport{process.generation, -1, "", true};
        break;
      default:  // kCommits
        commit(process, message);
        break;
    }
    pod_.state.on_worker_message(process.rank, message, pod_.clock);
  }

  static CheckpointReport checkpoint_of(const History& state) {
    const StateVersion version = version_of(state);
    return {version.digest, version.step, version.generation, version.digest};
  }

  void link(Process& process) {
    process.stage = Process::Stage::kWaiting;
    if (process.source.rank < 0) {
      process.state = history_of(process.restore);
      process.torn = false;
    } else if (other_state(process.version(), process.source.version)) {
      process.stage = Process::Stage::kTaking;
    }
  }

  void commit(Process& process, WorkerMessage& message) {
    if (process.generation < pod_.ready_for) {
      step_.violation = fmt::format("slot {} commits a step of generation {} after it was READY for generation {}",
                                    pod_.slot, process.generation, pod_.ready_for);
    }
    process.committing = false;
    process.state->push_back(process.generation);
    message.progress = Progress{.step = static_cast<std::int64_t>(process.state->size())};
    if (kMutation == Mutation::kPublishUnconfirmed && process.saves && process.rank == 0) {
      message.checkpoint = checkpoint_of(*process.state);
    }
  }

  void end(const Process& process, int code, int signal, std::int64_t number) {
    ProcessEnd ended;
    ended.rank = process.rank;
    ended.code = code;
    ended.signal = signal;
    ended.end_ms = number;
    std::erase_if(pod_.processes, [&](const Process& each) { return &each == &process; });
    pod_.state.on_exit(ended, pod_.clock);
    reap();
  }

  void reap() {
    if (pod_.processes.empty()) pod_.state.on_no_process_left(pod_.clock);
  }

  void carry_out() {
    for (auto actions = pod_.state.take_actions(); !actions.empty(); actions = pod_.state.take_actions()) {
      for (const MemberAction& action : actions) carry_out(action);
    }
  }

  void did(const std::string& what) { step_.did += (step_.did.empty() ? "" : "; ") + what; }

  void carry_out(const MemberAction& action) {
    if (const auto* out = std::get_if<SendToCoordinator>(&action)) {
      if (const auto* ready = std::get_if<Ready>(&out->message)) {
        pod_.ready_for = std::max(pod_.ready_for, ready->id.generation);
      }
      step_.said.push_back(out->message);
    } else if (const auto* prepare = std::get_if<PrepareSockets>(&action)) {
      Prepared prepared;
      prepared.host = fmt::format("pod-{}-{}", pod_.slot, pod_.incarnation);
      prepared.master_port = static_cast<int>(prepare->propose.id.generation);
      prepared.addresses.push_back(fmt::format("{}:{}", prepared.host, prepared.master_port));
      pod_.state.on_prepared(prepare->propose.id, prepared, pod_.clock);
    } else if (const auto* start = std::get_if<StartProcesses>(&action)) {
      start_process(start->go);
    } else if (const auto* ask = std::get_if<AskHoldings>(&action)) {
      for (Process& process : pod_.processes) process.asked = ask->id;
    } else if (const auto* go_on = std::get_if<ContinueProcesses>(&action)) {
      did("its process goes on");
      for (Process& process : pod_.processes) process.enter(go_on->go);
      follow(go_on->go);
    } else if (const auto* dial = std::get_if<DialAddresses>(&action)) {
      pod_.state.on_dialled(dial->generation, "");
    } else if (std::holds_alternative<AskYield>(action)) {
      for (Process& process : pod_.processes) process.yields = true;
    } else if (const auto* renumber = std::get_if<RenumberProcesses>(&action)) {
      for (Process& process : pod_.processes) process.rank = renumber->first_rank;
    } else if (std::holds_alternative<EndProcesses>(action)) {
      did("ends its process");
      for (Process& process : pod_.processes) process.told_to_end = true;
      reap();
    } else if (std::holds_alternative<KillProcesses>(action) || std::holds_alternative<KillProcess>(action)) {
      if (pod_.processes.empty()) return reap();
      did("kills its process");
      while (!pod_.processes.empty()) end(pod_.processes.front(), 137, 9, 0);
    } else if (const auto* close = std::get_if<CloseConnection>(&action)) {
      did("closes the connection: " + close->why);
      step_.closes = true;
      pod_.state.on_disconnected(pod_.clock);
    } else if (const auto* leave = std::get_if<ExitAgent>(&action)) {
      did(fmt::format("leaves with {}", leave->code));
      pod_.left = leave->code;
      if (!pod_.processes.empty()) {
        step_.violation = fmt::format("the agent of slot {} left with a process alive", pod_.slot);
      }
    }
  }

  // One without a generation waits for one, and is warm at once.
  void start_process(const Go& go) {
    Process process;
    process.saves = !go.program.checkpoint_path.empty();
    process.enter(go);
    process.introduced = go.id.generation == 0;
    pod_.processes.push_back(process);
    if (!process.introduced) {
      did("starts a process");
      return follow(go);
    }
    did("starts a process that waits");
    pod_.state.on_worker_message(process.rank, {.up = true, .regroups = true}, pod_.clock);
  }

  void follow(const Go& go) {
    if (go.id.generation <= pod_.followed) {
      step_.violation = fmt::format("slot {} follows the GO of generation {} after that of generation {}", pod_.slot,
                                    go.id.generation, pod_.followed);
    }
    if (go.id.generation < pod_.ready_for) {
      step_.violation = fmt::format("slot {} follows the GO of generation {} after it was READY for generation {}",
                                    pod_.slot, go.id.generation, pod_.ready_for);
    }
    pod_.followed = std::max(pod_.followed, go.id.generation);
    step_.followed.push_back(go);
  }

  Pod& pod_;
  PodStep step_;
};

}  // namespace

const Process* Pod::process_in(std::int64_t generation) const {
  for (const Process& process : processes) {
    if (process.generation == generation) return &process;
  }
  return nullptr;
}

Pod new_pod(int slot, std::int64_t incarnation) {
  const MonotonicTime start{std::chrono::hours(1)};
  return Pod{.slot = slot,
             .incarnation = incarnation,
             .left = std::nullopt,
             .clock = start,
             .state = MemberState(options_of(slot, incarnation), start),
             .processes = {}};
}

void add(Fingerprint& to, const Pod& pod) {
  const auto& [slot, incarnation, alive, frozen, left, clock, state, processes, ready_for, followed] = pod;
  to.add(slot, incarnation, alive, frozen, left, ready_for, followed, processes.size());
  for (const Process& process : processes) add(to, process);
  if (pod.there()) to.add(state);  // nobody asks the machine of a pod that is gone
}

std::uint64_t fingerprint(const PodEvent& event) {
  const auto& [kind, number, generation, message, message_id, state, yields] = event;
  return Fingerprint().add(kind, number, generation, message_id, state, yields).value();
}

PodStep step(Pod& pod, const PodEvent& event) {
  return Stepper(pod).take(event);
}

}  // namespace lockstep::rendezvous::explorer
