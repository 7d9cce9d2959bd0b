// What a trace says.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/operator/rendezvous/explored_world.h"

namespace lockstep::rendezvous::explorer {
namespace {

const char* in_words(MemberPhase phase) {
  switch (phase) {
    case MemberPhase::kIdle:
      return "idle";
    case MemberPhase::kReady:
      return "ready";
    case MemberPhase::kRunning:
      return "running";
    case MemberPhase::kWarm:
      return "warm";
    case MemberPhase::kExited:
      break;
  }
  return "exited";
}

std::string in_words(const StateVersion& version) {
  return version.digest.empty() ? "nothing"
                                : fmt::format("step {} of g{} [{}]", version.step, version.generation, version.digest);
}

struct AgentWords {
  std::string operator()(const Hello& m) const {
    return fmt::format("HELLO {} g{}{}, promised (term {}, g{})", in_words(m.phase), m.generation, m.up ? " up" : "",
                       m.promised.term, m.promised.generation);
  }
  std::string operator()(const Heartbeat& m) const {
    return fmt::format("HEARTBEAT {} g{}{}{}", in_words(m.phase), m.generation, m.up ? " up" : "",
                       m.progress ? fmt::format(" step {}", m.progress->step) : "");
  }
  std::string operator()(const Ready& m) const {
    std::string words = fmt::format("READY g{}", m.id.generation);
    for (const StateVersion& holding : m.holdings) words += ", holds " + in_words(holding);
    return words;
  }
  std::string operator()(const Up& m) const { return fmt::format("UP g{}", m.generation); }
  std::string operator()(const Broken& m) const {
    if (m.report.yielded) return fmt::format("BROKEN g{} rank {}, yielded", m.report.generation, m.rank);
    return fmt::format("BROKEN g{} rank {} suspects rank {}", m.report.generation, m.rank, m.report.suspect_rank);
  }
  std::string operator()(const Exit& m) const {
    return fmt::format("EXIT g{} rank {} code {}{}", m.generation, m.rank, m.code,
                       m.reason == Exit::Reason::kOwn ? "" : ", by order");
  }
  std::string operator()(const Echoed& m) const { return fmt::format("ECHOED g{} {}", m.generation, m.problem); }
  std::string operator()(const Unknown&) const { return "something unknown"; }
};

struct CoordinatorWords {
  std::string operator()(const Welcome& m) const { return fmt::format("WELCOME term {}", m.term); }
  std::string operator()(const Refused& m) const { return "REFUSED: " + m.message; }
  std::string operator()(const Propose& m) const {
    return fmt::format("PROPOSE (term {}, g{}) as rank {} of {}", m.id.term, m.id.generation, m.first_rank,
                       m.world_size);
  }
  std::string operator()(const Go& m) const {
    std::string from = m.restore.empty() ? "the beginning" : "checkpoint " + m.restore;
    if (m.source.rank >= 0) {
      from = fmt::format("{} of rank {}{}", in_words(m.source.version), m.source.rank, m.source.send ? ", sent" : "");
    }
    return fmt::format("GO (term {}, g{}) as rank {} of slots {}, from {}", m.id.term, m.id.generation, m.first_rank,
                       fmt::join(m.peers->slots(), " "), from);
  }
  std::string operator()(const Warm& m) const { return m.first ? "WARM, first" : "WARM"; }
  std::string operator()(const Echo& m) const { return fmt::format("ECHO g{}", m.generation); }
  std::string operator()(const Abort& m) const { return fmt::format("ABORT g{} rank {}", m.generation, m.rank); }
  std::string operator()(const Ack& m) const { return fmt::format("ACK g{} rank {}", m.generation, m.rank); }
  std::string operator()(const Halt& m) const { return fmt::format("HALT (term {}, g{})", m.id.term, m.id.generation); }
  std::string operator()(const Yield& m) const { return fmt::format("YIELD g{}", m.id.generation); }
  std::string operator()(const Stop&) const { return "STOP"; }
  std::string operator()(const Done&) const { return "DONE"; }
  std::string operator()(const Unknown&) const { return "something unknown"; }
};

}  // namespace

std::string in_words(const AgentToCoordinator& message) {
  return std::visit(AgentWords(), message);
}

std::string in_words(const CoordinatorToAgent& message) {
  return std::visit(CoordinatorWords(), message);
}

std::string Explored::describe(const World& world) const {
  std::string text;
  for (int slot = 0; slot < scenario_.slots; ++slot) {
    const Pod& here = pod(world, slot);
    text += fmt::format("slot {} incarnation {}: {}", slot, here.incarnation,
                        here.left    ? fmt::format("left with {}", *here.left)
                        : here.alive ? in_words(here.state.phase())
                                     : "dead");
    if (here.there()) {
      text += fmt::format(" g{}, promised (term {}, g{}){}{}", here.state.generation(), here.state.promised().term,
                          here.state.promised().generation, here.frozen ? ", frozen" : "",
                          here.state.welcomed() ? "" : ", without a coordinator");
    }
    for (const Process& process : here.processes) {
      text += fmt::format("; process of g{} holds {}{}{}", process.generation, in_words(process.version()),
                          process.broke ? ", broke" : "", process.done ? ", done" : "");
    }
    for (const Link& link : links(world, slot).list) {
      text += fmt::format("; link to coordinator {}: {} up, {} down", link.coordinator + 1, link.up.size(),
                          link.down.size());
    }
    text += "\n";
  }
  for (int i = 0; i < kMostCoordinators; ++i) {
    if (!has_coordinator(world, i) || !coordinator(world, i).alive) continue;
    const auto view = coordinator(world, i).state.view();
    text += fmt::format(
        "coordinator {}{}: {}\n", i + 1, coordinator(world, i).frozen ? " (frozen)" : "",
        view ? fmt::format("phase {} g{}: {}", static_cast<int>(view->phase), view->generation, view->message)
             : "knows nothing yet");
  }
  const Record& record = parts_.stores[world.store].record;
  return text +
         fmt::format("record: term {} g{}{}\n", record.term, record.generation, record.finished ? ", finished" : "");
}

}  // namespace lockstep::rendezvous::explorer
