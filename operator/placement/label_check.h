// Node labels that do not fit the profile: for the admin. Placement goes on with them as tree.h says. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/placement/tree.h"

namespace lockstep::placement {

struct LabelProblem {
  enum class Kind {
    kMissing,   // `where` are the nodes that lack the label of `level`
    kRepeated,  // `domain` of `level` is below each of the domains `where`: placement takes them for different ones
    kNodeName,  // a node has the name of `domain`
  };
  Kind kind = Kind::kMissing;
  int level = 0;
  std::string domain{};  // the value of the label; empty: kMissing
  std::vector<std::string> where{};

  bool operator==(const LabelProblem&) const = default;
};

// In the order of the levels, then as above, then by domain.
std::vector<LabelProblem> check_labels(const Tree& tree);

// One sentence, which names at most `most` of `where`.
std::string sentence_of(const Tree& tree, const LabelProblem& problem, std::size_t most = 5);

}  // namespace lockstep::placement
