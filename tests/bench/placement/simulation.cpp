#include "tests/bench/placement/simulation.h"

#include <algorithm>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <span>

namespace lockstep::bench {
namespace {

constexpr int kNobody = -1;

struct Running {
  std::vector<Member> members;           // by slot; node kNone: it waits for a replacement
  std::vector<rendezvous::Place> ranks;  // of the last ring
  double started = 0, ends = 0;
  double stalled_since = 0;
  int missing = 0;
  int ending = 0;  // the number of its valid end event
  bool counted = false;
};

enum class Kind { kEnd, kRepair, kFailure, kArrival };  // of events at one instant, in this order

struct Event {
  double time = 0;
  Kind kind = Kind::kEnd;
  int id = 0;      // of the gang or node
  int ending = 0;  // of kEnd

  bool operator>(const Event& other) const {
    if (time != other.time) return time > other.time;
    if (kind != other.kind) return kind > other.kind;
    return id > other.id;
  }
};

class Simulation {
 public:
  Simulation(const Trial& trial, Policy& policy)
      : trial_(trial), policy_(policy), world_(trial.site, shapes(trial)), random_(trial.seed) {
    owner_.assign(static_cast<std::size_t>(world_.tree().node_limit()), kNobody);
    down_.assign(owner_.size(), false);
    running_.resize(trial.gangs.size());
    first_counted_ = static_cast<std::size_t>(trial.warm_up * static_cast<double>(trial.gangs.size()));
  }

  Outcome run() {
    for (std::size_t i = 0; i < trial_.gangs.size(); ++i) {
      events_.push({trial_.gangs[i].arrival, Kind::kArrival, static_cast<int>(i), 0});
    }
    draw_failures();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      note_use(event.time);
      now_ = event.time;
      handle(event);
    }
    const double from = trial_.gangs[first_counted_].arrival, until = trial_.gangs.back().arrival;
    const double all = static_cast<double>(trial_.site.all_nodes()) * trial_.site.gpus * (until - from);
    outcome_.used = all > 0 ? gpu_seconds_ / all : 0;
    return outcome_;
  }

 private:
  static std::vector<int> shapes(const Trial& trial) {
    std::set<int> gpus{trial.site.gpus};
    for (const Gang& gang : trial.gangs) gpus.insert(gang.gpus);
    return {gpus.begin(), gpus.end()};
  }

  void draw_failures() {
    const double until = trial_.gangs.back().arrival;
    const auto count = static_cast<int>(trial_.failures * static_cast<double>(trial_.gangs.size()));
    for (int i = 0; i < count; ++i) {
      const double at = static_cast<double>(random_() >> 11U) * 0x1p-53 * until;
      const auto node = static_cast<int>(random_() % owner_.size());
      events_.push({at, Kind::kFailure, node, 0});
    }
  }

  // Time passes until `time`.
  void note_use(double time) {
    const double from = std::max(now_, trial_.gangs[first_counted_].arrival);
    const double until = std::min(time, trial_.gangs.back().arrival);
    if (until > from) gpu_seconds_ += (until - from) * used_gpus_;
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::kEnd:
        return end(event.id, event.ending);
      case Kind::kRepair:
        down_[static_cast<std::size_t>(event.id)] = false;
        world_.repair(event.id);
        return serve();
      case Kind::kFailure:
        return lose(event.id);
      case Kind::kArrival:
        if (!try_to_start(event.id)) waiting_.push_back(event.id);
    }
  }

  const Gang& gang(int id) const { return trial_.gangs[static_cast<std::size_t>(id)]; }
  Running& state(int id) { return running_[static_cast<std::size_t>(id)]; }

  void end(int id, int ending) {
    Running& running = state(id);
    if (running.ending != ending) return;
    NodePods pods;
    for (const Member& member : running.members) {
      pods.emplace_back(member.node, 1);
      owner_[static_cast<std::size_t>(member.node)] = kNobody;
    }
    world_.give(pods, gang(id).gpus);
    used_gpus_ -= static_cast<double>(gang(id).pods) * gang(id).gpus;
    running = {};
    serve();
  }

  // What is waiting gets the room that there is.
  void serve() {
    std::erase_if(stalled_, [&](int id) { return try_to_replace(id); });
    std::map<std::pair<int, int>, int> too_many;  // by level and GPUs of a pod: so many pods found no room
    std::erase_if(waiting_, [&](int id) {
      const Gang& asks = gang(id);
      const std::pair key{asks.required.value_or(kClusterLevel), asks.gpus};
      const auto known = too_many.find(key);
      if (known != too_many.end() && asks.pods >= known->second) return false;
      if (try_to_start(id)) return true;
      too_many[key] = asks.pods;
      return false;
    });
  }

