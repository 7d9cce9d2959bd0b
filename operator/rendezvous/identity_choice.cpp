#include "operator/rendezvous/identity_choice.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace lockstep::rendezvous {
namespace {

// Their values decide the defaults of other fields, so a difference in one of these explains the rest.
constexpr std::string_view kExplaining[] = {"model", "optimizer", "precision"};

constexpr int kMostFields = 32;  // of a line that are compared: so that a long one costs no more memory than it is

struct Value {
  int ranks = 0;
  std::size_t first = 0;  // index of the first member that has it
};
using Values = std::map<std::string_view, Value>;

// Calls `each(name, value)` for every field of a line; what is no "name=value" is left out.
template <typename Each>
void for_each_field(std::string_view line, Each each) {
  for (int count = 0; count < kMostFields && !line.empty(); ++count) {
    const std::string_view word = line.substr(0, line.find(' '));
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos && equals > 0) each(word.substr(0, equals), word.substr(equals + 1));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
}

IdentityDifference difference(std::string_view field, const Values& values,
                              const std::vector<MemberIdentity>& members) {
  const auto before = [](const auto& a, const auto& b) {
    return a.second.ranks != b.second.ranks ? a.second.ranks > b.second.ranks : a.second.first < b.second.first;
  };
  const auto most = std::min_element(values.begin(), values.end(), before);
  auto odd = values.end();
  for (auto at = values.begin(); at != values.end(); ++at) {
    if (at != most && (odd == values.end() || at->second.first < odd->second.first)) odd = at;
  }
  return {std::string(field), members[odd->second.first].slot, std::string(odd->first),
          members[most->second.first].slot, std::string(most->first)};
}

}  // namespace

std::optional<IdentityDifference> identity_difference(const std::vector<MemberIdentity>& members) {
  Values lines;  // nearly always one
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const IdentityRun& run : *members[i].runs) {
      Value& value = lines.try_emplace(run.line, Value{0, i}).first->second;
      value.ranks += run.ranks;
    }
  }
  if (lines.size() < 2) return std::nullopt;
  std::map<std::string_view, Values> fields;
  for (const auto& [line, of_line] : lines) {
    for_each_field(line, [&fields, &ranks = of_line](std::string_view name, std::string_view value) {
      Value& known = fields[name].try_emplace(value, Value{0, ranks.first}).first->second;
      known.ranks += ranks.ranks;
      known.first = std::min(known.first, ranks.first);
    });
  }
  for (const std::string_view field : kExplaining) {
    const auto at = fields.find(field);
    if (at != fields.end() && at->second.size() > 1) return difference(field, at->second, members);
  }
  for (const auto& [field, values] : fields) {
    if (values.size() > 1) return difference(field, values, members);
  }
  return std::nullopt;
}

std::string identity_advice(const std::string& field) {
  if (field == "numerics") return "Give the job nodes of one CPU type, or leave out --deterministic";
  if (field == "gpu") return "Give the job nodes with one type of GPU";
  return "";
}

}  // namespace lockstep::rendezvous
