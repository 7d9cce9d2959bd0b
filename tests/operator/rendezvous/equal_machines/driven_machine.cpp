#include "tests/operator/rendezvous/equal_machines/driven_machine.h"

#include <fmt/format.h>

#include "operator/rendezvous/coordinator_state.h"
#include "tests/operator/rendezvous/equal_machines/trace.h"

// compare.sh sets MAKE_MACHINE, and changes the namespace for the version of before.
namespace lockstep::rendezvous {
namespace {

using equal_machines::Event;
using equal_machines::Order;
using equal_machines::Seen;

// Whether a machine that knows which steps may follow which has taken another one.
template <typename State>
bool took_illegal_step(const State& state) {
  if constexpr (requires { state.illegal(); }) return state.illegal().has_value();
  return false;
}

Order order_of(const SendToMember& send) {
  using Kind = Order::Kind;
  Order order;
  order.session = send.session;
  if (std::holds_alternative<Welcome>(send.message)) order.kind = Kind::kWelcome;
  if (const auto* it = std::get_if<Welcome>(&send.message)) order.term = it->term;
  if (std::holds_alternative<Refused>(send.message)) order.kind = Kind::kRefused;
  if (const auto* it = std::get_if<Propose>(&send.message)) {
    order = {Kind::kPropose, send.session, it->id.term, it->id.generation, it->first_rank, it->ranks};
  } else if (const auto* go = std::get_if<Go>(&send.message)) {
    order = {Kind::kGo, send.session, go->id.term, go->id.generation, go->first_rank, go->ranks};
  } else if (const auto* warm = std::get_if<Warm>(&send.message)) {
    order = {Kind::kWarm, send.session, 0, 0, warm->first ? 1 : 0, warm->go.ranks};
  } else if (const auto* echo = std::get_if<Echo>(&send.message)) {
    order = {Kind::kEcho, send.session, 0, echo->generation, 0, 0};
  } else if (const auto* halt = std::get_if<Halt>(&send.message)) {
    order = {Kind::kHalt, send.session, halt->id.term, halt->id.generation, 0, 0};
  } else if (const auto* yield = std::get_if<Yield>(&send.message)) {
    order = {Kind::kYield, send.session, yield->id.term, yield->id.generation, 0, 0};
  } else if (const auto* abort = std::get_if<Abort>(&send.message)) {
    order = {Kind::kAbort, send.session, 0, abort->generation, abort->rank, 0};
  } else if (std::holds_alternative<Stop>(send.message)) {
    order.kind = Kind::kStop;
  } else if (std::holds_alternative<Done>(send.message)) {
    order.kind = Kind::kDone;
  }
  return order;
}

CoordinatorTiming timing_of(int scale) {
  CoordinatorTiming timing;
  for (Duration* each : {&timing.silent_after, &timing.ready_within, &timing.no_eviction_for, &timing.reconnect_within,
                         &timing.orphan_after, &timing.checkpoint_every, &timing.yield_within, &timing.echo_within,
                         &timing.session_silence, &timing.abort_within}) {
    *each /= scale;
  }
  return timing;
}

class Driven : public equal_machines::Machine {
 public:
  explicit Driven(int scale) : timing_(timing_of(scale)) { take_over(1, Now{time_of(1'000'000), {}, true}); }

  const Seen& after(const Event& event) override {
    seen_ = {};
    const Now now{time_of(event.time_ms), WallTime(std::chrono::milliseconds(1'700'000'000'000 + event.time_ms)),
                  event.leads};
    Trace trace(seen_.trace);
    carry_out(event, now, trace);
    observe(trace);
    return seen_;
  }

  std::string describe() const override {
    const auto view = state_->view();
    if (!view) return "no view";
    std::string words =
        fmt::format("generation {}, phase {}, \"{}\"", view->generation, static_cast<int>(view->phase), view->message);
    if (view->failure) {
      words += fmt::format(", {} of slot {}: {}", cause_in_words(view->failure->cause), view->failure->slot,
                           view->failure->message);
    }
    return words;
  }

 private:
  static MonotonicTime time_of(std::int64_t ms) { return MonotonicTime(std::chrono::milliseconds(ms)); }

  void take_over(std::int64_t term, Now now) {
    state_ = std::make_unique<CoordinatorState>(
        term, timing_, [this] { return fmt::format("{:064}", ++keys_); }, now);
  }

