// Training in virtual time, as far as it concerns the protocol. It has processes with a state that only commits change,
// and gangs that need every rank for a step. It checks that no commit is lost, repeated, or made by two gangs.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/rendezvous/member_state.h"

namespace lockstep::rendezvous {

struct SimulatedProcess {
  std::int64_t generation = 0;  // that it belongs to
  int rank = 0;
  std::string pod;
  bool alive = true;
  bool ignores_term = false;
  bool regroups = false;
  bool hangs = false;         // in a regroup: it does not answer
  bool stuck = false;         // makes no further step
  bool stopped = false;       // and says nothing: SIGSTOP
  std::int64_t promised = 0;  // highest regroup that it has answered
  std::int64_t yields = 0;    // generation that it was asked to end after a step
  std::optional<StateVersion> state;
  std::vector<std::int64_t> history;  // the generation that committed each step
  std::function<void(std::int64_t step)> committed;
  std::function<void()> yielded;
};
using SimulatedProcessPtr = std::shared_ptr<SimulatedProcess>;

class SimulatedTraining {
 public:
  struct World {
    std::function<void(int ms, std::function<void()>)> after;
    std::function<int(int least, int most)> between;
    std::function<void(const std::string&)> violate;
    std::function<bool(const std::string& pod, const std::string& other)> cut;  // nothing gets from one to the other
  };
  explicit SimulatedTraining(World world) : world_(std::move(world)) {}

  // The process starts, or goes on, in the generation of `go`; `up` is called when all ranks are linked and hold the
  // state. `committed` is called after each step of the process, `yielded` after the last one if that was agreed on.
  void enter(const SimulatedProcessPtr& process, const Go& go, std::function<void()> up,
             std::function<void(std::int64_t step)> committed, std::function<void()> yielded) {
    Gang& gang = gangs_[go.id.generation];
    gang.go = go;
    gang.ranks[process->rank] = process;
    gang.up[process->rank] = std::move(up);
    process->committed = std::move(committed);
    process->yielded = std::move(yielded);
    process->generation = go.id.generation;
    if (static_cast<int>(gang.ranks.size()) == go.world_size && whole(gang) && !cut(gang)) link(gang);
  }

  // It ends its communicator for a generation to come, and says what it holds.
  StateVersion regroup(const SimulatedProcessPtr& process, std::int64_t generation) {
    process->promised = std::max(process->promised, generation);
    return process->state.value_or(StateVersion{});
  }

  // Whether that generation has everybody whom its next step needs.
  bool can_step(std::int64_t generation) const {
    const auto at = gangs_.find(generation);
    return at != gangs_.end() && !at->second.yielded &&
           static_cast<int>(at->second.ranks.size()) == at->second.go.world_size && whole(at->second);
  }

  // The rank that `process` does not reach, of those beside it in the ring of its generation; -1: there is none.
  int unreached(const SimulatedProcess& process) const {
    const auto at = gangs_.find(process.generation);
    if (at == gangs_.end() || !cut(at->second)) return -1;
    const int size = at->second.go.world_size;
    for (const int beside : {(process.rank + 1) % size, (process.rank + size - 1) % size}) {
      const auto peer = at->second.ranks.find(beside);
      if (peer != at->second.ranks.end() && world_.cut(process.pod, peer->second->pod)) return beside;
    }
    return -1;
  }

  // The rank before it in the ring of its generation; -1: there is none.
  int before(const SimulatedProcess& process) const {
    const auto at = gangs_.find(process.generation);
    if (at == gangs_.end() || at->second.go.world_size < 2) return -1;
    return (process.rank + at->second.go.world_size - 1) % at->second.go.world_size;
  }

  std::int64_t commits() const { return commits_; }
  std::int64_t transfers() const { return transfers_; }
  std::int64_t kept() const { return kept_; }
  void note_kept() { ++kept_; }
  // Generations that ended in band.
  std::int64_t yields() const { return yields_; }

 private:
  struct Gang {
    Go go;
    std::map<int, SimulatedProcessPtr> ranks;
    std::map<int, std::function<void()>> up;
    bool yielded = false;
    std::int64_t generation() const { return go.id.generation; }
  };

