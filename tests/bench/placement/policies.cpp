// Lockstep's own placement, nodes by chance, and the list of all policies.
#include <map>
#include <random>

#include "operator/placement/place.h"
#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

class Lockstep final : public Policy {
 public:
  Lockstep(std::optional<placement::Objective> objective, double young_seconds)
      : objective_(std::move(objective)), young_seconds_(young_seconds) {}

  bool anchored() const override { return true; }
  bool knows_residents() const override { return true; }

  NodePods place(const World& world, const Ask& ask) override {
    placement::Request request;
    request.pods = ask.pods;
    request.required = ask.required;
    request.preferred = ask.preferred;
    request.capacity = world.capacity(ask.gpus);
    request.node_pods = world.node_pods(ask.gpus);
    note_young(world, ask);
    request.young = young_;
    request.survivors = ask.survivors;
    request.objective = objective_;
    placement::Placement placement = placement::place(world.tree(), tables_[ask.gpus], request);
    auto* const assignment = std::get_if<placement::Assignment>(&placement);
    return assignment != nullptr ? std::move(assignment->nodes) : NodePods{};
  }

 private:
  void note_young(const World& world, const Ask& ask) {
    young_.assign(ask.residents.size(), 0);
    if (world.node_pods(ask.gpus) != 1) return;  // who is on a node is known of whole nodes
    const auto capacity = world.capacity(ask.gpus);
    for (std::size_t node = 0; node < young_.size(); ++node) {
      const Resident& resident = ask.residents[node];
      if (resident.gang == kNone || resident.age >= young_seconds_) continue;
      young_[node] = world.node_pods(ask.gpus) - capacity[node];
    }
  }

  std::optional<placement::Objective> objective_;
  double young_seconds_;
  std::map<int, placement::Tables> tables_;  // by GPUs of a pod
  std::vector<std::int32_t> young_;          // of the last request, by NodeId
};

// Nodes by chance; a required level is a domain by chance among those that hold the gang.
class Random final : public Policy {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  NodePods place(const World& world, const Ask& ask) override {
    DomainId top = domain_of_survivors(world, ask);
    if (ask.required && top == kRoot) {
      std::vector<DomainId> fit;
      for (const DomainId domain : world.domains(*ask.required)) {
        if (room_of_domain(world, ask.gpus, domain) >= ask.pods) fit.push_back(domain);
      }
      if (fit.empty()) return {};
      top = fit[random_() % fit.size()];
    }
    std::vector<Cell> nodes = cells_inside(world, ask.gpus, top, kNode);
    std::shuffle(nodes.begin(), nodes.end(), random_);
    return fill_in_order(nodes, ask.pods);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<Policy> lockstep_policy(std::optional<placement::Objective> objective, double young_seconds) {
  return std::make_unique<Lockstep>(std::move(objective), young_seconds);
}

std::unique_ptr<Policy> random_policy(std::uint64_t seed) {
  return std::make_unique<Random>(seed);
}

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{"lockstep", "kueue", "kueue-least-free", "koordinator", "kai",
                                              "slurm",    "random"};
  return names;
}

std::unique_ptr<Policy> policy_of(const std::string& name, std::uint64_t seed) {
  if (name == "lockstep") return lockstep_policy();
  if (name == "kueue") return kueue_best_fit();
  if (name == "kueue-least-free") return kueue_least_free();
  if (name == "koordinator") return koordinator_policy();
  if (name == "kai") return kai_policy();
  if (name == "slurm") return slurm_tree();
  return random_policy(seed);
}

}  // namespace lockstep::bench
