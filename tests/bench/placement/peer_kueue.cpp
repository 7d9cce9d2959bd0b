// Kueue's Topology Aware Scheduling, after "Topology Aware Scheduling" of its documentation and KEP-2724, "Computing
// the assignment": the profiles BestFit and LeastFreeCapacity.
//
// A request is required or preferred, never both; where both are given, the required level counts. The level is the
// asked one, or with `preferred` the first above it with a domain that holds all pods; at the outermost level a
// preferred gang takes several domains. From there down, the domains below those that were chosen are taken together,
// without a look at how many pods their parents were to get.
//   BestFit: the domain with the most room first; the last one is the tightest that holds the rest.
//   LeastFreeCapacity: the domain with the least room first.
// A node that failed: with `required` its replacement comes from the same domain; with `preferred` from anywhere.
#include "tests/bench/placement/peer_cells.h"

namespace lockstep::bench {
namespace {

enum class Profile { kBestFit, kLeastFreeCapacity };

class Kueue final : public Policy {
 public:
  explicit Kueue(Profile profile) : best_fit_(profile == Profile::kBestFit) {}

  NodePods place(const World& world, const Ask& ask) override {
    const DomainId inside = domain_of_survivors(world, ask);
    // Neither is asked for: Kueue calls this unconstrained.
    int level = ask.required.value_or(ask.preferred.value_or(kNode));
    std::vector<Cell> chosen;
    for (; level >= 0; --level) {
      const std::vector<Cell> all = sorted(cells_inside(world, ask.gpus, inside, level));
      if (const auto fit = one_that_holds(all, ask.pods)) {
        chosen = {*fit};
        break;
      }
      if (ask.required) return {};
      const bool unconstrained = !ask.preferred;
      if (level == 0 || unconstrained) {
        chosen = take(all, ask.pods);
        if (chosen.empty()) return {};
        break;
      }
    }
    for (; level < kNode; ++level) {
      std::vector<Cell> below;
      for (const Cell& cell : chosen) append_children(world, ask.gpus, cell.id, below);
      chosen = take(sorted(std::move(below)), ask.pods);
    }
    return fill_in_order(chosen, ask.pods);
  }

 private:
  std::vector<Cell> sorted(std::vector<Cell> cells) const {
    std::stable_sort(cells.begin(), cells.end(),
                     [&](const Cell& a, const Cell& b) { return best_fit_ ? a.room > b.room : a.room < b.room; });
    return cells;
  }

  // The tightest cell that holds all pods.
  static std::optional<Cell> one_that_holds(const std::vector<Cell>& cells, std::int64_t pods) {
    std::optional<Cell> tightest;
    for (const Cell& cell : cells) {
      if (cell.room >= pods && (!tightest || cell.room < tightest->room)) tightest = cell;
    }
    return tightest;
  }

  // Cells for all pods, in the order of the profile; empty: there is no room.
  std::vector<Cell> take(const std::vector<Cell>& cells, std::int64_t pods) const {
    std::vector<Cell> taken;
    for (std::size_t i = 0; i < cells.size() && pods > 0; ++i) {
      Cell cell = cells[i];
      if (cell.room == 0) continue;
      if (best_fit_ && cell.room >= pods)
        cell = *one_that_holds({cells.begin() + static_cast<long>(i), cells.end()}, pods);
      taken.push_back(cell);
      pods -= std::min(pods, cell.room);
    }
    if (pods > 0) return {};
    return taken;
  }

  bool best_fit_;
};

}  // namespace

std::unique_ptr<Policy> kueue_best_fit() {
  return std::make_unique<Kueue>(Profile::kBestFit);
}
std::unique_ptr<Policy> kueue_least_free() {
  return std::make_unique<Kueue>(Profile::kLeastFreeCapacity);
}

}  // namespace lockstep::bench
