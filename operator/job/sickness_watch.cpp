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
  const auto recent = [&](const auto& entry) { return now - entry.second.since <= kTogether; };
  const auto together = static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), recent));
  for (auto& entry : nodes_) {
    if (recent(entry)) entry.second.together = std::max(entry.second.together, together);
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
