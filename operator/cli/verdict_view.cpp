#include "operator/cli/verdict_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "operator/cli/text.h"
#include "operator/cli/topology_view.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;
using placement::Verdict;

std::string level_name(const placement::Tree& tree, int level) {
  if (level == placement::kClusterLevel) return "cluster";
  return level >= tree.levels() ? "node" : tree.profile().levels[static_cast<std::size_t>(level)].name;
}

std::string plural(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "8 nodes, 2 racks, 1 block".
std::string extent_of(const placement::Tree& tree, const placement::Assignment& assignment) {
  std::string text = plural(assignment.nodes.size(), "node");
  for (int level = tree.levels() - 1; level >= 0; --level) {
    std::set<placement::DomainId> domains;
    for (const auto& [node, pods] : assignment.nodes) domains.insert(tree.domain_of(node, level));
    text += ", " + plural(domains.size(), level_name(tree, level));
  }
  return text;
}

std::string count_or_dash(std::int64_t pods) {
  return pods == 0 ? "-" : std::to_string(pods);
}

std::string holes_table(const placement::Tree& tree, const Verdict& verdict) {
  std::vector<std::vector<std::string>> rows = {{"LEVEL", "LARGEST HOLE", "WHEN EMPTY", "NEEDED", "DOMAIN"}};
  for (std::size_t i = 0; i < verdict.largest.size(); ++i) {
    const placement::Hole& hole = verdict.largest[i];
    const bool needed = hole.level == verdict.required.value_or(placement::kClusterLevel);
    rows.push_back({level_name(tree, hole.level), std::to_string(hole.pods),
                    i < verdict.possible.size() ? count_or_dash(verdict.possible[i].pods) : "-",
                    needed ? std::to_string(verdict.pods) : "",
                    hole.pods == 0 || hole.level == placement::kClusterLevel
                        ? ""
                        : place_name(tree.profile(), hole.level, hole.path)});
  }
  return rows.size() == 1 ? "" : table(rows);
}

std::string nodes_table(const Verdict& verdict) {
  std::vector<std::vector<std::string>> rows = {{"NODES", "TAKE NO POD BECAUSE OF"}};
  for (const placement::Shortage& one : verdict.shortages) {
    std::string why = fmt::format("{}: a pod needs {}, ", one.resource, placement::in_words(one.resource, one.asked));
    why += one.never == one.nodes
               ? "no such node has as much even when empty"
               : fmt::format("at most {} free on one of them", placement::in_words(one.resource, one.most));
    if (one.never > 0 && one.never < one.nodes) why += fmt::format(" ({} never have as much)", one.never);
    rows.push_back({std::to_string(one.nodes), why});
  }
  for (const placement::BarredNodes& barred : verdict.barred) {
    rows.push_back({std::to_string(barred.nodes), reason_of(barred)});
  }
  if (rows.size() == 1) return "";
  return table(rows) + fmt::format("{} of {} have room for at least one pod.\n", verdict.open,
                                   plural(static_cast<std::size_t>(verdict.nodes), "node"));
}

json hole_json(const placement::Tree& tree, const placement::Hole& hole) {
  return {{"level", level_name(tree, hole.level)}, {"pods", hole.pods}, {"path", hole.path}};
}

}  // namespace

std::string assignment_in_words(const placement::Tree& tree, const Verdict& verdict, std::size_t most) {
  const placement::Assignment& where = *verdict.assignment;
  std::string text = fmt::format("{}: {}\n\n", sentence_of(tree, verdict), extent_of(tree, where));
  std::vector<std::vector<std::string>> rows = {{"NODE", "PODS"}};
  for (const placement::Level& level : tree.profile().levels) {
    std::string heading = level.name;
    std::transform(heading.begin(), heading.end(), heading.begin(), [](unsigned char c) { return std::toupper(c); });
    rows.front().push_back(heading);
  }
  for (std::size_t i = 0; i < std::min(most, where.nodes.size()); ++i) {
    const auto& [node, pods] = where.nodes[i];
    std::vector<std::string> row = {tree.node_name(node), std::to_string(pods)};
    for (const std::string& name : tree.path(tree.domain_of(node))) row.push_back(name);
    rows.push_back(std::move(row));
  }
  text += table(rows);
  if (where.nodes.size() > most) text += fmt::format("... and {} nodes more\n", where.nodes.size() - most);
  if (where.approximate) text += "The search was cut short: a better place may exist.\n";
  return text;
}

std::string refusal_in_words(const placement::Tree& tree, const Verdict& verdict) {
  std::string text = sentence_of(tree, verdict) + "\n";
  for (const std::string& part : {holes_table(tree, verdict), nodes_table(verdict)}) {
    if (!part.empty()) text += "\n" + part;
  }
  const std::vector<std::string> sentences = advice(tree, verdict);
  if (!sentences.empty()) text += "\n";
  for (const std::string& sentence : sentences) text += fmt::format("Hint: {}\n", sentence);
  return text;
}

json verdict_json(const placement::Tree& tree, const Verdict& verdict) {
  json all = {{"fits", verdict.outcome == Verdict::Outcome::kFits},
              {"message", sentence_of(tree, verdict)},
              {"pods", verdict.pods}};
  if (verdict.required) all["required"] = level_name(tree, *verdict.required);
  if (verdict.assignment) {
    all["levelSpanned"] = level_name(tree, verdict.assignment->level_spanned);
    all["approximate"] = verdict.assignment->approximate;
    all["nodes"] = json::array();
    for (const auto& [node, pods] : verdict.assignment->nodes) {
      all["nodes"].push_back(
          {{"name", tree.node_name(node)}, {"pods", pods}, {"path", tree.path(tree.domain_of(node))}});
    }
    return all;
  }
  for (const char* key : {"largestHoles", "largestHolesWhenEmpty", "barred", "shortages", "jobsToEnd"}) {
    all[key] = json::array();
  }
  for (const auto& hole : verdict.largest) all["largestHoles"].push_back(hole_json(tree, hole));
  for (const auto& hole : verdict.possible) all["largestHolesWhenEmpty"].push_back(hole_json(tree, hole));
  for (const auto& one : verdict.barred) all["barred"].push_back({{"nodes", one.nodes}, {"reason", reason_of(one)}});
  for (const auto& one : verdict.shortages) {
    all["shortages"].push_back({{"resource", one.resource},
                                {"nodes", one.nodes},
                                {"podNeeds", placement::in_words(one.resource, one.asked)},
                                {"mostFree", placement::in_words(one.resource, one.most)}});
  }
  if (verdict.endings) {
    for (const auto& job : verdict.endings->jobs) {
      all["jobsToEnd"].push_back({{"name", job.name}, {"pods", job.pods}, {"priority", job.priority}});
    }
  }
  all["hints"] = advice(tree, verdict);
  return all;
}

}  // namespace lockstep::cli
