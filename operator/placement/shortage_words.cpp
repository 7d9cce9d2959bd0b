// The sentences of a verdict.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "operator/placement/shortage.h"

namespace lockstep::placement {
namespace {

constexpr std::size_t kMostNamed = 4;  // jobs or reasons in a sentence

std::string name_of_level(const Tree& tree, int level) {
  if (level == kClusterLevel) return "cluster";
  return level >= tree.levels() ? "node" : tree.profile().levels[static_cast<std::size_t>(level)].name;
}

std::string name_of_hole(const Tree& tree, const Hole& hole) {
  if (hole.level == kClusterLevel) return "the cluster";
  if (hole.level >= tree.levels()) return "node " + hole.path.back();
  return fmt::format("{} {}", name_of_level(tree, hole.level), fmt::join(hole.path, "/"));
}

std::string count_of(int pods) {
  return fmt::format("{} pod{}", pods, pods == 1 ? "" : "s");
}

const Hole* hole_of(const Verdict& verdict, const std::vector<Hole>& holes) {
  const auto index = static_cast<std::size_t>(verdict.required.value_or(kClusterLevel) + 1);
  return index < holes.size() && holes[index].pods > 0 ? &holes[index] : nullptr;
}

std::string endings_in_words(const Tree& tree, const Endings& endings) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(endings.jobs.size(), kMostNamed); ++i) {
    const Ending& job = endings.jobs[i];
    names.push_back(fmt::format("{} ({} there, priority {})", job.name, count_of(job.pods), job.priority));
  }
  if (endings.jobs.size() > kMostNamed) names.push_back(fmt::format("{} more", endings.jobs.size() - kMostNamed));
  return fmt::format("it would fit into {} if {} ended: {}", name_of(tree, endings.domain),
                     endings.jobs.size() == 1 ? "this job" : "these jobs", fmt::join(names, ", "));
}

}  // namespace

std::string sentence_of(const Tree& tree, const Verdict& verdict) {
  using Outcome = Verdict::Outcome;
  const std::string level = name_of_level(tree, verdict.required.value_or(kClusterLevel));
  const std::string one = verdict.required ? "one " + level : "the cluster";
  const std::string pods = count_of(verdict.pods);
  const Hole* const now = hole_of(verdict, verdict.largest);
  const Hole* const ever = hole_of(verdict, verdict.possible);
  switch (verdict.outcome) {
    case Outcome::kFits:
      return fmt::format("{} fit{} into {}{}", pods, verdict.pods == 1 ? "s" : "",
                         verdict.assignment && verdict.assignment->level_spanned != kClusterLevel
                             ? "one " + name_of_level(tree, verdict.assignment->level_spanned)
                             : "the cluster",
                         verdict.spread ? "; pods without CPU or GPU requests are spread" : "");
    case Outcome::kNoNode:
      return fmt::format("no node can take such a pod, even when empty (the cluster has {})", verdict.nodes);
    case Outcome::kTooLarge:
      if (ever == nullptr) return fmt::format("{} can never fit into {}", pods, one);
      return fmt::format("{} can never fit into {}: {} takes {} when empty", pods, one, name_of_hole(tree, *ever),
                         ever->pods);
    case Outcome::kSurvivorsApart:
      return fmt::format("the pods that run are not in {}, which is required", one);
    case Outcome::kNoRoom:
      if (now == nullptr) return fmt::format("none of {} fits into {} now", pods, one);
      return fmt::format("{} of {} {} into {} now{}", now->pods, pods, now->pods == 1 ? "fits" : "fit", one,
                         now->level == kClusterLevel ? "" : fmt::format(" ({})", name_of_hole(tree, *now)));
    case Outcome::kInvalid:
    case Outcome::kUnknown:
      break;
  }
  return verdict.sentence;
}

std::vector<std::string> advice(const Tree& tree, const Verdict& verdict) {
  std::vector<std::string> sentences;
  if (verdict.terminating > 0) {
    sentences.push_back(fmt::format("it fits once {} {} gone that {} terminating", count_of(verdict.terminating),
                                    verdict.terminating == 1 ? "is" : "are", verdict.terminating == 1 ? "is" : "are"));
  }
  if (verdict.spans_if_preferred) {
    const std::string spanned = *verdict.spans_if_preferred == kClusterLevel
                                    ? "over the whole cluster"
                                    : "within one " + name_of_level(tree, *verdict.spans_if_preferred);
    sentences.push_back(fmt::format("with preferred instead of required it would start now, {}", spanned));
  }
  if (verdict.fits_shared) sentences.push_back("without exclusive it would start now");
  if (verdict.endings) {
    sentences.push_back(endings_in_words(tree, *verdict.endings));
  } else if (verdict.outcome == Verdict::Outcome::kNoRoom && verdict.terminating == 0) {
    sentences.push_back("the end of TrainingJobs alone makes too little room: pods of others hold the rest");
  }
  return sentences;
}

std::string obstacles_of(const Verdict& verdict) {
  std::vector<std::string> found;
  for (const Shortage& shortage : verdict.shortages) {
    found.push_back(fmt::format("insufficient {} on {}", shortage.resource, shortage.nodes));
  }
  for (const BarredNodes& barred : verdict.barred) {
    found.push_back(fmt::format("{} on {}", reason_of(barred), barred.nodes));
  }
  if (found.empty()) return "";
  if (found.size() > kMostNamed) found.resize(kMostNamed);
  return fmt::format("of {} nodes: {}", verdict.nodes, fmt::join(found, ", "));
}

std::string reason_of(const BarredNodes& barred) {
  switch (barred.bar) {
    case Bar::kOutOfService:
      return "out of service";
    case Bar::kNotReady:
      return "not ready";
    case Bar::kSick:
      return "sick by " + barred.what;
    case Bar::kCordoned:
      return "cordoned";
    case Bar::kTaint:
      return "taint " + barred.what;
    case Bar::kSelector:
      return barred.what == kNodeAffinity ? barred.what : "not " + barred.what;
    case Bar::kLabel:
      return "no label " + barred.what;
    case Bar::kClosed:
      return "kept free or avoided";
    case Bar::kShared:
      return "a pod of the job is there";
    case Bar::kHostPort:
      return "host port taken";
  }
  return "";
}

}  // namespace lockstep::placement