  static bool in(const SimulatedProcess& process, std::int64_t generation) {
    return process.alive && process.generation == generation && process.promised <= generation;
  }
  static bool whole(const Gang& gang) {
    return std::all_of(gang.ranks.begin(), gang.ranks.end(),
                       [&](const auto& entry) { return in(*entry.second, gang.generation()); });
  }

  // Two ranks that are beside one another do not reach one another.
  bool cut(const Gang& gang) const {
    for (const auto& [rank, process] : gang.ranks) {
      const auto next = gang.ranks.find((rank + 1) % gang.go.world_size);
      if (next != gang.ranks.end() && world_.cut(process->pod, next->second->pod)) return true;
    }
    return false;
  }

  void link(Gang& gang) {
    const StateSource& source = gang.go.source;
    const SimulatedProcess* giver = source.rank < 0 ? nullptr : gang.ranks.at(source.rank).get();
    if (giver != nullptr && giver->state != source.version) {
      world_.violate(fmt::format("rank {} is to give a state that it does not hold", source.rank));
    }
    for (const auto& [rank, process] : gang.ranks) {
      if (giver == nullptr) {
        process->state = StateVersion{0, 0, "initial"};
        process->history.clear();
      } else if (process->state != source.version) {
        if (!source.send) world_.violate(fmt::format("rank {} needs a state, and none is sent", rank));
        process->state = source.version;
        process->history = giver->history;
        ++transfers_;
      }
      world_.after(world_.between(1, 60), [process = process, up = gang.up.at(rank), g = gang.generation()] {
        if (in(*process, g)) up();
      });
    }
    step(gang.generation());
  }

  // The last all-reduce of a step ends for all ranks, or for none; then each commits in its own time, unless it is
  // interrupted before.
  void step(std::int64_t generation) {
    world_.after(world_.between(20, 200), [this, generation] {
      Gang& gang = gangs_.at(generation);
      if (!whole(gang) || cut(gang)) return;
      if (std::any_of(gang.ranks.begin(), gang.ranks.end(), [](const auto& entry) { return entry.second->stuck; })) {
        return;
      }
      gang.yielded = std::any_of(gang.ranks.begin(), gang.ranks.end(),
                                 [&](const auto& entry) { return entry.second->yields == generation; });
      yields_ += gang.yielded ? 1 : 0;
      const StateVersion& first = *gang.ranks.begin()->second->state;
      for (const auto& [rank, process] : gang.ranks) {
        if (*process->state != first) {
          return world_.violate(
              fmt::format("rank {} makes a step of generation {} from another state", rank, generation));
        }
      }
      for (const auto& [rank, process] : gang.ranks) {
        world_.after(world_.between(0, 40), [this, process = process, generation, yields = gang.yielded] {
          commit(*process, generation);
          if (yields && in(*process, generation)) process->yielded();
        });
      }
      if (!gang.yielded) world_.after(50, [this, generation] { step(generation); });
    });
  }

  void commit(SimulatedProcess& process, std::int64_t generation) {
    if (!in(process, generation)) return;
    if (generation < newest_commit_) {
      world_.violate(fmt::format("generation {} commits after generation {} did", generation, newest_commit_));
    }
    newest_commit_ = generation;
    process.history.push_back(generation);
    const auto step = static_cast<std::int64_t>(process.history.size());
    process.state = StateVersion{generation, step, fmt::format("{}", fmt::join(process.history, "."))};
    const auto& known = lineage_.emplace(std::pair(generation, step), process.state->digest).first->second;
    if (known != process.state->digest) {
      world_.violate(fmt::format("step {} of generation {} was committed on {} and on {}", step, generation, known,
                                 process.state->digest));
    }
    ++commits_;
    process.committed(step);
  }

  World world_;
  std::map<std::int64_t, Gang> gangs_;
  std::int64_t newest_commit_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> lineage_;  // digest by (generation, step)
  std::int64_t commits_ = 0, transfers_ = 0, kept_ = 0, yields_ = 0;
};

}  // namespace lockstep::rendezvous