  void carry_out(const Event& event, Now now, Trace& trace) {
    using Kind = Event::Kind;
    switch (event.kind) {
      case Kind::kPlan:
        return state_->on_plan(plan_of(event.plan), now);
      case Kind::kHello:
        trace.put(state_->refusal(hello_of(event)).has_value());
        return state_->on_hello(event.session, hello_of(event), now);
      case Kind::kSignOfLife:
        return state_->on_sign_of_life(hello_of(event), now);
      case Kind::kTokenPending:
        return state_->on_token_pending({hello_of(event)}, now);
      case Kind::kTurnedAway:
        return state_->on_turned_away(fmt::format("reason {}", event.problem));
      case Kind::kHeartbeat:
        return state_->on_message(event.session, heartbeat_of(event), now);
      case Kind::kReady:
        return state_->on_message(event.session, ready_of(event), now);
      case Kind::kUp: {
        Up up;
        up.generation = event.generation;
        up.regroups = event.regroups;
        up.entry.init_ms = event.life;
        up.entry.transfer_ms = event.life - 1;
        return state_->on_message(event.session, up, now);
      }
      case Kind::kBroken: {
        Broken broken;
        broken.rank = event.rank;
        broken.report.generation = event.generation;
        broken.report.suspect_rank = event.suspect;
        broken.report.message = "the link broke";
        broken.report.yielded = event.yielded;
        broken.report.stepped = event.stepped;
        return state_->on_message(event.session, broken, now);
      }
      case Kind::kExit:
        return state_->on_message(event.session, exit_of(event), now);
      case Kind::kEchoed: {
        Echoed echoed;
        echoed.generation = event.generation;
        echoed.problem = word("address", event.problem);
        return state_->on_message(event.session, echoed, now);
      }
      case Kind::kUnknown:
        return state_->on_message(event.session, Unknown{}, now);
      case Kind::kDisconnected:
        return state_->on_disconnected(event.session, now);
      case Kind::kLoaded:
        if (!event.ok) return state_->on_loaded(fail(ErrorCode::kUnavailable, "no answer"), now);
        return state_->on_loaded(loaded_of(event), now);
      case Kind::kWritten:
        if (event.ok) return state_->on_written(Result<std::string>(std::to_string(event.version)), now);
        return state_->on_written(fail(event.conflict ? ErrorCode::kConflict : ErrorCode::kUnavailable, "not written"),
                                  now);
      case Kind::kTick:
        return state_->on_tick(now);
      case Kind::kTakeOver:
        return take_over(event.term, now);
    }
  }

  void observe(Trace& trace) {
    for (const CoordinatorAction& action : state_->take_actions()) {
      trace.put(action.index());
      if (const auto* send = std::get_if<SendToMember>(&action)) {
        trace.put(send->session, send->message.index());
        std::visit([&](const auto& message) { trace.put(message); }, send->message);
        seen_.orders.push_back(order_of(*send));
      } else if (const auto* close = std::get_if<CloseSession>(&action)) {
        trace.put(close->session);
        seen_.closed.push_back(close->session);
      } else if (const auto* write = std::get_if<WriteRecord>(&action)) {
        trace.put(write->version, write->next);
        seen_.writes = static_cast<int>(written_.size());
        written_.push_back(write->next);
      } else {
        seen_.loads = true;
      }
    }
    trace.put(state_->take_changed(), state_->take_progress_changed(), state_->take_held_up().count());
    const auto view = state_->view();
    trace.put(took_illegal_step(*state_));
    trace.put(view, state_->progress(), state_->deadline(), state_->ignored(), state_->evaluations(), keys_);
    if (view) {
      seen_.generation = view->generation;
      seen_.phase = static_cast<int>(view->phase);
      seen_.failed_slot = view->failure ? view->failure->slot : -1;
    }
    seen_.deadline_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(state_->deadline().time_since_epoch()).count();
  }

  static JobPlan plan_of(const Event::Plan& it) {
    JobPlan plan;
    plan.name_space = "ns";
    plan.name = "job";
    plan.uid = "uid";
    plan.kind = static_cast<Kind>(it.kind);
    plan.slots = it.slots;
    plan.spares = it.spares;
    elastic_of(plan).min_slots = it.min_slots;
    elastic_of(plan).stabilization_seconds = it.stabilization;
    plan.procs_per_node = it.procs;
    plan.port = it.port;
    program_of(plan).env = {{"A", "b"}};
    program_of(plan).checkpoint_path = "/checkpoints";
    plan.handled_generation = it.handled;
    plan.stop = it.stop;
    plan.goes_on = it.goes_on;
    plan.stop_grace_seconds = it.grace;
    deadlines_of(plan).start_timeout_seconds = it.start_timeout;
    deadlines_of(plan).progress_seconds = it.progress_seconds;
    deadlines_of(plan).watch_reports = it.watch_reports;
    for (const Event::Expected& member : it.members) {
      plan.members.push_back({member.slot, member.incarnation, word("pod", member.pod), word("uid", member.pod),
                              member.pod % 3 == 0 ? "" : word("node", member.pod % 3), member.leaving});
    }
    return plan;
  }