  bool fits(const Gang& asks, int pods) const {
    return world_.largest(asks.gpus, asks.required.value_or(kClusterLevel)) >= pods;
  }

  std::span<const Resident> residents() {
    residents_.assign(owner_.size(), {});
    for (std::size_t node = 0; node < owner_.size(); ++node) {
      if (owner_[node] == kNobody) continue;
      const Running& running = state(owner_[node]);
      residents_[node] = {owner_[node], now_ - running.started, std::max(0.0, running.ends - now_)};
    }
    return residents_;
  }

  bool try_to_start(int id) {
    const Gang& asks = gang(id);
    if (!fits(asks, asks.pods)) return false;
    Ask ask{asks.pods, asks.gpus, asks.required, asks.preferred, {}, asks.seconds, {}};
    if (policy_.knows_residents()) ask.residents = residents();
    const NodePods pods = policy_.place(world_, ask);
    if (pods.empty()) return false;
    if (static_cast<std::size_t>(id) >= first_counted_) note_room(asks);
    Running& running = state(id);
    running.counted = static_cast<std::size_t>(id) >= first_counted_;
    running.started = now_;
    for (const auto& [node, count] : pods) {
      for (int i = 0; i < count; ++i) running.members.push_back({{}, node});
    }
    // Which slot is on which node says nothing of the topology.
    std::shuffle(running.members.begin(), running.members.end(), random_);
    for (std::size_t i = 0; i < running.members.size(); ++i) running.members[i].place.slot = static_cast<int>(i);
    take(id, pods);
    used_gpus_ += static_cast<double>(asks.pods) * asks.gpus;
    schedule_end(id, now_ + asks.seconds);
    if (running.counted) {
      note_start(id, pods);
      outcome_.wait.add(now_ - asks.arrival);
    }
    note_ring(running);
    return true;
  }

  void take(int id, const NodePods& pods) {
    world_.take(pods, gang(id).gpus);
    for (const auto& [node, count] : pods) owner_[static_cast<std::size_t>(node)] = id;
  }

  void schedule_end(int id, double at) {
    Running& running = state(id);
    running.ends = at;
    running.ending = ++endings_;
    events_.push({at, Kind::kEnd, id, running.ending});
  }

  void lose(NodeId node) {
    const auto at = static_cast<std::size_t>(node);
    const int id = owner_[at];
    if (down_[at] || id == kNobody) return;
    Running& running = state(id);
    if (running.missing == 0) {
      running.stalled_since = now_;
      running.ending = 0;  // it stands still: its end moves
    }
    ++running.missing;
    for (Member& member : running.members) {
      if (member.node == node) member.node = kNone;
    }
    owner_[at] = kNobody;
    down_[at] = true;
    world_.fail(node);
    events_.push({now_ + trial_.repair_seconds, Kind::kRepair, node, 0});
    if (running.missing > 1) return;  // it is in line already
    if (!try_to_replace(id)) stalled_.push_back(id);
  }

  bool try_to_replace(int id) {
    const Gang& asks = gang(id);
    Running& running = state(id);
    if (!fits(asks, running.missing)) return false;
    Ask ask{running.missing, asks.gpus, asks.required, asks.preferred, {}, asks.seconds, {}};
    if (policy_.knows_residents()) ask.residents = residents();
    std::set<DomainId> blocks;
    for (const Member& member : running.members) {
      if (member.node == kNone) continue;
      ask.survivors.emplace_back(member.node, 1);
      blocks.insert(world_.tree().domain_of(member.node, kBlock));
    }
    const NodePods pods = policy_.place(world_, ask);
    if (pods.empty()) return false;
    if (running.counted && blocks.size() == 1) {
      const DomainId block = *blocks.begin();
      outcome_.could_stay.add(world_.room(asks.gpus)[static_cast<std::size_t>(block)] >= running.missing ? 1 : 0);
      outcome_.stayed.add(
          std::all_of(pods.begin(), pods.end(),
                      [&](const auto& taken) { return world_.tree().domain_of(taken.first, kBlock) == block; })
              ? 1
              : 0);
    }
    auto next = running.members.begin();
    for (const auto& [node, count] : pods) {
      for (int i = 0; i < count; ++i) {
        while (next->node != kNone) ++next;
        next->node = node;
        ++next->place.incarnation;
      }
    }
    running.missing = 0;
    take(id, pods);
    schedule_end(id, running.ends + now_ - running.stalled_since);
    note_ring(running);
    return true;
  }

