#include "operator/job/sickness_watch.h"

#include <algorithm>

namespace lockstep::job {

void SicknessWatch::note(const std::string& node, const std::string& source, bool sick) {
  const std::lock_guard guard(mutex_);
  const auto known = nodes_.find(node);
  if (!sick) {
    if (known == nodes_.end()) return;
    known->second.sources.erase(source);
    if (known->second.sources.empty()) nodes_.erase(known);
    return;
  }
  if (known != nodes_.end()) {
    known->second.sources.insert(source);
    return;
  }
  const auto now = clock_.now();
  nodes_[node] = {.sources = {source}, .since = now};
  recent_[node] = now;
  std::erase_if(recent_, [&](const auto& entry) { return now - entry.second > kTogether; });
  for (auto& [name, known_sick] : nodes_) {
    if (now - known_sick.since <= kTogether) known_sick.together = std::max(known_sick.together, recent_.size());
  }
}

std::optional<SicknessWatch::Seen> SicknessWatch::find(const std::string& node, std::size_t nodes) const {
  const std::lock_guard guard(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return std::nullopt;
  const Sick& sick = known->second;
  return Seen{clock_.now() - sick.since, sick.together >= kFewest && sick.together * kOneIn > nodes};
}

}  // namespace lockstep::job
