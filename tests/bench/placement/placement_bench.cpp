// The latency of a placement decision, as a ratio to its bound, and the cost of an event.
//
// Clusters have three levels (zone, block, rack) of racks of 16 nodes; each node holds one pod. Busy nodes are spread
// at random, and the pods of half of them began lately, which is the worst case: hardly two blocks are equal. After
// each decision the gang takes its nodes, and as many random busy nodes become free. So the load stays, and the tables
// above all these nodes are unknown.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "operator/placement/place.h"

namespace lockstep::placement {
namespace {

struct Shape {
  int zones, blocks, racks;  // racks of a block of a zone
  int nodes() const { return zones * blocks * racks * kRack; }
  static constexpr int kRack = 16;
};

constexpr Shape kShapes[] = {{2, 4, 8}, {4, 10, 16}, {20, 20, 16}};
constexpr double kSmallBoundMs = 10, kLargeBoundMs = 100;  // up to 256 pods, and more

// CPU time of this thread: a decision waits for nothing, and other processes of the machine do not count.
double now_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

api::Labels labels_of(const Shape& shape, int node) {
  const int rack = node / Shape::kRack, block = rack / shape.racks, zone = block / shape.blocks;
  return {{"z", fmt::format("{:03}", zone)}, {"b", fmt::format("{:03}", block)}, {"r", fmt::format("{:05}", rack)}};
}

class Cluster {
 public:
  Cluster(const Shape& of, int pods_of_a_node, int young_of_a_hundred, std::uint64_t seed)
      : shape(of),
        node_pods(pods_of_a_node),
        young_percent(young_of_a_hundred),
        tree({"bench", {{"zone", "z"}, {"block", "b"}, {"rack", "r"}}}),
        random(seed) {
    for (int node = 0; node < shape.nodes(); ++node) tree.put(name(node), labels_of(shape, node));
  }

  static std::string name(int node) { return fmt::format("n{:06}", node); }

  void load_to(double load) {
    busy.clear();
    capacity.assign(static_cast<std::size_t>(shape.nodes()), node_pods);
    young.assign(capacity.size(), 0);
    std::vector<NodeId> places(capacity.size() * static_cast<std::size_t>(node_pods));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<NodeId>(i % capacity.size());
    std::shuffle(places.begin(), places.end(), random);
    places.resize(static_cast<std::size_t>(load * static_cast<double>(places.size())));
    for (const NodeId node : places) take(node, 1, static_cast<int>(random() % 100) < young_percent);
  }

  void take(NodeId node, int pods, bool lately) {
    capacity[static_cast<std::size_t>(node)] -= pods;
    if (lately) young[static_cast<std::size_t>(node)] += pods;
    busy.insert(busy.end(), static_cast<std::size_t>(pods), node);
  }

  void free_one() {
    std::swap(busy[random() % busy.size()], busy.back());
    const auto node = static_cast<std::size_t>(busy.back());
    ++capacity[node];
    young[node] = std::min(young[node], node_pods - capacity[node]);
    busy.pop_back();
  }

  Request request(int pods) const {
    Request request;
    request.pods = pods;
    request.capacity = capacity;
    request.node_pods = node_pods;
    request.young = young;
    return request;
  }

