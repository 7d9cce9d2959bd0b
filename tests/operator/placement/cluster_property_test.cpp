// Random events against a cluster: after each step it says what a computation from nothing says, from the nodes, pods
// and reservations that there are. LOCKSTEP_SEED=<number> makes another run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "operator/placement/cluster.h"
#include "tests/sanitizer.h"

namespace lockstep::placement {
namespace {

// What is true, in plain maps.
struct Truth {
  struct Held {
    std::string node;
    Shape shape;
    int version = 0;  // 0: not written
  };
  std::map<std::string, NodeRecord> nodes;
  std::map<std::string, ScannedPod> pods;
  std::map<std::string, Held> held;
  std::int64_t now = 0;  // 0: not known

  bool is_young(const ScannedPod& pod) const { return now > 0 && (pod.started == 0 || pod.started + 2400 > now); }

  // `old`: without young pods. A reservation has not begun.
  std::map<std::string, __int128> used(const std::string& node, bool old = false) const {
    std::map<std::string, __int128> sum;
    const auto add = [&](const std::vector<Amount>& requests) {
      for (const Amount& amount : requests) sum[amount.name] += amount.units;
    };
    for (const auto& [name, pod] : pods) {
      if (pod.node == node && !(old && is_young(pod))) add(pod.requests);
    }
    for (const auto& [name, one] : held) {
      if (one.node == node && !(old && now > 0)) add(one.shape.requests);
    }
    return sum;
  }
  int ports(const std::string& node, bool old) const {
    int count = 0;
    for (const auto& [name, pod] : pods) {
      if (old && is_young(pod)) continue;
      count += pod.node == node && (pod.flags & kHostPorts) != 0 && !pod.job.is_zero() ? 1 : 0;
    }
    if (old && now > 0) return count;
    for (const auto& [name, one] : held) count += one.node == node && one.shape.host_ports ? 1 : 0;
    return count;
  }
  int fit(const NodeRecord& node, const Shape& shape, bool old = false) const {
    if (!node.ready || node.unschedulable || node.out_of_service) return 0;
    if (!tolerates(shape, node.taints) || !selects(shape, node.name, node.labels)) return 0;
    const auto sum = used(node.name, old);
    std::int64_t most = kMostFit;
    for (const Amount& amount : shape.requests) {
      __int128 left = 0;
      for (const Amount& has : node.allocatable) left += has.name == amount.name ? has.units : 0;
      if (const auto taken = sum.find(amount.name); taken != sum.end()) left -= taken->second;
      most = std::min(most, static_cast<std::int64_t>(std::max<__int128>(left, 0) / amount.units));
    }
    if (shape.host_ports) most = ports(node.name, old) > 0 ? 0 : std::min<std::int64_t>(most, 1);
    return static_cast<int>(most);
  }
};

class Play {
 public:
  // `changes_shapes`: they come and go as well.
  explicit Play(std::uint64_t seed, bool changes_shapes = true) : random_(seed), changes_shapes_(changes_shapes) {
    for (int i = 0; i < 40; ++i) {
      shapes_.push_back(random_shape());
      ids_.push_back(cluster_.acquire(shapes_.back()));
    }
    list_nodes();
    list_pods();
    cluster_.observe(std::to_string(version_));
  }

  void step() {
    switch (below(17)) {
      case 0:
      case 1:
        put_node(name("n", 12));
        break;
      case 2: {
        const std::string node = name("n", 12);
        truth_.nodes.erase(node);
        cluster_.remove_node(node);
        break;
      }
      case 3:
        list_nodes();
        break;
      case 4:
        list_pods();
        break;
      case 5:
      case 6:
        remove_pod(name("p", 60));
        break;
      case 7:
      case 8:
        reserve();
        break;
      case 9:
        if (!truth_.held.empty()) {
          const std::string pod = any(truth_.held);
          truth_.held.erase(pod);
          cluster_.unreserve(pod);
        }
        break;
      case 10:
        if (!truth_.held.empty()) {
          const std::string pod = any(truth_.held);
          const int version = version_ - 2 + static_cast<int>(below(6));
          truth_.held[pod].version = version;
          if (version <= version_) truth_.held.erase(pod);
          cluster_.written(pod, std::to_string(version));
        }
        break;
      case 11:
        version_ += static_cast<int>(below(4));
        std::erase_if(truth_.held,
                      [&](const auto& one) { return one.second.version != 0 && one.second.version <= version_; });
        cluster_.observe(std::to_string(version_));
        break;
      case 12: {
        if (!changes_shapes_) break;
        const std::size_t i = below(ids_.size());
        cluster_.release(ids_[i]);
        shapes_[i] = random_shape();
        ids_[i] = cluster_.acquire(shapes_[i]);
        if (cluster_.wants_node_list()) list_nodes();
        break;
      }
      case 13:
        truth_.now = std::max(truth_.now, kStart) + static_cast<std::int64_t>(below(1500));
        cluster_.pass_time(truth_.now);
        if (chance(10)) cluster_.pass_time(truth_.now -= 500);  // the clock was set back
        break;
      default:
        put_pod(name("p", 60));
        break;
    }
  }