  static Hello hello_of(const Event& event) {
    Hello hello;
    hello.protocol = event.protocol;
    hello.name_space = "ns";
    hello.pod_name = word("pod", event.pod);
    hello.pod_uid = word("uid", event.pod);
    hello.slot = event.slot;
    hello.incarnation = event.incarnation;
    hello.session = word("agent", event.agent);
    hello.phase = static_cast<MemberPhase>(event.phase);
    hello.generation = event.generation;
    hello.up = event.up;
    hello.regroups = event.regroups;
    hello.promised = {event.term, event.promised};
    hello.welcomed = event.welcomed;
    hello.life = event.life;
    return hello;
  }

  static StateVersion version_of(const Event::Version& it) { return {it.generation, it.step, word("d", it.digest)}; }

  static std::vector<IdentityRun> identities_of(const Event& event) {
    std::vector<IdentityRun> runs;
    for (const int line : event.identities) runs.push_back({1, line == 0 ? "" : fmt::format("numerics={}", line)});
    return runs;
  }

  static Heartbeat heartbeat_of(const Event& event) {
    Heartbeat heartbeat;
    heartbeat.phase = static_cast<MemberPhase>(event.phase);
    heartbeat.generation = event.generation;
    heartbeat.up = event.up;
    heartbeat.regroups = event.regroups;
    if (event.step) {
      heartbeat.progress = Progress{.step = *event.step,
                                    .total_steps = 1000,
                                    .epoch = 1,
                                    .loss = 0.5,
                                    .samples_per_second = 2.5,
                                    .eta_seconds = 10};
    }
    if (event.checkpoint) {
      heartbeat.newest_checkpoint =
          CheckpointReport{fmt::format("step-{}.g{}", event.checkpoint->step, event.checkpoint->generation),
                           event.checkpoint->step, event.checkpoint->generation, "d"};
    }
    for (const Event::Rank& rank : event.ranks) {
      RankActivity activity;
      activity.state = rank.state;
      if (rank.said) {
        activity.said = Activity{.generation = rank.generation,
                                 .doing = static_cast<Activity::Doing>(rank.doing),
                                 .step = rank.step,
                                 .beats = rank.beats,
                                 .sequence = rank.sequence,
                                 .stage = Activity::Stage::kExchange,
                                 .sent = rank.sent,
                                 .received = rank.received,
                                 .waits_for_bytes_of = rank.waits_for_bytes_of,
                                 .waits_for_room_at = rank.waits_for_room_at};
      }
      heartbeat.ranks.push_back(activity);
    }
    heartbeat.identities = identities_of(event);
    return heartbeat;
  }

  static Ready ready_of(const Event& event) {
    Ready ready;
    ready.id = {event.term, event.generation};
    for (int i = 0; i < event.addresses; ++i) ready.addresses.push_back(fmt::format("10.0.{}.{}:1", event.slot, i));
    for (const Event::Version& version : event.holdings) ready.holdings.push_back(version_of(version));
    ready.host = fmt::format("10.0.{}.1", event.slot);
    ready.master_port = 20'000 + event.slot;
    ready.life = event.life;
    const char* const problems[] = {"", "PortInUse", "CommandNotFound"};
    say(ready.problem, problems[event.problem % 3]);
    ready.message = word("why", event.problem);
    ready.identities = identities_of(event);
    return ready;
  }

  static Exit exit_of(const Event& event) {
    Exit exit;
    exit.generation = event.generation;
    exit.rank = event.rank;
    exit.code = event.code;
    exit.signal = event.signal;
    exit.end_ms = event.end_ms;
    exit.reason = static_cast<Exit::Reason>(event.reason);
    if (event.report >= 0) {
      exit.report = FailureReport{static_cast<FailureReport::Class>(event.report), event.suspect, "what it saw"};
    }
    exit.stderr_tail = event.life % 2 == 0 ? "" : "last words";
    const char* const problems[] = {"", "CommandNotFound", "Hang"};
    say(exit.problem, problems[event.problem % 3]);
    exit.message = word("why", event.problem);
    return exit;
  }

  GenerationStore::Versioned loaded_of(const Event& event) const {
    GenerationStore::Versioned loaded;
    if (event.record >= 0) loaded.record = written_[static_cast<std::size_t>(event.record)];
    if (event.foreign) {
      loaded.record.writer = "another";
      loaded.record.term = event.record_term;
      loaded.record.generation += event.generation_up;
    }
    if (event.format > 0) loaded.record.format = event.format;
    if (event.format > kRecordFormat) loaded.record.members.clear();
    loaded.version = event.version == 0 ? "" : std::to_string(event.version);
    return loaded;
  }

  const CoordinatorTiming timing_;
  std::unique_ptr<CoordinatorState> state_;
  std::vector<Record> written_;
  int keys_ = 0;
  Seen seen_;
};

}  // namespace

}  // namespace lockstep::rendezvous

namespace lockstep::equal_machines {

std::unique_ptr<Machine> MAKE_MACHINE(int scale) {
  return std::make_unique<rendezvous::Driven>(scale);
}

}  // namespace lockstep::equal_machines
