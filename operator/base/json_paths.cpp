#include "operator/base/json_paths.h"

#include <algorithm>

#include "operator/base/json_cut.h"

namespace lockstep {
namespace {

// Cuts one text.
class Keeper {
 public:
  explicit Keeper(const JsonPaths& paths) : paths_(paths) {}

  std::string kept;

  // Appends the value. It calls itself, as deep as the table at most.
  bool keep(std::string_view value, int place) {
    const bool object = !value.empty() && value.front() == '{';
    const bool array = !value.empty() && value.front() == '[';
    if (paths_.last(place) || (!object && !array)) {
      kept += value;
      return true;
    }
    kept += value.front();
    const std::size_t begin = kept.size();
    bool whole = true;
    const auto separate = [&] {
      if (kept.size() > begin) kept += ',';
    };
    const auto keep_member = [&](std::string_view key, std::string_view inner) {
      const int next = next_of(place, key);
      if (next < 0) return true;
      separate();
      kept.append(quoted(key)) += ':';
      return whole = keep(inner, next);
    };
    const auto keep_element = [&](std::string_view inner) {
      const int next = paths_.next(place, "[]");
      if (next < 0) return true;
      separate();
      return whole = keep(inner, next);
    };
    const bool paired = object ? each_member(value, keep_member) : each_element(value, keep_element);
    kept += object ? '}' : ']';
    return paired && whole;
  }

 private:
  // A key of each_member() with the quotes that stand around it.
  static std::string_view quoted(std::string_view key) { return {key.data() - 1, key.size() + 2}; }
  int next_of(int place, std::string_view key) const {
    return key.find('\\') == key.npos ? paths_.next(place, key) : paths_.next(place, characters_of(quoted(key)));
  }

  const JsonPaths& paths_;
};

}  // namespace

JsonPaths::JsonPaths(std::initializer_list<Path> paths) : places_(1) {
  for (const Path& path : paths) {
    std::size_t place = 0;
    std::string_view rest = path.text;
    while (!rest.empty()) {
      const std::string key(rest.substr(0, rest.find('|')));
      rest.remove_prefix(std::min(rest.size(), key.size() + 1));
      const auto& known = places_[place].next;
      const auto found = std::find_if(known.begin(), known.end(),
                                      [&](int next) { return places_[static_cast<std::size_t>(next)].key == key; });
      if (found != known.end()) {
        place = static_cast<std::size_t>(*found);
        continue;
      }
      places_[place].next.push_back(static_cast<int>(places_.size()));
      place = places_.size();
      places_.push_back({key, -1, {}});
    }
    places_[place].id = path.id;
  }
}

int JsonPaths::next(int place, std::string_view key) const {
  for (const int next : places_[static_cast<std::size_t>(place)].next) {
    const std::string& known = places_[static_cast<std::size_t>(next)].key;
    if (known == key || (known == "*" && key != "[]")) return next;
  }
  return -1;
}

std::string keep_paths(std::string_view text, const JsonPaths& paths) {
  Keeper keeper(paths);
  keeper.kept.reserve(text.size() / 2);
  if (!keeper.keep(text.substr(std::min(text.find_first_not_of(" \t\n\r"), text.size())), 0)) keeper.kept.clear();
  return std::move(keeper.kept);
}

}  // namespace lockstep