  // All rooms of all shapes, and how often the cluster has changed.
  std::pair<std::uint64_t, std::vector<std::int32_t>> shown() {
    std::pair<std::uint64_t, std::vector<std::int32_t>> shown{cluster_.changes(), {}};
    for (const ShapeId id : ids_) {
      const Rooms rooms = cluster_.rooms(id).value();
      for (const auto& numbers : {rooms.capacity, rooms.young, rooms.whole}) {
        shown.second.insert(shown.second.end(), numbers.begin(), numbers.end());
      }
    }
    return shown;
  }

  // Everything when `all`; else one shape, so that tables fall behind.
  std::string differs(bool all) {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const std::size_t at = all ? i : below(ids_.size());
      const auto rooms = cluster_.rooms(ids_[at]);
      if (!rooms) return "no answer: " + rooms.error().message;
      for (NodeId node = 0; node < cluster_.tree().node_limit(); ++node) {
        const bool used = cluster_.tree().node_in_use(node);
        const auto expected = [&](bool old) {
          return used ? truth_.fit(truth_.nodes.at(cluster_.tree().node_name(node)), shapes_[at], old) : 0;
        };
        const int fit = rooms->capacity[static_cast<std::size_t>(node)];
        const int young = rooms->young[static_cast<std::size_t>(node)];
        if (fit + young > rooms->whole[static_cast<std::size_t>(node)]) return "more than an empty node holds";
        if (fit != expected(false) || young != expected(true) - expected(false)) {
          return fmt::format("shape {} on node {}: {} and {} young instead of {} and {}", at, node, fit, young,
                             expected(false), expected(true) - expected(false));
        }
      }
      if (!all) return "";
    }
    for (const auto& [node, record] : truth_.nodes) {
      const NodeId id = cluster_.tree().find(node);
      if (id == kNone) return "no node " + node;
      auto sum = truth_.used(node);
      std::vector<NodeAmount> expected;
      for (const Amount& has : record.allocatable) {
        expected.push_back(
            {has.name, has.units, static_cast<std::int64_t>(std::min<__int128>(sum[has.name], kMostUnits))});
      }
      if (cluster_.amounts(id) != expected) return "amounts of " + node;
    }
    if (cluster_.pods() != truth_.pods.size()) return "number of pods";
    if (cluster_.reservations() != truth_.held.size()) return "number of reservations";
    return "";
  }

 private:
  static constexpr std::int64_t kStart = 1'700'000'000;

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  std::string name(const char* prefix, std::size_t n) { return prefix + std::to_string(below(n)); }
  template <typename Map>
  std::string any(const Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(below(map.size())))->first;
  }
  std::int64_t amount() {
    return chance(5) ? kMostUnits - static_cast<std::int64_t>(below(3)) : static_cast<std::int64_t>(1 + below(4));
  }
  std::vector<Amount> amounts(int percent) {
    std::vector<Amount> all;
    for (const char* resource : {"cpu", "example.com/a", "example.com/b", "memory"}) {
      if (chance(percent)) all.push_back({resource, amount()});
    }
    return all;
  }

