#include "operator/cli/topology_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "operator/cli/text.h"
#include "operator/placement/label_check.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;
using placement::Census;
using placement::DomainId;
using placement::kNone;
using placement::kRoot;
using placement::NodeId;
using placement::NodeState;
using placement::Profile;
using placement::Tally;
using placement::Tree;

constexpr std::size_t kMostBranches = 16;  // of a domain, without --all
constexpr std::size_t kMostLines = 60;     // of a tree whose depth is not given
constexpr std::size_t kMostJobs = 3;       // in a line

std::string in_words(const placement::Cluster& cluster, NodeId node) {
  switch (cluster.state(node)) {
    case NodeState::kUsable:
      return "";
    case NodeState::kCordoned:
      return "cordoned";
    case NodeState::kSick:
      return "sick by " + cluster.sickness(node);
    case NodeState::kNotReady:
      return "not ready";
    case NodeState::kOutOfService:
      return "out of service";
  }
  return "";
}

const Tally& tally_of(const Census& census, DomainId domain, NodeId node) {
  return node != kNone ? census.nodes[static_cast<std::size_t>(node)]
                       : census.domains[static_cast<std::size_t>(domain)];
}

// The jobs of a tally with their pods, most pods first, then by name.
std::vector<std::pair<std::string, int>> jobs_of(const ClusterReading& reading, const Tally& tally) {
  std::map<std::string, int> by_name;
  for (const auto& [uid, pods] : tally.pods_by_job) {
    const auto known = reading.jobs.find(uid);
    by_name[known == reading.jobs.end() ? "unknown" : known->second.name] += pods;
  }
  std::vector<std::pair<std::string, int>> jobs(by_name.begin(), by_name.end());
  std::stable_sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return jobs;
}

std::string jobs_cell(const ClusterReading& reading, const Tally& tally) {
  const auto jobs = jobs_of(reading, tally);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(jobs.size(), kMostJobs); ++i) {
    words.push_back(fmt::format("{} ({})", jobs[i].first, jobs[i].second));
  }
  if (jobs.size() > kMostJobs) words.push_back(fmt::format("{} more", jobs.size() - kMostJobs));
  return fmt::format("{}", fmt::join(words, ", "));
}

// A branch below a domain. A private domain, which has one node, is drawn as that node.
struct Branch {
  DomainId domain = kNone;
  NodeId node = kNone;  // kNone: the domain
  std::string lacks;    // the label's level that the node lacks
};

NodeId node_inside(const Tree& tree, DomainId domain) {
  while (!tree.innermost(domain)) domain = tree.children(domain).front();
  return tree.nodes(domain).front();
}

std::vector<Branch> branches_of(const Tree& tree, DomainId domain) {
  std::vector<Branch> branches;
  for (const DomainId child : tree.children(domain)) {
    if (tree.is_private(child)) {
      branches.push_back(
          {child, node_inside(tree, child), tree.profile().levels[static_cast<std::size_t>(tree.level(child))].label});
    } else {
      branches.push_back({child, kNone, ""});
    }
  }
  for (const NodeId node : tree.nodes(domain)) branches.push_back({domain, node, ""});
  return branches;
}

// How many branches a domain shows; one line more says how many it does not.
std::size_t shown_of(std::size_t branches, bool all) {
  return all || branches <= kMostBranches + 1 ? branches : kMostBranches;
}

std::size_t lines_of(const Tree& tree, DomainId domain, int depth, bool all) {
  if (depth == 0) return 1;
  const auto branches = branches_of(tree, domain);
  const std::size_t shown = shown_of(branches.size(), all);
  std::size_t lines = 1 + (shown < branches.size() ? 1 : 0);
  for (std::size_t i = 0; i < shown; ++i) {
    lines += branches[i].node != kNone ? 1 : lines_of(tree, branches[i].domain, depth - 1, all);
  }
  return lines;
}

class Drawing {
 public:
  Drawing(const ClusterReading& reading, const Census& census, int depth, bool all)
      : reading_(reading), census_(census), tree_(reading.cluster->tree()), depth_(depth), all_(all) {
    rows_.push_back({"DOMAIN", "FREE", "TOTAL", "NODES", "OTHERS", "JOBS"});
    add("cluster", tally_of(census, kRoot, kNone), kRoot);
    below(kRoot, "", 0);
  }
  std::string text() const { return table(rows_); }
  bool folded() const { return folded_; }

 private:
  void add(const std::string& what, const Tally& tally, DomainId domain) {
    const auto words = [&](std::int64_t units) { return placement::in_words(census_.resource, units); };
    const std::string nodes =
        tally.usable == tally.nodes ? fmt::format("{}", tally.nodes) : fmt::format("{}/{}", tally.usable, tally.nodes);
    const std::size_t jobs = tally.pods_by_job.size();
    rows_.push_back({what, words(tally.free), words(tally.total), domain == kNone ? "" : nodes, words(tally.others),
                     domain == kRoot && jobs > 0 ? fmt::format("{} job{}", jobs, jobs == 1 ? "" : "s")
                                                 : jobs_cell(reading_, tally)});
  }