  // The fewest racks that hold the gang, as large as the cluster has them.
  int least_racks(const Gang& asks) const {
    const int pods_of_a_node = world_.node_pods(asks.gpus);
    const int nodes = (asks.pods + pods_of_a_node - 1) / pods_of_a_node;
    return (nodes + trial_.site.nodes - 1) / trial_.site.nodes;
  }

  // What any choice could do for a gang that is about to start.
  void note_room(const Gang& asks) {
    const int least = least_racks(asks);
    if (least <= 1) return;
    std::vector<std::int64_t> rooms;
    for (const DomainId rack : world_.domains(kRack)) {
      rooms.push_back(world_.room(asks.gpus)[static_cast<std::size_t>(rack)]);
    }
    std::sort(rooms.rbegin(), rooms.rend());
    std::int64_t held = 0;
    int fewest = 0;
    for (; held < asks.pods; ++fewest) held += rooms[static_cast<std::size_t>(fewest)];
    outcome_.fewest_over_least.add(static_cast<double>(fewest) / least);
    outcome_.no_choice.add(world_.room(asks.gpus)[kRoot] == asks.pods ? 1 : 0);
  }

  void note_start(int id, const NodePods& pods) {
    std::set<DomainId> racks, blocks;
    for (const auto& [node, count] : pods) {
      racks.insert(world_.tree().domain_of(node, kRack));
      blocks.insert(world_.tree().domain_of(node, kBlock));
    }
    const int least = least_racks(gang(id));
    if (least > 1) {
      outcome_.racks_over_least.add(static_cast<double>(racks.size()) / least);
      const int blocks_at_least = (least + trial_.site.racks - 1) / trial_.site.racks;
      outcome_.blocks_over_least.add(static_cast<double>(blocks.size()) / blocks_at_least);
      if (least <= trial_.site.racks) outcome_.in_one_block.add(blocks.size() == 1 ? 1 : 0);
    } else if (gang(id).pods > 1) {
      outcome_.in_one_rack.add(racks.size() == 1 ? 1 : 0);
    }
    std::int64_t free = 0, broken = 0;
    const std::int64_t whole = static_cast<std::int64_t>(trial_.site.nodes);
    for (const DomainId rack : world_.domains(kRack)) {
      const std::int64_t room = world_.room(trial_.site.gpus)[static_cast<std::size_t>(rack)];
      free += room;
      if (room < whole) broken += room;
    }
    if (free > 0) outcome_.broken.add(static_cast<double>(broken) / static_cast<double>(free));
  }

  void note_ring(Running& running) {
    const Tree& tree = world_.tree();
    running.ranks = ranks(tree, running.ranks, running.members);
    if (!running.counted) return;
    std::vector<NodeId> by_slot;
    for (const Member& member : running.members) by_slot.push_back(member.node);
    std::vector<NodeId> by_name = by_slot;
    std::sort(by_name.begin(), by_name.end(),
              [&](NodeId a, NodeId b) { return tree.node_name(a) < tree.node_name(b); });
    const Crossings least = least_crossings(tree, by_slot);
    const Crossings ours = crossings(tree, nodes_of(running.members, running.ranks));
    outcome_.least += least;
    outcome_.ranks += ours;
    outcome_.by_name += crossings(tree, by_name);
    outcome_.by_slot += crossings(tree, by_slot);
    ++outcome_.rings;
    outcome_.above_least += ours != least;
  }

  const Trial& trial_;
  Policy& policy_;
  World world_;
  std::mt19937_64 random_;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  int endings_ = 0;
  std::vector<Running> running_;        // by gang
  std::vector<int> waiting_, stalled_;  // gangs, in order
  std::vector<int> owner_;              // the gang of a whole node, by NodeId
  std::vector<bool> down_;              // by NodeId
  std::vector<Resident> residents_;     // of residents()

  std::size_t first_counted_ = 0;
  double used_gpus_ = 0, gpu_seconds_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const Trial& trial, Policy& policy) {
  return Simulation(trial, policy).run();
}

}  // namespace lockstep::bench