  Shape random_shape() {
    Shape shape;
    shape.requests = amounts(30);
    shape.requests.push_back({"pods", 1});
    if (chance(20)) shape.node_selector = {{name("key", 3), name("v", 2)}};
    if (chance(20)) {
      SelectorTerm term;
      if (chance(50)) term.labels.push_back({name("key", 6), Relation::kNotIn, {name("v", 2)}});
      if (chance(50))
        term.names.push_back({"metadata.name", Relation::kIn, {name("n", 12), name("n", 12), name("n", 12)}});
      shape.terms = {{term}};
    }
    if (chance(50)) shape.tolerations = {{chance(50) ? "t" : "", true, "", ""}};
    shape.host_ports = chance(20);
    return shape;
  }
  void put_node(const std::string& node) {
    NodeRecord record;
    record.name = node;
    record.allocatable = amounts(80);
    for (Amount& has : record.allocatable)
      has.units = chance(5) ? kMostUnits : static_cast<std::int64_t>(4 + 4 * below(4));
    if (chance(90)) record.allocatable.push_back({"pods", static_cast<std::int64_t>(1 + below(20))});
    record.labels["rack"] = name("r", 3);
    for (int i = 0; i < 6; ++i) {
      if (chance(60)) record.labels["key" + std::to_string(i)] = name("v", 2);
    }
    if (chance(20)) record.taints = {{chance(50) ? "t" : "u", "", "NoSchedule"}};
    record.ready = chance(90);
    record.unschedulable = chance(10);
    record.out_of_service = chance(5);
    truth_.nodes[node] = record;
    cluster_.put_node(record);
  }
  void put_pod(const std::string& pod) {
    ScannedPod made;
    made.name_space = "x";
    made.name = pod;
    made.uid = Uid::of(pod);
    // Pods change little from event to event.
    if (const auto known = truth_.pods.find(pod); known != truth_.pods.end() && chance(60)) {
      made = known->second;
    } else {
      made.requests = amounts(50);
      made.requests.push_back({"pods", 1});
      if (chance(50)) made.job = Uid::of("job");
      if (chance(20)) made.flags |= kHostPorts;
      if (chance(80)) made.node = name("n", 14);
    }
    if (chance(30) && !made.node.empty()) made.flags |= kBound;
    if (chance(10)) made.flags |= kTerminating;
    if (chance(50))
      made.started = chance(20) ? 0
                                : static_cast<std::uint32_t>(std::max(truth_.now, kStart) - 2500 +
                                                             static_cast<std::int64_t>(below(2600)));
    made.terminal = chance(10);
    settle(made);
    if (made.terminal) {
      truth_.pods.erase(pod);
    } else {
      truth_.pods[pod] = made;
    }
    cluster_.put_pod(made);
  }
  // A pod that is seen ends its reservation.
  void settle(const ScannedPod& pod) {
    const auto held = truth_.held.find("x/" + pod.name);
    if (held == truth_.held.end() || pod.job.is_zero()) return;
    if (pod.terminal || (pod.flags & kBound) != 0 || pod.node == held->second.node) truth_.held.erase(held);
  }
  void remove_pod(const std::string& pod) {
    const auto known = truth_.pods.find(pod);
    if (known == truth_.pods.end()) return;
    const ScannedPod gone = known->second;
    truth_.pods.erase(known);
    if (!gone.job.is_zero()) truth_.held.erase("x/" + pod);
    cluster_.remove_pod(gone);
  }
  void reserve() {
    if (truth_.nodes.empty()) return;
    const std::string node = any(truth_.nodes), pod = "x/" + name("p", 60);
    const std::size_t shape = below(ids_.size());
    truth_.held[pod] = {node, shapes_[shape], 0};
    cluster_.reserve(pod, cluster_.tree().find(node), ids_[shape]);
  }
  void list_nodes() {
    cluster_.begin_nodes();
    if (chance(20)) {
      if (!truth_.nodes.empty()) cluster_.put_node(truth_.nodes.begin()->second);
      cluster_.begin_nodes();  // the first list broke off
    }
    std::erase_if(truth_.nodes, [&](const auto&) { return chance(20); });
    for (const auto& [node, record] : truth_.nodes) cluster_.put_node(record);
    cluster_.end_nodes();
  }
  void list_pods() {
    cluster_.begin_pods();
    std::erase_if(truth_.pods, [&](const auto&) { return chance(20); });
    for (const auto& [pod, record] : truth_.pods) {
      settle(record);
      cluster_.put_pod(record);
    }
    cluster_.end_pods();
  }

  std::mt19937_64 random_;
  bool changes_shapes_;
  Truth truth_;
  Cluster cluster_{{"racks", {{"rack", "rack"}}}};
  std::vector<Shape> shapes_;
  std::vector<ShapeId> ids_;
  int version_ = 100;
};

TEST(ClusterProperty, random_events_equal_a_computation_from_nothing) {
  const char* given_seed = std::getenv("LOCKSTEP_SEED");
  const std::uint64_t seed = given_seed != nullptr ? std::strtoull(given_seed, nullptr, 10) : 20261124;
  fmt::print("seed {}\n", seed);
  for (int game = 0; game < sanitizer::cases(60); ++game) {
    Play play(seed + static_cast<std::uint64_t>(game));
    for (int step = 0; step < 400; ++step) {
      play.step();
      ASSERT_EQ(play.differs(step % 20 == 0), "") << "game " << game << " step " << step << " of seed " << seed;
    }
  }
}

TEST(ClusterProperty, nothing_is_different_while_changes_stay) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  int stayed = 0;
  for (int game = 0; game < sanitizer::cases(10); ++game) {
    Play play(seed + static_cast<std::uint64_t>(game), false);
    auto before = play.shown();
    for (int step = 0; step < 200; ++step) {
      play.step();
      auto after = play.shown();
      if (after.first == before.first) {
        ++stayed;
        ASSERT_EQ(after.second, before.second) << "game " << game << " step " << step << " of seed " << seed;
      }
      before = std::move(after);
    }
  }
  EXPECT_GT(stayed, 10);
}

}  // namespace
}  // namespace lockstep::placement
