#include "operator/cli/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "operator/cli/text.h"
#include "operator/job/api_generation_store.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostRows = 64;

}  // namespace

rendezvous::Place place_of(const api::Pod& pod) {
  return {std::atoi(pod.meta.label(api::kLabelSlot).c_str()),
          std::atoll(pod.meta.label(api::kLabelIncarnation).c_str())};
}

Result<rendezvous::Roster> ranks_of(const Target& target, const api::TrainingJob& job) {
  job::ApiGenerationStore records(target.api);
  LOCKSTEP_TRY(const auto stored, records.load(target.name_space, job.meta.name, job.meta.uid));
  std::vector<rendezvous::Place> places;
  places.reserve(stored.record.members.size());
  for (const auto& member : stored.record.members) places.push_back({member.slot, member.incarnation});
  if (stored.record.format == 1) std::sort(places.begin(), places.end());  // of an operator before ranks had an order
  return rendezvous::Roster(std::move(places), std::max(1, api::resolved_procs_per_node(job.spec)));
}

std::string rank_table(const rendezvous::Roster& ranks, const std::vector<api::Pod>& pods) {
  if (ranks.size() == 0) return "";
  std::map<rendezvous::Place, const api::Pod*> by_place;
  for (const api::Pod& pod : pods) by_place.emplace(place_of(pod), &pod);
  std::vector<std::vector<std::string>> rows = {{"RANKS", "POD", "NODE"}};
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRows); ++i) {
    const int first = static_cast<int>(i) * ranks.procs(), last = first + ranks.procs() - 1;
    const auto at = by_place.find(ranks.places()[i]);
    const bool there = at != by_place.end();
    rows.push_back({first == last ? std::to_string(first) : fmt::format("{}-{}", first, last),
                    there ? at->second->meta.name : "-",
                    there && !at->second->node_name.empty() ? at->second->node_name : "-"});
  }
  const std::string more =
      ranks.size() > kMostRows ? fmt::format("and {} more pods\n", ranks.size() - kMostRows) : std::string();
  return table(rows) + more;
}

std::string ranks_in_words(const Target& target, const api::TrainingJob& job) {
  const auto is = [&](const char* type) { return api::is_true(job.status.conditions, type); };
  if (is("Succeeded") || is("Failed")) return "";
  const auto ranks = ranks_of(target, job);
  if (!ranks) return fmt::format("the ranks are not known: {}\n", ranks.error().message);
  if (ranks->size() == 0) return "";
  const std::string selector = std::string(api::kLabelJobUid) + "=" + job.meta.uid;
  const auto page =
      target.api.list(kube::kPods, {.name_space = target.name_space, .label_selector = selector, .limit = 0});
  if (!page) return fmt::format("the ranks are not known: {}\n", page.error().message);
  std::vector<api::Pod> pods;
  for (const auto& object : page->items) {
    if (auto pod = api::parse_pod(object)) pods.push_back(std::move(*pod));
  }
  return rank_table(*ranks, pods);
}

}  // namespace lockstep::cli
