#include "operator/placement/label_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace lockstep::placement {
namespace {

std::string joined(const std::vector<std::string>& words, std::size_t most) {
  const std::size_t shown = std::min(most, words.size());
  std::string text = fmt::format("{}", fmt::join(words.begin(), words.begin() + static_cast<long>(shown), ", "));
  if (shown < words.size()) text += fmt::format(" and {} more", words.size() - shown);
  return text;
}

// "the cluster" or "block b1".
std::string words_for(const Tree& tree, DomainId domain) {
  if (domain == kRoot) return "the cluster";
  return fmt::format("{} {}", tree.profile().levels[static_cast<std::size_t>(tree.level(domain))].name,
                     fmt::join(tree.path(domain), "/"));
}

struct Findings {
  std::vector<std::string> missing;                         // nodes
  std::map<std::string, std::vector<std::string>> parents;  // of each domain
};

void gather(const Tree& tree, DomainId domain, std::vector<Findings>& levels) {
  for (const DomainId child : tree.children(domain)) {
    Findings& found = levels[static_cast<std::size_t>(tree.level(child))];
    if (tree.is_private(child)) {
      // Its name is that of its node, in parentheses.
      found.missing.push_back(tree.name(child).substr(1, tree.name(child).size() - 2));
    } else if (tree.complete(child)) {  // what is below a private domain is reported already
      found.parents[tree.name(child)].push_back(words_for(tree, domain));
    }
    gather(tree, child, levels);
  }
}

}  // namespace

std::vector<LabelProblem> check_labels(const Tree& tree) {
  std::vector<Findings> levels(static_cast<std::size_t>(tree.levels()));
  gather(tree, kRoot, levels);
  std::vector<LabelProblem> problems;
  for (int level = 0; level < tree.levels(); ++level) {
    Findings& found = levels[static_cast<std::size_t>(level)];
    std::sort(found.missing.begin(), found.missing.end());
    if (!found.missing.empty()) problems.push_back({LabelProblem::Kind::kMissing, level, "", found.missing});
    for (const auto& [domain, parents] : found.parents) {
      if (parents.size() > 1) problems.push_back({LabelProblem::Kind::kRepeated, level, domain, parents});
    }
    for (const auto& [domain, parents] : found.parents) {
      if (tree.find(domain) != kNone) problems.push_back({LabelProblem::Kind::kNodeName, level, domain, {}});
    }
  }
  return problems;
}

std::string sentence_of(const Tree& tree, const LabelProblem& problem, std::size_t most) {
  const Level& level = tree.profile().levels[static_cast<std::size_t>(problem.level)];
  switch (problem.kind) {
    case LabelProblem::Kind::kMissing:
      return fmt::format("{} of {} nodes {} no label {} ({}): a job that requires {} cannot use {}",
                         problem.where.size(), tree.node_count(kRoot), problem.where.size() == 1 ? "has" : "have",
                         level.label, joined(problem.where, most), level.name,
                         problem.where.size() == 1 ? "it" : "them");
    case LabelProblem::Kind::kRepeated:
      return fmt::format("{} {} lies in {}: it counts as {} different domains", level.name, problem.domain,
                         joined(problem.where, most), problem.where.size());
    case LabelProblem::Kind::kNodeName:
      return fmt::format("{} {} has the name of a node: check the label {}", level.name, problem.domain, level.label);
  }
  return "";
}

}  // namespace lockstep::placement
