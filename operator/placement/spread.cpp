#include "operator/placement/spread.h"

#include <algorithm>

namespace lockstep::placement {
namespace {

// A node with room, and what it has of the gang.
struct Spot {
  NodeId node = kNone;
  std::int64_t room = 0, has = 0;

  // How many more pods it takes when no node may have more than `cap`.
  std::int64_t takes(std::int64_t cap) const { return std::clamp<std::int64_t>(cap - has, 0, room); }
};

using Spots = std::vector<Spot>;

std::int64_t takes(const Spots& spots, std::int64_t cap) {
  std::int64_t sum = 0;
  for (const Spot& spot : spots) sum += spot.takes(cap);
  return sum;
}

// The least `cap` that is enough; 0: none is.
std::int64_t least_cap(const Spots& spots, int pods) {
  std::int64_t enough = 0;
  for (const Spot& spot : spots) enough = std::max(enough, spot.has + std::min<std::int64_t>(spot.room, pods));
  if (takes(spots, enough) < pods) return 0;
  for (std::int64_t too_low = 0; enough - too_low > 1;) {
    const std::int64_t cap = too_low + (enough - too_low) / 2;
    (takes(spots, cap) < pods ? too_low : enough) = cap;
  }
  return enough;
}

// Walks over the domains of the required level.
class Spreader {
 public:
  Spreader(const Tree& tree, std::span<const std::int32_t> room, int pods, std::optional<int> required,
           const std::vector<std::pair<NodeId, int>>& survivors)
      : tree_(tree), room_(room), pods_(pods), level_(required.value_or(kClusterLevel)), has_(room.size()) {
    for (const auto& [node, count] : survivors) {
      has_[static_cast<std::size_t>(node)] += count;
      survivors_ += count;
    }
  }

  std::optional<std::vector<std::pair<NodeId, int>>> best() {
    visit(kRoot);
    if (cap_ == 0) return std::nullopt;
    std::vector<std::size_t> last;  // spots that can take one more than `cap_ - 1`
    std::vector<std::pair<NodeId, int>> nodes;
    std::int64_t left = pods_ - takes(best_, cap_ - 1);
    for (std::size_t i = 0; i < best_.size(); ++i) {
      if (best_[i].takes(cap_) > best_[i].takes(cap_ - 1)) last.push_back(i);
    }
    std::stable_sort(last.begin(), last.end(), [&](std::size_t one, std::size_t other) {
      const auto room_left = [&](const Spot& spot) { return spot.room - spot.takes(cap_ - 1); };
      return room_left(best_[one]) > room_left(best_[other]);
    });
    last.resize(static_cast<std::size_t>(left));
    std::sort(last.begin(), last.end());
    auto next = last.begin();
    for (std::size_t i = 0; i < best_.size(); ++i) {
      std::int64_t pods = best_[i].takes(cap_ - 1);
      if (next != last.end() && *next == i) {
        ++pods;
        ++next;
      }
      if (pods > 0) nodes.emplace_back(best_[i].node, static_cast<int>(pods));
    }
    return nodes;
  }

 private:
  void visit(DomainId domain) {
    if (tree_.level(domain) == level_) {
      if (!tree_.complete(domain)) return;
      seen_ = 0;
      spots_.clear();
      gather(domain);
      judge();
      return;
    }
    for (const DomainId child : tree_.children(domain)) visit(child);
    for (const NodeId node : tree_.nodes(domain)) {  // the required level is the node
      seen_ = 0;
      spots_.clear();
      add(node);
      judge();
    }
  }
  void gather(DomainId domain) {
    for (const DomainId child : tree_.children(domain)) gather(child);
    for (const NodeId node : tree_.nodes(domain)) add(node);
  }
  void add(NodeId node) {
    seen_ += has_[static_cast<std::size_t>(node)];
    if (room_[static_cast<std::size_t>(node)] > 0)
      spots_.push_back({node, room_[static_cast<std::size_t>(node)], has_[static_cast<std::size_t>(node)]});
  }
  void judge() {
    if (seen_ < survivors_) return;
    const std::int64_t cap = least_cap(spots_, pods_);
    if (cap == 0) return;
    std::int64_t room = 0;
    for (const Spot& spot : spots_) room += spot.room;
    if (cap_ != 0 && (cap > cap_ || (cap == cap_ && room <= most_room_))) return;
    cap_ = cap;
    most_room_ = room;
    best_ = spots_;
  }

  const Tree& tree_;
  std::span<const std::int32_t> room_;
  const int pods_;
  const int level_;
  std::vector<std::int64_t> has_;  // survivors by NodeId
  std::int64_t survivors_ = 0;

  Spots spots_;            // of the domain under way
  std::int64_t seen_ = 0;  // survivors in it
  Spots best_;
  std::int64_t cap_ = 0, most_room_ = 0;  // of best_; a cap of 0: none yet
};

}  // namespace

std::optional<std::vector<std::pair<NodeId, int>>> spread(const Tree& tree, std::span<const std::int32_t> room,
                                                          int pods, std::optional<int> required,
                                                          const std::vector<std::pair<NodeId, int>>& survivors) {
  return Spreader(tree, room, pods, required, survivors).best();
}

}  // namespace lockstep::placement
