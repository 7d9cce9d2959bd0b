#include "tests/operator/rendezvous/equal_machines/driven_member.h"

#include <fmt/format.h>

#include "operator/rendezvous/member_state.h"
#include "tests/operator/rendezvous/equal_machines/trace.h"

// compare.sh sets MAKE_MEMBER, and changes the namespace for the version of before.
namespace lockstep::rendezvous {
namespace {

using equal_machines::MemberEvent;
using equal_machines::MemberOrder;
using equal_machines::MemberSeen;

using OrderKind = MemberOrder::Kind;

std::string address(int port) {
  return fmt::format("10.0.0.1:{}", port);
}
int port_of(const std::string& address) {
  return std::stoi(address.substr(address.find(':') + 1));
}

Kind program_kind(int number) {
  return static_cast<Kind>(number);
}

const char* const kProblems[] = {"", "PortInUse", "CommandNotFound"};

// One message of an agent: what is compared of it, and what the pod's world makes of it.
MemberOrder heard(const AgentToCoordinator& message, Trace& trace) {
  trace.put(message.index());
  std::visit([&](const auto& it) { trace.put(it); }, message);
  MemberOrder order;
  order.kind = static_cast<OrderKind>(message.index());
  if (const auto* ready = std::get_if<Ready>(&message)) {
    order = {OrderKind::kReady, ready->id.term, ready->id.generation};
    for (const std::string& each : ready->addresses) order.ports.push_back(port_of(each));
    order.well = cause_in_words(ready->problem).empty();
  }
  return order;
}

MemberOrder of_go(OrderKind kind, const Go& go) {
  return {kind, go.id.term, go.id.generation, go.first_rank, go.ranks};
}

// One action, the same way.
struct Carry {
  Trace& trace;

  MemberOrder operator()(const SendToCoordinator& it) const { return heard(it.message, trace); }
  MemberOrder operator()(const PrepareSockets& it) const {
    trace.put(it.propose);
    return {OrderKind::kPrepare, it.propose.id.term, it.propose.id.generation, it.propose.first_rank, it.propose.ranks};
  }
  MemberOrder operator()(const DropSockets&) const { return {OrderKind::kDropSockets}; }
  MemberOrder operator()(const StartProcesses& it) const {
    trace.put(it.go, it.only);
    MemberOrder order = of_go(OrderKind::kStart, it.go);
    order.only = it.only;
    return order;
  }
  MemberOrder operator()(const AskHoldings& it) const {
    trace.put(it.id);
    return {OrderKind::kAskHoldings, it.id.term, it.id.generation};
  }
  MemberOrder operator()(const ContinueProcesses& it) const {
    trace.put(it.go);
    return of_go(OrderKind::kContinue, it.go);
  }
  MemberOrder operator()(const AskYield& it) const {
    trace.put(it.generation);
    return {OrderKind::kAskYield, 0, it.generation};
  }
  MemberOrder operator()(const DialAddresses& it) const {
    trace.put(it.generation, it.peers);
    return {OrderKind::kDial, 0, it.generation};
  }
  MemberOrder operator()(const RenumberProcesses& it) const {
    trace.put(it.first_rank);
    return {OrderKind::kRenumber, 0, 0, it.first_rank};
  }
  MemberOrder operator()(const EndProcesses& it) const {
    trace.put(it.ask);
    return {OrderKind::kEnd};
  }
  MemberOrder operator()(const AbortProcess& it) const {
    trace.put(it.rank);
    return {OrderKind::kAbort, 0, 0, 0, 0, it.rank};
  }
  MemberOrder operator()(const KillProcess& it) const {
    trace.put(it.rank);
    return {OrderKind::kKill, 0, 0, 0, 0, it.rank};
  }
  MemberOrder operator()(const KillProcesses&) const { return {OrderKind::kKillAll}; }
  MemberOrder operator()(const CloseConnection& it) const {
    trace.put(it.why);
    return {OrderKind::kClose};
  }
  MemberOrder operator()(const ExitAgent& it) const {
    trace.put(it.code);
    return {OrderKind::kExitAgent};
  }
};

class DrivenMember : public equal_machines::MemberMachine {
 public:
  const MemberSeen& after(const MemberEvent& event) override {
    seen_ = {};
    const MonotonicTime now(std::chrono::milliseconds(event.time_ms));
    Trace trace(seen_.trace);
    if (event.kind == MemberEvent::Kind::kAgentStarts) {
      state_ = std::make_unique<MemberState>(options(event.number), now);
    } else if (event.kind >= MemberEvent::Kind::kWelcome && event.kind <= MemberEvent::Kind::kUnknown) {
      state_->on_message(message_of(event), now);
    } else {
      take(event, now);
    }
    observe(now, trace);
    return seen_;
  }

