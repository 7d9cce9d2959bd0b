#include "operator/rendezvous/start_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lockstep::rendezvous {
namespace {

// The first of its processes that has said no line; empty: all have.
std::optional<int> first_without_line(const StartingMember& member) {
  if (member.identities->empty()) return 0;
  int local_rank = 0;
  for (const IdentityRun& run : *member.identities) {
    if (run.line.empty()) return local_rank;
    local_rank += run.ranks;
  }
  return std::nullopt;
}

std::string in_words(const std::vector<StartingMember>& members) {
  constexpr std::size_t kNamed = 8;
  if (members.size() == 1) return fmt::format("slot {} (pod {})", members[0].slot, members[0].pod);
  std::vector<int> slots;
  for (std::size_t i = 0; i < std::min(members.size(), kNamed); ++i) slots.push_back(members[i].slot);
  std::string text = fmt::format("slots {}", fmt::join(slots, ", "));
  if (members.size() > kNamed) text += fmt::format(" and {} more", members.size() - kNamed);
  return text;
}

}  // namespace

LateStart choose_late(const std::vector<StartingMember>& missing, bool together) {
  std::vector<StartingMember> late;
  for (const StartingMember& member : missing) {
    if (!together || first_without_line(member)) late.push_back(member);
  }
  const bool tells = !together || missing.size() == 1 || (!late.empty() && late.size() < missing.size());
  if (!tells) return {.slot = -1, .rank = -1, .who = in_words(missing)};
  if (late.empty()) late = missing;
  const int local_rank = together ? first_without_line(late[0]).value_or(0) : 0;
  return {.slot = late[0].slot, .rank = late[0].first_rank + local_rank, .who = in_words(late)};
}

}  // namespace lockstep::rendezvous
