// The parts that an explored world is made of, each kept once. A world names them by number, and worlds that differ in
// one part share all others. What an event does to a part is worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/operator/rendezvous/explored_coordinator.h"
#include "tests/operator/rendezvous/explored_pod.h"

namespace lockstep::rendezvous::explorer {

using Id = std::uint32_t;  // of a part; 0 is none

// A connection. Each direction keeps its order; what is in flight when one side closes may still arrive at the other.
struct Link {
  SessionId session = 0;
  int coordinator = 0;
  bool agent_open = true, coordinator_open = true;
  std::vector<Id> up, down;  // messages in flight
  std::vector<Id> late;      // to an agent that has closed it
};
struct Links {
  int opened = 0;
  std::vector<Link> list;
};

struct Store {
  Record record;
  int writes = 0;

  std::string version() const { return writes == 0 ? "" : std::to_string(writes); }
};

// The one operation on the record that a coordinator may have under way.
struct Operation {
  bool writes = false;
  WriteRecord write;
  bool answered = false;
  Answer answer;
};

// What has happened so far, for the invariants.
struct Chronicle {
  using Members = std::map<int, std::int64_t>;  // incarnation by slot
  std::map<std::int64_t, Members> recorded;     // by generation
  std::map<std::int64_t, std::string> agreed;   // what its members were told, by generation
  std::map<std::string, std::int64_t> generation_of_key;
  std::int64_t newest = 0;                                       // generation that ended an all-reduce
  std::set<std::string> confirmed;                               // states from which all ranks have gone on
  std::map<std::int64_t, std::map<int, std::string>> succeeded;  // state at exit with 0, by generation and slot
  int deaths = 0;
};

std::uint64_t canonical(const Pod& pod);
std::uint64_t canonical(const Coordinator& coordinator);
std::uint64_t canonical(const AgentToCoordinator& message);
std::uint64_t canonical(const CoordinatorToAgent& message);
std::uint64_t canonical(const JobPlan& plan);
std::uint64_t canonical(const Links& links);
std::uint64_t canonical(const Store& store);
std::uint64_t canonical(const Operation& operation);
std::uint64_t canonical(const Chronicle& chronicle);

template <typename T>
class Table {
 public:
  Id put(T value) {
    const auto [at, fresh] = ids_.emplace(canonical(value), static_cast<Id>(values_.size() + 1));
    if (fresh) values_.push_back(std::make_unique<const T>(std::move(value)));
    return at->second;
  }
  const T& operator[](Id id) const { return *values_[id - 1]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::unordered_map<std::uint64_t, Id> ids_;
  std::vector<std::unique_ptr<const T>> values_;
};

struct Parts {
  struct PodResult {
    Id pod = 0;
    std::vector<Id> said;
    PodStep step;  // without `said`
  };
  struct CoordinatorResult {
    Id coordinator = 0;
    std::vector<std::pair<SessionId, Id>> sent;
    CoordinatorStep step;  // without `sent`
  };

  const PodResult& after(Id pod, const PodEvent& event);
  const CoordinatorResult& after(Id coordinator, const CoordinatorEvent& event);

  Table<Pod> pods;
  Table<Coordinator> coordinators;
  Table<AgentToCoordinator> from_agents;
  Table<CoordinatorToAgent> to_agents;
  Table<JobPlan> plans;
  Table<Links> links;
  Table<Store> stores;
  Table<Operation> operations;
  Table<Chronicle> chronicles;

 private:
  std::unordered_map<std::uint64_t, PodResult> pod_results_;
  std::unordered_map<std::uint64_t, CoordinatorResult> coordinator_results_;
};

}  // namespace lockstep::rendezvous::explorer
