#include "tests/operator/placement/place_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "operator/placement/place.h"

namespace lockstep::placement {
namespace {

bool equal(const Placement& a, const Placement& b) {
  if (a.index() != b.index()) return false;
  if (const auto* first = std::get_if<Assignment>(&a)) {
    const auto& second = std::get<Assignment>(b);
    return first->nodes == second.nodes && first->level_spanned == second.level_spanned &&
           first->score == second.score && first->approximate == second.approximate;
  }
  const auto &first = std::get<Refusal>(a), &second = std::get<Refusal>(b);
  return first.reason == second.reason && first.message == second.message &&
         std::equal(first.largest.begin(), first.largest.end(), second.largest.begin(), second.largest.end(),
                    [](const Hole& x, const Hole& y) { return x.pods == y.pods && x.path == y.path; });
}

std::string words(const Placement& placement) {
  if (const auto* refusal = std::get_if<Refusal>(&placement)) return refusal->message;
  const auto& assignment = std::get<Assignment>(placement);
  std::string text = fmt::format("level {} score {}:", assignment.level_spanned, assignment.score);
  for (const auto& [node, pods] : assignment.nodes) text += fmt::format(" {}x{}", node, pods);
  return text;
}

class History {
 public:
  explicit History(std::mt19937_64& random)
      : random_(random), tree_({"test", {{"zone", "z"}, {"block", "b"}, {"rack", "r"}}}), node_pods_(1 + pick(3)) {}

  std::string next() {
    change();
    if (pick(20) == 0) {  // another shape: the tables begin again
      node_pods_ = 1 + pick(3);
      for (std::int32_t& pods : capacity_) pods = std::min(pods, node_pods_);
      young_.assign(young_.size(), 0);
      whole_.assign(whole_.size(), node_pods_);
    }
    return pick(4) == 0 ? decide_who_stays() : decide();
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }

  void change() {
    const std::string name = fmt::format("n{:02}", pick(60));
    if (pick(6) == 0) {
      tree_.remove(name);
      return;
    }
    if (tree_.find(name) == kNone || pick(4) == 0) {
      tree_.put(name, {{"z", std::to_string(pick(2))}, {"b", std::to_string(pick(3))}, {"r", std::to_string(pick(4))}});
      capacity_.resize(static_cast<std::size_t>(tree_.node_limit()), 0);
      young_.resize(capacity_.size(), 0);
      whole_.resize(capacity_.size(), node_pods_);
    }
    const auto node = static_cast<std::size_t>(tree_.find(name));
    if (pick(3) > 0) capacity_[node] = pick(node_pods_ + 1);
    young_[node] = pick(node_pods_ - capacity_[node] + 1);
    const int least = capacity_[node] + young_[node];
    whole_[node] = least + pick(node_pods_ - least + 1);
  }

  std::vector<std::pair<NodeId, int>> some_nodes(int most) {
    std::vector<std::pair<NodeId, int>> some;
    for (int i = pick(most + 1); i > 0; --i) {
      const NodeId node = tree_.find(fmt::format("n{:02}", pick(60)));
      if (node != kNone) some.emplace_back(node, 1 + pick(2));
    }
    return some;
  }

  std::string decide() {
    Request request;
    request.pods = 1 + pick(pick(2) == 0 ? 4 : 60);
    if (pick(3) == 0) request.required = pick(4);
    if (pick(3) == 0) request.preferred = request.required.value_or(0) + pick(4 - request.required.value_or(0));
    request.capacity = capacity_;
    request.young = young_;
    request.whole = whole_;
    request.node_pods = node_pods_;
    if (pick(2) == 0) request.survivors = some_nodes(3);
    for (const auto& [node, pods] : some_nodes(2)) request.exclude.push_back(node);
    return compared(place(tree_, kept_, request), place(tree_, request));
  }

  std::string decide_who_stays() {
    ShrinkRequest request;
    request.current = some_nodes(12);
    request.keep = 1 + pick(8);
    request.capacity = capacity_;
    request.young = young_;
    request.whole = whole_;
    request.node_pods = node_pods_ + 30;
    return compared(shrink(tree_, kept_, request), shrink(tree_, request));
  }

  std::string compared(const Placement& with_kept, const Placement& afresh) {
    return equal(with_kept, afresh) ? "" : "kept: " + words(with_kept) + "\nafresh: " + words(afresh);
  }

  std::mt19937_64& random_;
  Tree tree_;
  Tables kept_;
  std::vector<std::int32_t> capacity_, young_, whole_;
  int node_pods_;
};

}  // namespace

std::string history_difference(std::mt19937_64& random, int events) {
  History history(random);
  for (int event = 0; event < events; ++event) {
    const std::string difference = history.next();
    if (!difference.empty()) return fmt::format("event {}: {}", event, difference);
  }
  return "";
}

}  // namespace lockstep::placement