  std::string describe() const override {
    return fmt::format("phase {}, generation {}, promised {}.{}, {}{}", static_cast<int>(state_->phase()),
                       state_->generation(), state_->promised().term, state_->promised().generation,
                       state_->welcomed() ? "welcomed" : "alone", state_->leaving() ? ", leaving" : "");
  }

 private:
  using Kind = MemberEvent::Kind;

  // Timers in the order of the shipped ones, and shorter.
  static MemberOptions options(int number) {
    using std::chrono::milliseconds;
    MemberOptions options;
    options.name_space = "ns";
    options.pod_name = options.pod_uid = "pod";
    options.session = fmt::format("agent-{}", number);
    options.slot = 1;
    options.kill_grace = milliseconds(300);
    options.abort_grace = milliseconds(200);
    options.hold_within = milliseconds(500);
    options.orphan_after = milliseconds(3500);
    options.flush_exits_within = milliseconds(500);
    options.tell_checkpoint_within = milliseconds(800);
    return options;
  }

  static Go go_of(const MemberEvent& event) {
    Go go;
    go.id = {event.term, event.generation};
    go.job = "job";
    go.job_uid = "uid";
    go.kind = program_kind(event.program);
    go.first_rank = event.first_rank;
    go.ranks = event.ranks;
    go.world_size = event.world_size;
    go.group_rank = go.group_world_size = 1;
    go.master_addr = "10.0.0.9";
    go.master_port = event.number;
    program_of(go).checkpoint_path = "/checkpoints";
    if (event.kind == Kind::kWarm) return go;
    std::vector<std::string> ours;
    for (const int port : event.ports) ours.push_back(address(port));
    // Members before this one have one rank each.
    std::vector<PeerBlock::Member> members;
    for (int i = 0; i < event.first_rank; ++i) members.push_back({i + 2, 1, {address(1)}});
    members.push_back({1, 0, ours});
    go.peers = Peers(members);
    return go;
  }

  static CoordinatorToAgent message_of(const MemberEvent& event) {
    const GenerationId id{event.term, event.generation};
    switch (event.kind) {
      case Kind::kWelcome:
        return Welcome{event.term, event.number};
      case Kind::kRefused:
        return Refused{word("why", event.problem), event.flag};
      case Kind::kPropose:
        return Propose{id, event.first_rank, event.ranks, event.world_size, event.number};
      case Kind::kGo:
        return go_of(event);
      case Kind::kWarm:
        return Warm{go_of(event), event.flag};
      case Kind::kEcho:
        return Echo{event.generation, go_of(event).peers};
      case Kind::kAck:
        return Ack{event.generation, event.rank};
      case Kind::kHalt:
        return Halt{id};
      case Kind::kYield:
        return Yield{id};
      case Kind::kAbort:
        return Abort{event.generation, event.rank, word("hang", event.number)};
      case Kind::kStop:
        return Stop{event.number, event.code};
      case Kind::kDone:
        return Done{};
      default:
        return Unknown{};
    }
  }

