// A world of members, coordinators, a record, and a controller, whose every next step is a choice. What a choice does
// is here, what may be chosen in explored_choices.cpp, what must never be in explored_rules.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/operator/rendezvous/explored_parts.h"

namespace lockstep::rendezvous::explorer {

inline constexpr int kMostSlots = 4;
inline constexpr int kMostCoordinators = 2;

// What may go wrong; each time costs one of a world's faults.
enum Fault : unsigned {
  kProcessDies = 1,
  kPodDies = 2,
  kConnectionBreaks = 4,   // between an agent and a coordinator; a message in flight may yet arrive
  kProcessLosesTouch = 8,  // its links to its peers break, with everybody alive
  kAgentFreezes = 16,      // with its process, until some time later
  kCoordinatorDies = 32,
  kAnotherLeads = 64,  // beside the one before, which does not know yet
  kCoordinatorFreezes = 128,
  kWriteFails = 256,    // before it was made
  kAnswerIsLost = 512,  // after it was made
  kLateMessage = 1024,  // a proposal, GO or halt reaches an agent from a connection that it has left
};
inline constexpr unsigned kAllFaults = 2047;

class Explored;
struct World;

// A place on the way to the state from which everything is explored: the nearest state of which it is true.
struct Waypoint {
  std::string name;
  unsigned kinds = 0;  // of the faults on the way there
  int faults = 0, delays = 0;
  std::function<bool(const Explored&, const World&)> reached;
};

struct Scenario {
  enum class Root {
    kBoot,     // nobody has connected
    kUp,       // the first generation is up
    kStepped,  // it has made a step
  };
  std::string name;
  int slots = 3;
  int min_slots = 0;  // 0: not elastic
  int steps = 2;      // of the whole training
  bool checkpoints = false;
  bool racks = false;            // pods run in two racks, so that the order of ranks is not that of slots
  std::int64_t second_term = 2;  // of the second leader; 1: somebody deleted the Lease
  Root root = Root::kUp;
  int late_slots = 0;  // that have not connected at the root, the last ones
  std::vector<Waypoint> by = {};
  unsigned kinds = kAllFaults;
  int faults = 1;
  int delays = 0;   // times that 250 ms pass while something that could happen at once does not
  int depth = 100;  // choices from the root
};

struct World {
  std::array<Id, kMostSlots> pods{}, links{};
  std::array<Id, kMostCoordinators> coordinators{}, operations{}, plans_given{};
  Id plan = 0, store = 0, chronicle = 0;
  std::int32_t faults = 0, delays = 0;  // that may be yet
  unsigned kinds = 0;                   // of faults

  bool operator==(const World&) const = default;
  std::uint64_t fingerprint() const;
};

struct Choice {
  enum class Kind : std::uint8_t {
    // Of the process of slot `a` in generation `b`.
    kAnswers,
    kMisses,
    kCommits,
    kYields,
    kEnds,
    kTakes,
    kLinks,  // all ranks of it
    kDown,   // a message reaches the agent of slot `a`
    kEndsDown,
    kUp,      // a message of link `b` of slot `a` reaches its coordinator
    kEndsUp,  // what else was in flight is lost
    kWrite,   // of coordinator `a` is made
    kAnswer,  // reaches coordinator `a`
    kHandles,
    kPlan,  // reaches coordinator `a`
    // Nothing waits for these.
    kThaws,
    kCoordinatorThaws,
    kStops,
    kLeads,
    kConnects,  // slot `a` to coordinator `b`
    kReplaced,
    kReduces,  // all ranks of it
    kExits,
    kPasses,  // 250 ms
    kDelays,  // the same, though something could happen at once
    // Faults.
    kKilled,
    kDies,
    kCut,
    kLosesTouch,
    kFreezes,
    kCoordinatorDies,
    kAnotherLeads,
    kCoordinatorFreezes,
    kWriteFails,
    kAnswerLost,
    kLate,
  };
  Kind kind = Kind::kPasses;
  std::int8_t a = 0, b = 0;
};

// Whether nothing has to go wrong for it.
inline bool calm(const Choice& choice) {
  return choice.kind < Choice::Kind::kDelays;
}

class Explored {
 public:
  explicit Explored(Scenario scenario);

  const Scenario& scenario() const { return scenario_; }
  const Parts& parts() const { return parts_; }

  // Before anything has happened, with all faults of the scenario to come.
  World boot();
  // Where the scenario begins; none: a calm world does not get there.
  std::optional<World> root();

  const Pod& pod(const World& world, int slot) const { return parts_.pods[world.pods[at(slot)]]; }
  const Links& links(const World& world, int slot) const { return parts_.links[world.links[at(slot)]]; }

  // The pod of that slot, as a plan expects it.
  ExpectedMember expected(int slot, std::int64_t incarnation) const;

  // What can happen next, calm choices first and in the order in which a calm world makes them.
  std::vector<Choice> choices(const World& world) const;
  // The world after it. `violation` is set where a rule is broken, `told` (where given) to what happened.
  World after(const World& world, const Choice& choice, std::string& violation, std::string* told = nullptr);
  // What a world without further faults does next.
  Choice calm_choice(const World& world) const;
  // The end of training is recorded, and all agents have left, those of its generation with 0.
  bool finished(const World& world) const;
  std::string describe(const World& world) const;

 private:
  class Step;

  const Coordinator& coordinator(const World& world, int index) const {
    return parts_.coordinators[world.coordinators[at(index)]];
  }
  const Chronicle& chronicle(const World& world) const { return parts_.chronicles[world.chronicle]; }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  bool has_coordinator(const World& world, int index) const { return world.coordinators[at(index)] != 0; }
  bool acts(const World& world, int index) const {
    return has_coordinator(world, index) && coordinator(world, index).acts();
  }
  int leader(const World& world) const;  // the newest that is alive, or -1
  // The connection that the agent of a slot holds; null: none.
  const Link* open_link(const World& world, int slot) const;
  // Whether the peer of that slot can be seen to be out of the generation.
  bool gone(const World& world, int slot, std::int64_t generation) const;
  // Whether all ranks of the generation of `process` are there and linked, or can link.
  bool whole(const World& world, const Process& process) const;
  bool all(const World& world, const Process& process, Process::Stage stage) const;
  bool can_reduce(const World& world, const Process& process) const;

  bool may_yield(const World& world, const Process& process) const;
  bool can_only_listen(const World& world, int slot) const;
  void add_process_choices(const World& world, int slot, std::vector<Choice>& to) const;
  void add_link_choices(const World& world, int slot, std::vector<Choice>& to) const;
  void add_coordinator_choices(const World& world, std::vector<Choice>& to) const;
  void add_training_choices(const World& world, std::vector<Choice>& to) const;
  void add_idle_choices(const World& world, std::vector<Choice>& to) const;
  void add_faults(const World& world, std::vector<Choice>& to) const;

  // The rules; each gives a sentence where it is broken.
  std::string broken_by_following(const World& world, int slot, const Go& go) const;
  std::string broken_by_linking(const World& world, const Process& process) const;
  std::string broken_by_reducing(const World& world, const Process& process) const;
  std::string broken_by_writing(const World& world, const Record& before, const Record& next) const;

  const Scenario scenario_;
  Parts parts_;
};

std::string in_words(const AgentToCoordinator& message);
std::string in_words(const CoordinatorToAgent& message);

}  // namespace lockstep::rendezvous::explorer
