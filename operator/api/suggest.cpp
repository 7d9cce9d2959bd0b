#include "operator/api/suggest.h"

#include <algorithm>
#include <cctype>

#include "operator/api/lookup.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongest = 64;  // a longer name is no typing mistake

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Edits (of one letter, or of two neighbours that changed places) that turn one name into the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string find_field(const Json& schema, const std::string& name, const std::string& path) {
  const Json& fields = at(schema, "properties");
  if (fields.contains(name)) return path + "." + name;
  for (const auto& [key, field] : fields.items()) {
    if (std::string found = find_field(field, name, path + "." + key); !found.empty()) return found;
  }
  return "";
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  size_t least = std::max<size_t>(1, std::min<size_t>(3, name.size() / 3)) + 1;
  for (const std::string_view candidate : known) {
    if (const size_t d = distance(name, candidate); d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string place_of_field(const Json& schema, const std::string& name) {
  return find_field(at(at(schema, "properties"), "spec"), name, "spec");
}

}  // namespace lockstep::api
