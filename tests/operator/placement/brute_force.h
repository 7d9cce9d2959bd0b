// Random requests on small trees, and their best placements found by trying all: the oracle of the dynamic programme.
// Shares no code with it: domains are prefixes of label paths, and costs are real numbers by the definition.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "operator/placement/place.h"

namespace lockstep::placement {

struct TestNode {
  std::string name;
  std::vector<std::string> labels;  // by level; "": the node lacks the label
  int capacity = 0;
  int young = 0;      // places of pods that began lately
  int whole = 0;      // places where no pod is
  int survivors = 0;  // pods of the gang there
  bool excluded = false;
};

struct Instance {
  int levels = 0;
  std::vector<TestNode> nodes;
  int pods = 1;
  int node_pods = 3;
  std::optional<int> required, preferred;
  Objective objective;
};

// Trees of 0 to 5 levels and 1 to 12 nodes of unequal capacity; labels are missing here and there. Weights from 0 up.
Instance random_instance(std::mt19937_64& random);

// The instance as the code under test takes it. The nodes are put in the order of `order`, or in their own.
struct Built {
  Tree tree;
  std::vector<std::int32_t> capacity, young, whole;  // by NodeId
  Request request;
};
Built built(const Instance& instance, const std::vector<std::size_t>& order = {});

// Asks shrink() which survivors stay when they shrink to instance.pods.
ShrinkRequest shrinking(const Instance& instance, const Built& built);

struct Judged {
  bool allowed = false;
  int level = kClusterLevel;         // of the domain that holds the pods and the survivors
  int level_capped = kClusterLevel;  // the same, but not deeper than preferred
  double cost = 0;
};

// The rules of place.h, or of shrink(), by definition. Refers to the instance.
class Oracle {
 public:
  Oracle(const Instance& instance, bool shrinks);

  // A placement of pods by index of instance.nodes.
  Judged judge(const std::vector<int>& pods) const;
  // The best of all placements: the deepest level up to `preferred`, then the lowest cost. Empty: none is allowed.
  std::optional<Judged> best() const;

 private:
  struct Domain {
    int free = 0, young = 0, whole = 0;
    bool covered = false;
  };

  const Instance& instance_;
  bool shrinks_;
  std::vector<std::vector<Domain>> domains_;         // by level; the last are the nodes
  std::vector<std::vector<std::size_t>> domain_of_;  // by level and node
  std::vector<bool> labelled_;                       // by node: it has what the required level asks for
};

// The most pods that one domain of the level has room for, of those that the request may use.
int largest_hole(const Instance& instance, int level);

// How the code under test and the oracle differ, in words; "" where they agree.
std::string difference(const Instance& instance, const Placement& placement, bool shrinks = false);

// The instance in words, for a failed test.
std::string described(const Instance& instance);

}  // namespace lockstep::placement
