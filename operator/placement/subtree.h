// Subtrees of the topology as the dynamic programme sees them: equal subtrees are one object with one table of costs.
//
// A cluster of 6,400 racks of 16 whole-node slots has 17 different racks, or 153 where the pods of some began lately.
// So most tables are computed once. The idea is hash-consing: a subtree is identified by what its cost depends on, and
// its children are such subtrees.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "operator/placement/objective.h"
#include "operator/placement/profile.h"

namespace lockstep::placement {

struct Subtree;
using SubtreePtr = std::shared_ptr<const Subtree>;

// So many equal children.
struct Group {
  SubtreePtr subtree;
  int count = 0;
};

// What a subtree's costs depend on. Names and ids are no part of it.
struct Subtree {
  int level = 0;              // that of its root; a node's is the number of levels
  std::int64_t whole = 0;     // how many pods its nodes hold where no pod is
  std::int64_t size = 1;      // the same, but no less than its hole and 1
  std::int64_t pods = 0;      // how many pods may be placed in it
  std::int64_t free = 0;      // its free room; `pods` unless who stays is chosen (shrink())
  std::int64_t young = 0;     // how many more would fit without the pods that began lately; 0 of a node
  double hole = 0;            // Prices::hole() of both
  bool covered = false;       // a survivor is in it
  std::vector<Group> groups;  // the children that have room; none: a node
  double rate = 0;            // no pod costs less in it, on average, however many there are
  std::uint64_t serial = 0;   // unique, in the order in which subtrees were made

  // The most pods that one domain of a level holds, by level; [level] is `pods`, the last is of the largest node.
  std::array<std::int64_t, kMostLevels + 1> largest{};

  // Costs of placing 0, 1, ... pods within, this subtree's own cost included; grows when more are asked for. Its
  // first concave + 1 entries are a concave function.
  mutable std::vector<Cost> costs;
  mutable std::int64_t concave = 0;
};

// Makes subtrees and computes their costs. Keeps a subtree as long as another owner does. Not thread-safe.
class Subtrees {
 public:
  Subtrees(Prices prices, int levels) : prices_(std::move(prices)), levels_(levels) {}

  const Prices& prices() const { return prices_; }

  // A node with room for `pods` pods.
  SubtreePtr node(std::int64_t pods, std::int64_t free, bool covered);
  // A domain of these children. Those without room are left out, equal ones are in one group, in any order.
  SubtreePtr domain(int level, std::int64_t whole, std::int64_t free, std::int64_t young, bool covered,
                    std::vector<Group> groups);

  // Costs of 0 .. min(n, subtree.pods) pods; the span may be longer. Valid until it is asked for more pods.
  //   f(v, ·) = (min,+)-convolution of the children's f + Prices::of(v, ·)
  // O(sum over merges of the product of their lengths), and nothing where it is known.
  std::span<const Cost> costs(const Subtree& subtree, int n) const;

  // Whether `count` equal children are split by the closed form: as many full ones as possible, and one with the rest.
  // Moving a pod from a less to a more filled child never costs more where the function is concave.
  bool has_closed_form(const Group& group, int n) const;
  // The costs of all children of a group together, by the closed form.
  std::vector<Cost> closed_form(const Group& group, int n) const;

  // A lower bound of the cost of n ≤ subtree.pods pods, without any table; it depends on the subtree alone. It is the
  // own cost of the subtree, and the larger of two relaxations of the choice among its children:
  //   - each child costs its rate for each of its pods: the children with the lowest rates are filled first;
  //   - the fewest children that can hold all are the largest ones; what remains of the rates is added as above.
  Cost at_least(const Subtree& subtree, int n) const;

  // How many additions costs() takes from scratch for subtrees that are not in `seen`, which it adds. A subtree's
  // closed forms count as their length. Depends on the subtree alone, not on what is known already.
  std::int64_t operations(const Subtree& subtree, int n, std::unordered_set<const Subtree*>& seen) const;

  std::size_t kept() const { return known_.size(); }

 private:
  struct Key {
    int level = 0;
    std::int64_t whole = 0;
    std::int64_t pods = 0, free = 0, young = 0;
    bool covered = false;
    std::vector<std::pair<std::uint64_t, int>> groups;  // serial and count, by serial

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };

  Cost own(const Subtree& subtree, std::int64_t taken) const {
    return prices_.of(subtree.level, subtree.size, subtree.hole, taken, subtree.covered);
  }
  double rate_of(const Subtree& subtree) const;
  SubtreePtr known(Key key, Subtree made);
  void compute(const Subtree& subtree, int n) const;

  Prices prices_;
  int levels_;
  std::unordered_map<Key, std::weak_ptr<const Subtree>, Hash> known_;
  std::size_t sweep_at_ = 1024;  // entries of subtrees that are gone are dropped when there are so many entries
  std::uint64_t serials_ = 0;
};

// out[k] = min over a + b = k of first[a] + second[b], for k ≤ most.
std::vector<Cost> min_plus(std::span<const Cost> first, std::span<const Cost> second, std::int64_t most);

}  // namespace lockstep::placement
