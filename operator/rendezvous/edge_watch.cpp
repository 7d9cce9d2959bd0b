#include "operator/rendezvous/edge_watch.h"

#include <algorithm>
#include <tuple>

namespace lockstep::rendezvous {

std::optional<EdgeWatch::Eviction> EdgeWatch::failed(const std::vector<Report>& reports, bool stepped,
                                                     const std::set<Place>& gang) {
  if (stepped) failures_.clear();
  // A member that has gone can be in nobody's way.
  std::erase_if(failures_, [&](const auto& entry) {
    return gang.count(entry.first.first) == 0 || gang.count(entry.first.second) == 0;
  });
  std::set<Edge> edges;
  std::set<Place> speak;
  for (const Report& report : reports) {
    speak.insert(report.from);
    if (!report.to || report.from == *report.to || gang.count(report.from) == 0 || gang.count(*report.to) == 0)
      continue;
    edges.insert(std::minmax(report.from, *report.to));
  }
  std::map<Place, std::set<Place>> cut_off_from;  // of the edges that failed again
  for (const Edge& edge : edges) {
    if (++failures_[edge] < 2) continue;
    cut_off_from[edge.first].insert(edge.second);
    cut_off_from[edge.second].insert(edge.first);
  }
  if (cut_off_from.empty()) return std::nullopt;
  const auto worst = std::max_element(cut_off_from.begin(), cut_off_from.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const auto& entry) {
      return std::tuple(entry.second.size(), speak.count(entry.first) == 0, entry.first.incarnation, entry.first.slot);
    };
    return key(a) < key(b);
  });
  return Eviction{worst->first, *worst->second.begin()};
}

}  // namespace lockstep::rendezvous