  void below(DomainId domain, const std::string& indent, int depth) {
    const auto branches = branches_of(tree_, domain);
    if (depth == depth_) {
      folded_ = folded_ || !branches.empty();
      return;
    }
    const std::size_t shown = shown_of(branches.size(), all_);
    for (std::size_t i = 0; i < shown; ++i) {
      const Branch& branch = branches[i];
      const bool last = i + 1 == branches.size();
      const std::string stem = indent + (last ? "└─ " : "├─ ");
      if (branch.node != kNone) {
        add(stem + node_words(branch), tally_of(census_, kNone, branch.node), kNone);
        continue;
      }
      const auto& level = tree_.profile().levels[static_cast<std::size_t>(tree_.level(branch.domain))];
      add(stem + level.name + " " + tree_.name(branch.domain), tally_of(census_, branch.domain, kNone), branch.domain);
      below(branch.domain, indent + (last ? "   " : "│  "), depth + 1);
    }
    if (shown < branches.size()) fold(std::span(branches).subspan(shown), indent);
  }

  std::string node_words(const Branch& branch) const {
    std::vector<std::string> remarks;
    if (!branch.lacks.empty()) remarks.push_back("no label " + branch.lacks);
    if (const std::string state = in_words(*reading_.cluster, branch.node); !state.empty()) {
      remarks.push_back(state);
    }
    const std::string& name = tree_.node_name(branch.node);
    return remarks.empty() ? name : fmt::format("{} ({})", name, fmt::join(remarks, ", "));
  }

  void fold(std::span<const Branch> hidden, const std::string& indent) {
    folded_ = true;
    Tally sum;
    for (const Branch& branch : hidden) placement::add_tally(tally_of(census_, branch.domain, branch.node), sum);
    add(fmt::format("{}└─ … {} more", indent, hidden.size()), sum, hidden.front().domain);
  }

  const ClusterReading& reading_;
  const Census& census_;
  const Tree& tree_;
  const int depth_;
  const bool all_;
  bool folded_ = false;
  std::vector<std::vector<std::string>> rows_;
};

int depth_for(const Tree& tree, const DrawOptions& options) {
  const int deepest = tree.levels() + 1;
  if (options.depth) return std::clamp(*options.depth, 0, deepest);
  if (options.all) return deepest;
  int depth = deepest;
  while (depth > 1 && lines_of(tree, kRoot, depth, false) > kMostLines) --depth;
  return depth;
}

json amount(const std::string& resource, std::int64_t units) {
  if (resource == placement::kCpu) return static_cast<double>(units) / 1000;
  return units;
}

json as_json(const ClusterReading& reading, const Census& census, const std::string& level, const std::string& name,
             const Tally& tally) {
  json jobs = json::array();
  for (const auto& [job, pods] : jobs_of(reading, tally)) jobs.push_back({{"name", job}, {"pods", pods}});
  return {{"level", level},
          {"name", name},
          {"free", amount(census.resource, tally.free)},
          {"total", amount(census.resource, tally.total)},
          {"others", amount(census.resource, tally.others)},
          {"nodes", tally.nodes},
          {"usableNodes", tally.usable},
          {"jobs", jobs}};
}

json node_json(const ClusterReading& reading, const Census& census, NodeId node) {
  const auto& cluster = *reading.cluster;
  json one = as_json(reading, census, "node", cluster.tree().node_name(node), tally_of(census, kNone, node));
  one.erase("nodes");
  one.erase("usableNodes");
  const std::string state = in_words(cluster, node);
  one["state"] = state.empty() ? "ready" : state;
  one["taints"] = json::array();
  for (const placement::Taint& taint : cluster.taints(node)) {
    one["taints"].push_back({{"key", taint.key}, {"value", taint.value}, {"effect", taint.effect}});
  }
  return one;
}

json domain_json(const ClusterReading& reading, const Census& census, DomainId domain) {
  const Tree& tree = reading.cluster->tree();
  const std::string level =
      domain == kRoot ? "cluster" : tree.profile().levels[static_cast<std::size_t>(tree.level(domain))].name;
  json one = as_json(reading, census, level, tree.name(domain), tally_of(census, domain, kNone));
  if (domain != kRoot) one["path"] = tree.path(domain);
  if (domain != kRoot && tree.is_private(domain)) one["unlabelled"] = true;
  one["children"] = json::array();
  for (const DomainId child : tree.children(domain)) {
    one["children"].push_back(domain_json(reading, census, child));
  }
  for (const NodeId node : tree.nodes(domain)) one["children"].push_back(node_json(reading, census, node));
  return one;
}

const char* name_of(placement::LabelProblem::Kind kind) {
  switch (kind) {
    case placement::LabelProblem::Kind::kMissing:
      return "MissingLabel";
    case placement::LabelProblem::Kind::kRepeated:
      return "RepeatedDomain";
    case placement::LabelProblem::Kind::kNodeName:
      return "NodeName";
  }
  return "";
}

}  // namespace

