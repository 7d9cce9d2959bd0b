#include "operator/rendezvous/gang.h"

#include "operator/rendezvous/failure_choice.h"

namespace lockstep::rendezvous {

Go Gang::go_to(int slot) const {
  Go to = *go;
  to.first_rank = first_rank(slot);
  to.group_rank = static_cast<int>(index_of(slot));
  return to;
}

bool Gang::note_up(int slot) {
  up.resize(size());
  if (up[index_of(slot)]) return false;
  ++ups;
  return up[index_of(slot)] = true;
}

bool Gang::note_exit(const Exit& exit) {
  const bool fresh = end.exits.emplace(exit.rank, exit).second;
  if (fresh && succeeded(exit)) ++end.successes;
  return fresh;
}

void Gang::note_broken(int rank, const BrokenReport& report) {
  if (report.yielded) {
    end.yielded = true;
  } else {
    end.broken.emplace(rank, report);
  }
}

bool Gang::exited(int slot) const {
  if (end.exits.empty()) return false;
  const int first = first_rank(slot);
  for (int i = 0; i < procs(); ++i) {
    if (end.exits.count(first + i) == 0) return false;
  }
  return true;
}

bool Gang::succeeded_at(int slot) const {
  if (end.successes < procs()) return false;
  const int first = first_rank(slot);
  for (int i = 0; i < procs(); ++i) {
    const auto at = end.exits.find(first + i);
    if (at == end.exits.end() || !succeeded(at->second)) return false;
  }
  return true;
}

bool Gang::some_exited(int slot) const {
  const int first = first_rank(slot);
  const auto exit = end.exits.lower_bound(first);
  return exit != end.exits.end() && exit->first < first + procs();
}

std::vector<EdgeWatch::Report> Gang::link_reports() const {
  std::vector<EdgeWatch::Report> reports;
  const auto add = [&](int rank, int suspect) {
    const bool named = slot_of(suspect) >= 0;
    reports.push_back({place_of(rank), named ? std::optional(place_of(suspect)) : std::nullopt});
  };
  for (const auto& [rank, report] : end.broken) add(rank, report.suspect_rank);
  for (const auto& [rank, exit] : end.exits) {
    if (exit.report && exit.report->kind == FailureReport::Class::kCommunication) add(rank, exit.report->suspect_rank);
  }
  return reports;
}

}  // namespace lockstep::rendezvous
