#include "operator/rendezvous/rank_order.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace lockstep::rendezvous {
namespace {

constexpr int kNew = -1;
// Positions of new children among the others that one call compares, about 20 ms on one core. In the domains that come
// after that, new children follow. It takes thousands of new domains beside thousands of survivors.
constexpr std::size_t kMostPositions = 4'000'000;

struct Located {
  LocatedMember member;
  int rank = kNew;  // in the generation before, in places
};

// A domain, a node, or a member: what is beside one another in a domain.
struct Domain {
  std::vector<Domain> staying;  // children with survivors, by the lowest rank of these
  std::vector<Domain> fresh;    // children without, by name or slot
  Place place;                  // of a member
  bool has_nodes = false;
  std::string_view name;                   // where it has nodes
  int slot = INT_MAX;                      // the lowest of its members
  int size = 0;                            // members
  int lowest = INT_MAX;                    // rank of a survivor
  int highest = kNew;                      // rank of a survivor; kNew: it has none
  std::unordered_map<int, int> unchanged;  // by its first rank: how many ranks stay as they are at best

  bool is_member() const { return staying.empty() && fresh.empty(); }
};

Domain member_of(const Located& located) {
  Domain member;
  member.place = located.member.place;
  member.slot = member.place.slot;
  member.size = 1;
  member.highest = located.rank;
  if (located.rank != kNew) member.lowest = located.rank;
  return member;
}

// `members` are sorted by path, and the first `depth` names of their paths are the domain's.
Domain domain_of(std::span<const Located> members, std::size_t depth) {
  Domain domain;
  for (std::size_t i = 0; i < members.size();) {
    const auto& path = members[i].member.path;
    std::size_t end = i + 1;
    if (path.size() > depth) {
      while (end < members.size() && members[end].member.path[depth] == path[depth]) ++end;
    }
    const bool alone = path.size() <= depth;
    Domain child = alone ? member_of(members[i]) : domain_of(members.subspan(i, end - i), depth + 1);
    child.has_nodes = path.size() > depth + 1;
    if (child.has_nodes) child.name = path[depth];
    domain.slot = std::min(domain.slot, child.slot);
    domain.size += child.size;
    domain.lowest = std::min(domain.lowest, child.lowest);
    domain.highest = std::max(domain.highest, child.highest);
    (child.highest == kNew ? domain.fresh : domain.staying).push_back(std::move(child));
    i = end;
  }
  std::sort(domain.staying.begin(), domain.staying.end(),
            [](const Domain& a, const Domain& b) { return a.lowest < b.lowest; });
  std::sort(domain.fresh.begin(), domain.fresh.end(), [](const Domain& a, const Domain& b) {
    return std::tuple(!a.has_nodes, a.name, a.slot) < std::tuple(!b.has_nodes, b.name, b.slot);
  });
  return domain;
}

int most_unchanged(Domain& domain, int start, std::size_t& positions);

struct Arrangement {
  int unchanged = 0;
  std::vector<Domain*> children;
};

// The children of `domain`, whose first rank is `start`. Those with survivors keep their order. New ones go where the
// most ranks stay as they are, as late as that allows. `positions` is how many are left to compare.
Arrangement arrange(Domain& domain, int start, std::size_t& positions) {
  const std::size_t rows = domain.staying.size() + 1;
  const std::size_t all = rows * (domain.fresh.size() + 1);
  const bool follow = all > positions;
  const std::size_t columns = follow ? 1 : domain.fresh.size() + 1;
  if (!follow && columns > 1) positions -= all;
  std::vector<int> before(columns);  // members of the first j new children
  for (std::size_t j = 1; j < columns; ++j) before[j] = before[j - 1] + domain.fresh[j - 1].size;
  // What is left once the first i staying and j new children have their ranks. It is how many of the others keep theirs
  // at best, and whether a new child comes next.
  std::vector<int> best(rows * columns);
  std::vector<bool> fresh_next(rows * columns);
  int first = start;
  for (const Domain& child : domain.staying) first += child.size;
  for (std::size_t i = domain.staying.size(); i-- > 0;) {
    first -= domain.staying[i].size;
    for (std::size_t j = columns; j-- > 0;) {
      const std::size_t at = i * columns + j;
      best[at] = most_unchanged(domain.staying[i], first + before[j], positions) + best[at + columns];
      if (j + 1 == columns || best[at + 1] <= best[at]) continue;
      best[at] = best[at + 1];
      fresh_next[at] = true;
    }
  }
  Arrangement found{best[0], {}};
  std::size_t i = 0, j = 0;
  while (i < domain.staying.size()) {
    const bool takes_fresh = fresh_next[i * columns + j];
    found.children.push_back(takes_fresh ? &domain.fresh[j++] : &domain.staying[i++]);
  }
  while (j < domain.fresh.size()) found.children.push_back(&domain.fresh[j++]);
  return found;
}

int most_unchanged(Domain& domain, int start, std::size_t& positions) {
  if (start > domain.highest || start + domain.size <= domain.lowest) return 0;
  if (domain.is_member()) return 1;
  const auto known = domain.unchanged.find(start);
  if (known != domain.unchanged.end()) return known->second;
  return domain.unchanged[start] = arrange(domain, start, positions).unchanged;
}

void append(Domain& domain, std::vector<Place>& ranks, std::size_t& positions) {
  if (domain.is_member()) return ranks.push_back(domain.place);
  const Arrangement arranged = arrange(domain, static_cast<int>(ranks.size()), positions);
  for (Domain* child : arranged.children) append(*child, ranks, positions);
}

// Where no path is known.
std::vector<Place> by_slot(std::vector<Located> members) {
  const auto slot_of = [](const Located& each) { return each.member.place.slot; };
  std::sort(members.begin(), members.end(), [&](const auto& a, const auto& b) { return slot_of(a) < slot_of(b); });
  std::map<int, Place> survivors;
  for (const Located& each : members) {
    if (each.rank != kNew) survivors.emplace(each.rank, each.member.place);
  }
  std::vector<Place> ranks;
  auto next = survivors.begin();
  for (const Located& each : members) ranks.push_back(each.rank == kNew ? each.member.place : (next++)->second);
  return ranks;
}

}  // namespace

std::vector<Place> rank_order(const std::vector<Place>& before, std::vector<LocatedMember> members) {
  const Roster known(before, 1);
  std::vector<Located> located;
  located.reserve(members.size());
  for (LocatedMember& member : members) {
    const bool survives = known.has(member.place.slot, member.place.incarnation);
    const int rank = survives ? known.first_rank(member.place.slot) : kNew;
    located.push_back({std::move(member), rank});
  }
  if (std::all_of(located.begin(), located.end(), [](const Located& each) { return each.member.path.empty(); })) {
    return by_slot(std::move(located));
  }
  std::sort(located.begin(), located.end(), [](const Located& a, const Located& b) {
    return std::tie(a.member.path, a.member.place.slot) < std::tie(b.member.path, b.member.place.slot);
  });
  Domain cluster = domain_of(located, 0);
  std::vector<Place> ranks;
  ranks.reserve(located.size());
  std::size_t positions = kMostPositions;
  append(cluster, ranks, positions);
  return ranks;
}

}  // namespace lockstep::rendezvous