  void take(const MemberEvent& event, MonotonicTime now) {
    const GenerationId id{event.term, event.generation};
    switch (event.kind) {
      case Kind::kConnected:
        return state_->on_connected(now);
      case Kind::kDisconnected:
        return state_->on_disconnected(now);
      case Kind::kPrepared: {
        Prepared prepared;
        for (const int port : event.ports) prepared.addresses.push_back(address(port));
        prepared.host = word("host", event.number);
        prepared.master_port = event.number;
        say(prepared.problem, kProblems[event.problem % 3]);
        if (event.problem != 0) prepared.message = word("why", event.problem);
        return state_->on_prepared(id, prepared, now);
      }
      case Kind::kDialled:
        return state_->on_dialled(event.generation, word("address", event.problem));
      case Kind::kStarted:
        return state_->on_started(event.rank, now);
      case Kind::kExit: {
        ProcessEnd end;
        end.rank = event.rank;
        end.code = event.code;
        end.signal = event.signal;
        end.end_ms = event.time_ms;
        end.stderr_tail = word("tail", event.number);
        say(end.problem, kProblems[event.problem % 3]);
        end.message = word("why", event.problem);
        end.left_behind = event.flag;
        return state_->on_exit(end, now);
      }
      case Kind::kProcessState:
        return state_->on_process_state(event.rank, "RSDT"[event.number % 4]);
      case Kind::kNoProcessLeft:
        return state_->on_no_process_left(now);
      case Kind::kTerminate:
        return state_->on_terminate(event.code, std::chrono::milliseconds(event.number), now);
      case Kind::kTick:
        return state_->on_tick(now);
      default:
        return state_->on_worker_message(event.rank, said(event), now);
    }
  }

  static WorkerMessage said(const MemberEvent& event) {
    WorkerMessage message;
    const std::string digest = word("d", event.number);
    switch (event.kind) {
      case Kind::kUp:
        message.up = true;
        message.regroups = event.flag;
        message.entry = {event.number, event.number / 2};
        break;
      case Kind::kProgress:
        message.progress = Progress{.step = event.step,
                                    .total_steps = 1000,
                                    .epoch = 1,
                                    .loss = 0.5,
                                    .samples_per_second = 2.5,
                                    .eta_seconds = event.number};
        break;
      case Kind::kCheckpoint:
        message.checkpoint = CheckpointReport{word("step", event.number), event.step, event.generation, digest};
        break;
      case Kind::kFailure:
        message.failure = FailureReport{static_cast<FailureReport::Class>(event.number % 2), event.number,
                                        word("why", event.problem)};
        break;
      case Kind::kBroken:
        message.broken =
            BrokenReport{event.generation, event.number, word("why", event.problem), event.flag, !event.flag};
        break;
      case Kind::kHolding:
        message.holding = Holding{event.term, event.generation, {event.generation - 1, event.step, digest}};
        break;
      case Kind::kActivity:
        message.activity = Activity{event.generation, Activity::Doing::kForward, event.step, event.number};
        if (event.flag) message.identity = word("identity", event.number % 3);
        break;
      default:
        message.identity = word("identity", event.number);
    }
    return message;
  }

  void observe(MonotonicTime now, Trace& trace) {
    for (const MemberAction& action : state_->take_actions()) {
      trace.put(action.index());
      seen_.orders.push_back(std::visit(Carry{trace}, action));
    }
    trace.put(state_->deadline(), state_->heartbeat_due(now), state_->phase(), state_->generation());
    trace.put(state_->promised(), state_->welcomed(), state_->leaving(), state_->ignored());
  }

  std::unique_ptr<MemberState> state_;
  MemberSeen seen_;
};

}  // namespace
}  // namespace lockstep::rendezvous

namespace lockstep::equal_machines {

std::unique_ptr<MemberMachine> MAKE_MEMBER() {
  return std::make_unique<rendezvous::DrivenMember>();
}

}  // namespace lockstep::equal_machines