  Shape shape;
  int node_pods, young_percent;
  Tree tree;
  std::vector<std::int32_t> capacity, young;
  std::vector<NodeId> busy;  // once for each pod
  std::mt19937_64 random;
};

// By nearest rank.
double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

struct Measured {
  std::vector<double> ms;
  int approximate = 0;
};

// Decides `times` times. Kept tables follow the events between two decisions; else each decision begins with none.
Measured decide(Cluster& cluster, int pods, int times, bool keep) {
  Measured measured;
  Tables kept;
  if (keep && std::holds_alternative<Refusal>(place(cluster.tree, kept, cluster.request(pods)))) return measured;
  for (int i = 0; i < times; ++i) {
    const double start = now_seconds();
    const Placement placement =
        keep ? place(cluster.tree, kept, cluster.request(pods)) : place(cluster.tree, cluster.request(pods));
    const double ms = (now_seconds() - start) * 1e3;
    const auto* assignment = std::get_if<Assignment>(&placement);
    if (!assignment) return measured;
    measured.ms.push_back(ms);
    measured.approximate += assignment->approximate;
    for (const auto& [node, count] : assignment->nodes) cluster.take(node, count, cluster.young_percent > 0);
    for (int freed = 0; freed < pods; ++freed) cluster.free_one();
  }
  return measured;
}

void latencies(Cluster& cluster, const std::vector<double>& loads, const std::vector<int>& gangs, int times) {
  for (const double load : loads) {
    for (const int pods : gangs) {
      cluster.load_to(load);
      Measured kept = decide(cluster, pods, times, true);
      if (kept.ms.empty()) continue;  // more pods than free nodes
      Measured afresh = decide(cluster, pods, std::max(1, times / 4), false);
      const double bound = pods <= 256 ? kSmallBoundMs : kLargeBoundMs;
      const double p99 = quantile(kept.ms, 0.99), p99_afresh = quantile(afresh.ms, 0.99);
      fmt::print("{:>7} {:>5.2f} {:>5} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.4f} {:>9.4f}{}\n",
                 cluster.shape.nodes(), load, pods, quantile(kept.ms, 0.5), p99, quantile(afresh.ms, 0.5), p99_afresh,
                 p99 / bound, p99_afresh / bound, kept.approximate + afresh.approximate > 0 ? "  approximate" : "");
      std::fflush(stdout);
    }
  }
}

void events(Cluster& cluster, int count) {
  cluster.load_to(0.85);
  Tables tables;
  const auto decide_once = [&] { place(cluster.tree, tables, cluster.request(256)); };
  decide_once();
  std::vector<NodeId> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(static_cast<NodeId>(cluster.random() % static_cast<std::uint64_t>(cluster.shape.nodes())));
  }
  double start = now_seconds();
  for (const NodeId node : nodes) {
    std::int32_t& capacity = cluster.capacity[static_cast<std::size_t>(node)];
    capacity = capacity == 0 ? 1 : capacity - 1;
    // The pod that takes its place is young.
    tables.set(cluster.tree, node, {capacity, cluster.node_pods - capacity, cluster.node_pods});
  }
  const double pod_ns = (now_seconds() - start) * 1e9 / count;
  std::vector<std::pair<std::string, api::Labels>> puts;
  for (const NodeId node : nodes) puts.emplace_back(Cluster::name(node), labels_of(cluster.shape, node));
  start = now_seconds();
  for (const auto& [node, labels] : puts) cluster.tree.put(node, labels);
  const double same_ns = (now_seconds() - start) * 1e9 / count;
  for (std::size_t i = 0; i < puts.size(); ++i) {
    puts[i].second = labels_of(cluster.shape, (nodes[i] + 7777) % cluster.shape.nodes());
  }
  start = now_seconds();
  for (const auto& [node, labels] : puts) cluster.tree.put(node, labels);
  const double moved_ns = (now_seconds() - start) * 1e9 / count;
  constexpr double kBoundNs = 1000;
  fmt::print("{:>7} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.4f}\n", cluster.shape.nodes(), pod_ns, same_ns, moved_ns,
             std::max(pod_ns, same_ns) / kBoundNs);
}

}  // namespace
}  // namespace lockstep::placement

int main(int argc, char** argv) {
  using namespace lockstep::placement;
  CLI::App app{"The latency of placement decisions against their bounds, and the cost of events"};
  std::vector<int> nodes{1024, 10240, 102400}, gangs{1, 16, 64, 256, 1024, 4096};
  std::vector<double> loads{0.5, 0.85, 0.95};
  int times = 200, node_pods = 1, young = 50;
  std::uint64_t seed = 1;
  app.add_option("--nodes", nodes, "cluster sizes: 1024, 10240, 102400")->check(CLI::IsMember({1024, 10240, 102400}));
  app.add_option("--pods", gangs, "gang sizes")->check(CLI::Range(1, kMostPods));
  app.add_option("--load", loads, "share of busy nodes")->check(CLI::Range(0.0, 0.99));
  app.add_option("--node-pods", node_pods, "pods that an empty node holds")->check(CLI::Range(1, 256));
  app.add_option("--young", young, "percent of the busy nodes whose pods began lately; 0: nor do those of decisions")
      ->check(CLI::Range(0, 100));
  app.add_option("--decisions", times, "decisions per line")->check(CLI::Range(1, 1'000'000));
  app.add_option("--seed", seed, "of the busy nodes");
  CLI11_PARSE(app, argc, argv);
  fmt::print("CPU time of one thread. Bound: {} ms up to 256 pods, {} ms beyond; seed {}, {} decisions\n",
             kSmallBoundMs, kLargeBoundMs, seed, times);
  fmt::print("{:>7} {:>5} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "nodes", "load", "pods", "p50 ms", "p99 ms",
             "p50 new", "p99 new", "to bound", "new to b.");
  for (const Shape& shape : kShapes) {
    if (std::find(nodes.begin(), nodes.end(), shape.nodes()) == nodes.end()) continue;
    Cluster cluster(shape, node_pods, young, seed);
    latencies(cluster, loads, gangs, times);
  }
  fmt::print("\nbound: 1000 ns per event\n{:>7} {:>10} {:>10} {:>10} {:>10}\n", "nodes", "pod ns", "node ns",
             "moved ns", "to bound");
  for (const Shape& shape : kShapes) {
    if (std::find(nodes.begin(), nodes.end(), shape.nodes()) == nodes.end()) continue;
    Cluster cluster(shape, node_pods, young, seed);
    events(cluster, std::min(shape.nodes(), 20'000));
  }
  return 0;
}
