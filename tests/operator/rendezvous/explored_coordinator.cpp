#include "tests/operator/rendezvous/explored_coordinator.h"

#include <fmt/format.h>

#include "tests/operator/rendezvous/explored_pod.h"

namespace lockstep::rendezvous::explorer {
namespace {

// The order of the timers is that of the shipped ones; shorter, so that few quarters of a second matter.
CoordinatorTiming timing() {
  using std::chrono::milliseconds;
  CoordinatorTiming timing;
  timing.lost_after = milliseconds(600);
  timing.silent_least = timing.silent_after = milliseconds(850);  // so that past heartbeats do not tell states apart
  timing.no_eviction_for = milliseconds(1100);
  timing.ready_within = milliseconds(1350);
  timing.session_silence = milliseconds(1600);
  timing.warm_again = milliseconds(700);
  timing.echo_within = milliseconds(1600);
  timing.store_retry = milliseconds(200);
  timing.yield_within = milliseconds(1600);
  timing.checkpoint_every = milliseconds(0);
  return timing;
}

// The machine keeps the function that makes its keys, and is copied with it: the count is of the copy that steps.
thread_local int* keys_made = nullptr;

WallTime wall(MonotonicTime time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(time.time_since_epoch()));
}

Result<GenerationStore::Versioned> loaded(const Answer& answer) {
  if (answer.unavailable) return fail(ErrorCode::kUnavailable, "no answer");
  return GenerationStore::Versioned{answer.loaded.value_or(Record{}), answer.version};
}

Result<std::string> written(const Answer& answer) {
  if (answer.conflict) return fail(ErrorCode::kConflict, "another version");
  if (answer.unavailable) return fail(ErrorCode::kUnavailable, "no answer");
  return answer.version;
}

}  // namespace

Coordinator new_coordinator(int number, std::int64_t term) {
  const MonotonicTime start{std::chrono::hours(1)};
  const auto make_key = [number] { return fmt::format("key-{}-{}", number, ++*keys_made); };
  return Coordinator{
      .number = number, .clock = start, .state = CoordinatorState(term, timing(), make_key, {start, wall(start)})};
}

CoordinatorStep step(Coordinator& coordinator, const CoordinatorEvent& event) {
  using Event = CoordinatorEvent::Kind;
  if (event.kind == Event::kClock) coordinator.clock += kQuarterSecond;
  keys_made = &coordinator.keys;
  CoordinatorState& state = coordinator.state;
  const Now now{coordinator.clock, wall(coordinator.clock), event.leads};
  const std::int64_t ignored = state.ignored();
  switch (event.kind) {
    case Event::kHears:
      if (const auto* hello = std::get_if<Hello>(event.message)) {
        state.on_hello(event.session, *hello, now);
      } else {
        state.on_message(event.session, *event.message, now);
      }
      break;
    case Event::kDisconnected:
      state.on_disconnected(event.session, now);
      break;
    case Event::kPlan:
      state.on_plan(*event.plan, now);
      break;
    case Event::kLoaded:
      state.on_loaded(loaded(event.answer), now);
      break;
    case Event::kWritten:
      state.on_written(written(event.answer), now);
      break;
    case Event::kClock:
      break;
    case Event::kTick:
      state.on_tick(now);
      break;
    case Event::kFreezes:
    case Event::kThaws:
      coordinator.frozen = event.kind == Event::kFreezes;
      break;
    case Event::kDies:
      coordinator.alive = false;
      break;
  }
  CoordinatorStep step;
  for (CoordinatorAction& action : state.take_actions()) {
    if (auto* out = std::get_if<SendToMember>(&action)) {
      step.sent.push_back(std::move(*out));
    } else if (const auto* close = std::get_if<CloseSession>(&action)) {
      step.closed.push_back(close->session);
    } else if (auto* write = std::get_if<WriteRecord>(&action)) {
      step.writes = std::move(*write);
    } else {
      step.loads = true;
    }
  }
  if (const auto& illegal = state.illegal()) {
    step.violation = fmt::format("the coordinator went from {} to {}", name_of(illegal->from), name_of(illegal->to));
  }
  // An agent tells of the ranks that it was given; its coordinator, or the one that took over, knows them.
  const bool of_a_rank = event.kind == Event::kHears && (std::holds_alternative<Exit>(*event.message) ||
                                                         std::holds_alternative<Broken>(*event.message));
  if (of_a_rank && state.ignored() != ignored) step.violation = "the coordinator takes a rank for another slot's";
  const auto view = state.view();
  coordinator.broken = view && view->phase == Phase::kBroken ? view->generation : 0;
  const bool evicts = coordinator.broken > 0 && view->failure && view->failure->cause == api::Cause::kPartitioned;
  coordinator.evicts = evicts ? view->failure->slot : -1;
  coordinator.up = view && view->phase == Phase::kUp;
  return step;
}

void add(Fingerprint& to, const Coordinator& coordinator) {
  const auto& [number, alive, frozen, clock, state, keys, broken, evicts, up] = coordinator;
  to.add(number, alive, frozen, keys, broken, evicts, up);
  if (alive) to.add(state);
}

std::uint64_t fingerprint(const CoordinatorEvent& event) {
  const auto& [kind, session, message, plan, leads, id, answer] = event;
  const auto& [loaded, version, conflict, unavailable] = answer;
  return Fingerprint().add(kind, session, leads, id, loaded, version, conflict, unavailable).value();
}

}  // namespace lockstep::rendezvous::explorer
