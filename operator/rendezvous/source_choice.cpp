#include "operator/rendezvous/source_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {
namespace {

bool newer_version(const StateVersion& a, const StateVersion& b) {
  return kMutation == Mutation::kVersionWithoutGeneration ? a.step > b.step : a.newer_than(b);
}

bool same_version(const StateVersion& a, const StateVersion& b) {
  return kMutation == Mutation::kVersionWithoutGeneration ? a.step == b.step : a == b;
}

std::string in_words(const std::map<std::string, std::vector<int>>& holders, const StateSource& source) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> parts;
  for (const auto& [digest, ranks] : holders) {
    if (parts.size() == kNamed) {
      parts.push_back(fmt::format("{} other digests", holders.size() - kNamed));
      break;
    }
    const std::vector<int> named(ranks.begin(),
                                 ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, ranks.size())));
    const std::string more = ranks.size() > kNamed ? fmt::format(" and {} more", ranks.size() - kNamed) : "";
    parts.push_back(fmt::format("{} {}{} with digest {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "),
                                more, digest));
  }
  return fmt::format("replicas of step {} of generation {} differ ({}); rank {} gives its own to all",
                     source.version.step, source.version.generation, fmt::join(parts, "; "), source.rank);
}

}  // namespace

SourceChoice choose_source(const std::vector<HeldState>& held, int ranks,
                           const std::optional<CheckpointReport>& checkpoint) {
  SourceChoice choice;
  if (held.empty()) return choice;
  StateSource& source = choice.source;
  const StateVersion* newest = &held.front().version;
  for (const auto& [rank, version] : held) {
    if (newer_version(version, *newest)) newest = &version;
  }
  if (checkpoint && checkpoint->step > newest->step) return choice;
  std::map<std::string, std::vector<int>> holders;  // of the newest, by digest
  for (const auto& [rank, version] : held) {
    if (!newer_version(*newest, version)) holders[version.digest].push_back(rank);
  }
  for (const auto& [rank, version] : held) {
    if (newer_version(*newest, version)) continue;
    if (source.rank >= 0 && holders[version.digest].size() <= holders[source.version.digest].size()) continue;
    source.rank = rank;
    source.version = version;
  }
  // The state goes round the ring: best from right before who needs it.
  std::vector<bool> holders_of_it(static_cast<std::size_t>(ranks));
  for (const HeldState& each : held) {
    if (each.version == source.version) holders_of_it[static_cast<std::size_t>(each.rank)] = true;
  }
  const auto holds = [&](int rank) { return holders_of_it[static_cast<std::size_t>(rank)]; };
  for (int rank = 0; rank < ranks; ++rank) {
    if (!holds(rank) || holds((rank + 1) % ranks)) continue;
    source.rank = rank;
    break;
  }
  if (holders.size() > 1) choice.divergence = in_words(holders, source);
  if (kMutation == Mutation::kNoTransfer) return choice;
  source.send = static_cast<int>(held.size()) < ranks ||
                std::any_of(held.begin(), held.end(),
                            [&](const HeldState& each) { return !same_version(each.version, source.version); });
  return choice;
}

}  // namespace lockstep::rendezvous
