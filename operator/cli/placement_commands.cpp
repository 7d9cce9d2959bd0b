#include "operator/cli/placement_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/cli/gang_verdict.h"
#include "operator/cli/text.h"
#include "operator/cli/verdict_view.h"

namespace lockstep::cli {
namespace {

Result<std::string> resource_of(const placement::Cluster& cluster, const std::string& asked) {
  if (asked.empty()) return placement::usual_resource(cluster);
  const std::vector<std::string> names = placement::resources_of(cluster);
  if (std::find(names.begin(), names.end(), asked) != names.end()) return asked;
  const std::string near = nearest(asked, names);
  return fail(ErrorCode::kNotFound, fmt::format("--resource {}: no node has it{}; nodes have {}", asked,
                                                near.empty() ? "" : fmt::format(", did you mean {}?", near),
                                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

Status topology(const Target& target, const TopologyOptions& options) {
  ProfileChoice profile = options.profile;
  profile.discover = true;  // an admin looks for levels to give to the operator
  LOCKSTEP_TRY(const ClusterReading reading, read_cluster(target.api, profile));
  if (reading.cluster->tree().node_count(placement::kRoot) == 0 && !options.json) {
    fmt::print(target.out, "the cluster has no nodes\n");
    return {};
  }
  LOCKSTEP_TRY(const std::string resource, resource_of(*reading.cluster, options.resource));
  const placement::Census census = placement::take_census(*reading.cluster, resource);
  if (options.json) {
    fmt::print(target.out, "{}\n", topology_json(reading, census).dump(2));
  } else {
    fmt::print(target.out, "{}\nFREE and TOTAL: {}. OTHERS: what pods take that are no TrainingJob's.\n{}",
               draw_topology(reading, census, options.draw), resource, topology_summary(reading, census));
  }
  return {};
}

Result<int> plan(const Target& target, const nlohmann::json& object, const PlanOptions& options) {
  LOCKSTEP_TRY(const auto job, api::parse_training_job(object));
  LOCKSTEP_TRY(GangVerdict found, judge_gang(target.api, job, options.profile));
  const placement::Tree& tree = found.reading.cluster->tree();
  const bool fits = found.verdict.outcome == placement::Verdict::Outcome::kFits;
  const auto same = [&](const auto& known) { return known.second.name == target.name_space + "/" + job.meta.name; };
  if (std::any_of(found.reading.jobs.begin(), found.reading.jobs.end(), same)) {
    found.notes.push_back(fmt::format("TrainingJob {} exists in namespace {}: this is the plan of a second one",
                                      job.meta.name, target.name_space));
  }
  if (options.json) {
    nlohmann::json all = verdict_json(tree, found.verdict);
    all["notes"] = found.notes;
    all["profile"] = tree.profile().name;
    fmt::print(target.out, "{}\n", all.dump(2));
    return fits ? 0 : 1;
  }
  fmt::print(target.out, "{} would {}start now: {}", job.meta.name, fits ? "" : "not ",
             fits ? assignment_in_words(tree, found.verdict) : refusal_in_words(tree, found.verdict));
  for (const std::string& note : found.notes) fmt::print(target.out, "Note: {}\n", note);
  for (const std::string& note : found.reading.notes) fmt::print(target.out, "Warning: {}\n", note);
  fmt::print(target.out, "Profile: {}\n", profile_in_words(found.reading));
  return fits ? 0 : 1;
}

Result<std::string> shortage_of(const Target& target, const api::TrainingJob& job, const ProfileChoice& profile) {
  LOCKSTEP_TRY(const GangVerdict found, judge_gang(target.api, job, profile));
  if (found.missing == 0) return std::string();
  const placement::Tree& tree = found.reading.cluster->tree();
  std::string text;
  if (found.verdict.outcome == placement::Verdict::Outcome::kFits) {
    text = fmt::format("{} now: it waits for its turn, or for a pause to end\n", sentence_of(tree, found.verdict));
  } else {
    text = refusal_in_words(tree, found.verdict);
  }
  for (const std::string& note : found.notes) text += fmt::format("Note: {}\n", note);
  return text + fmt::format("Profile: {}\n", profile_in_words(found.reading));
}

}  // namespace lockstep::cli