std::string profile_in_words(const ClusterReading& reading) {
  const Profile& profile = reading.cluster->tree().profile();
  // Whether the operator has other levels is not known.
  const bool assumed = reading.operator_pod.empty();
  if (reading.profile_source == "none") {
    return fmt::format("none: no node has a label of a known preset{}; --topology-level NAME=LABEL names them",
                       assumed ? ", and no pod of the operator is there to tell its levels" : "");
  }
  if (profile.levels.empty()) {
    return fmt::format("none: pod {} has no levels (value topology of the chart)", reading.operator_pod);
  }
  std::vector<std::string> levels;
  for (const placement::Level& level : profile.levels)
    levels.push_back(fmt::format("{} ({})", level.name, level.label));
  const std::string text = fmt::format("{}", fmt::join(levels, " > "));
  if (reading.profile_source == "--topology-level") return text + ", from --topology-level";
  if (reading.profile_source == "operator") return fmt::format("{}, from pod {}", text, reading.operator_pod);
  if (reading.profile_source != "discovered") return fmt::format("{}, preset {}", text, profile.name);
  return fmt::format("{}, preset {}, found by the labels of the nodes{}", text, profile.name,
                     assumed ? "; no pod of the operator is there to tell its levels, and --topology-level NAME=LABEL "
                               "names others"
                             : "");
}

std::string draw_topology(const ClusterReading& reading, const Census& census, const DrawOptions& options) {
  const int depth = depth_for(reading.cluster->tree(), options);
  const Drawing drawing(reading, census, depth, options.all);
  if (!drawing.folded()) return drawing.text();
  return drawing.text() + fmt::format("Folded at depth {}: --depth {} shows more, --all everything.\n", depth,
                                      std::min(depth + 1, reading.cluster->tree().levels() + 1));
}

std::string amount_of(std::string_view resource, std::int64_t units) {
  const std::string number = placement::in_words(resource, units);
  if (resource == placement::kCpu) return number + (units == 1000 ? " CPU" : " CPUs");
  if (resource.ends_with("/gpu")) return number + (units == 1 ? " GPU" : " GPUs");
  return fmt::format("{} {}", number, resource);
}

std::string place_name(const Profile& profile, int level, const std::vector<std::string>& path) {
  if (level == placement::kClusterLevel) return "cluster";
  const auto index = static_cast<std::size_t>(level);
  if (index >= profile.levels.size()) return "node " + (path.empty() ? "" : path.back());
  return fmt::format("{} {}", profile.levels[index].name, fmt::join(path, "/"));
}

std::string topology_summary(const ClusterReading& reading, const Census& census) {
  const Tree& tree = reading.cluster->tree();
  std::string text = fmt::format("Profile: {}\n", profile_in_words(reading));
  std::vector<std::string> holes;
  for (const placement::Hole& hole : census.largest) {
    if (hole.level == placement::kClusterLevel || hole.pods == 0) continue;
    holes.push_back(fmt::format("{} in {}", amount_of(census.resource, hole.pods),
                                place_name(tree.profile(), hole.level, hole.path)));
  }
  text += fmt::format("Largest holes: {}\n", holes.empty() ? "none" : fmt::format("{}", fmt::join(holes, ", ")));
  for (const auto& problem : placement::check_labels(tree)) {
    text += fmt::format("Warning: {}\n", placement::sentence_of(tree, problem));
  }
  for (const std::string& note : reading.notes) text += fmt::format("Warning: {}\n", note);
  return text;
}

json topology_json(const ClusterReading& reading, const Census& census) {
  const Tree& tree = reading.cluster->tree();
  json levels = json::array(), holes = json::array(), problems = json::array();
  for (const placement::Level& level : tree.profile().levels) {
    levels.push_back({{"name", level.name}, {"label", level.label}});
  }
  for (const placement::Hole& hole : census.largest) {
    const auto index = static_cast<std::size_t>(hole.level);
    const std::string level = hole.level == placement::kClusterLevel ? "cluster"
                              : hole.level == tree.levels()          ? "node"
                                                                     : tree.profile().levels[index].name;
    holes.push_back({{"level", level}, {"path", hole.path}, {"free", amount(census.resource, hole.pods)}});
  }
  for (const auto& problem : placement::check_labels(tree)) {
    problems.push_back({{"kind", name_of(problem.kind)},
                        {"level", tree.profile().levels[static_cast<std::size_t>(problem.level)].name},
                        {"domain", problem.domain},
                        {"where", problem.where},
                        {"message", placement::sentence_of(tree, problem)}});
  }
  for (const std::string& note : reading.notes) problems.push_back({{"kind", "Unreadable"}, {"message", note}});
  return {{"profile", {{"name", tree.profile().name}, {"source", reading.profile_source}, {"levels", levels}}},
          {"resource", census.resource},
          {"cluster", domain_json(reading, census, kRoot)},
          {"holes", holes},
          {"problems", problems}};
}

}  // namespace lockstep::cli
