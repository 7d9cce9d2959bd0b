#include "operator/base/json_cut.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr auto kEnd = std::string_view::npos;

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
  return at;
}

// From the quote at `at` to behind the closing one, or kEnd.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return kEnd;
}

// From the bracket at `at` to behind its partner, or kEnd. No recursion: the depth is the sender's.
std::size_t skip_brackets(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    switch (text[at]) {
      case '"':
        at = skip_string(text, at);
        if (at == kEnd) return kEnd;
        continue;
      case '{':
      case '[':
        ++depth;
        break;
      case '}':
      case ']':
        if (--depth == 0) return at + 1;
        break;
      default:
        break;
    }
    ++at;
  }
  return kEnd;
}

// From the first character of a value to behind its last, or kEnd.
std::size_t skip_value(std::string_view text, std::size_t at) {
  if (at >= text.size()) return kEnd;
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] == '{' || text[at] == '[') return skip_brackets(text, at);
  const std::size_t end = text.find_first_of(",]} \t\r\n", at);
  return end == at ? kEnd : end;
}

// What objects and arrays have in common. `part` reads from `at`, and returns where it ended: kEnd for no part, `at`
// for a visit that wants no more.
template <typename Part>
bool each_part(std::string_view text, char open, char close, Part&& part) {
  std::size_t at = skip_space(text, 0);
  if (at >= text.size() || text[at] != open) return false;
  at = skip_space(text, at + 1);
  if (at < text.size() && text[at] == close) return skip_space(text, at + 1) == text.size();
  while (at < text.size()) {
    const std::size_t end = part(at);
    if (end == kEnd) return false;
    if (end == at) return true;
    at = skip_space(text, end);
    if (at >= text.size()) return false;
    if (text[at] == close) return skip_space(text, at + 1) == text.size();
    if (text[at] != ',') return false;
    at = skip_space(text, at + 1);
  }
  return false;
}

}  // namespace

bool each_member(std::string_view object,
                 const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  return each_part(object, '{', '}', [&](std::size_t at) {
    if (object[at] != '"') return kEnd;
    const std::size_t key_end = skip_string(object, at);
    if (key_end == kEnd) return kEnd;
    const std::size_t colon = skip_space(object, key_end);
    if (colon >= object.size() || object[colon] != ':') return kEnd;
    const std::size_t value = skip_space(object, colon + 1);
    const std::size_t end = skip_value(object, value);
    if (end == kEnd) return kEnd;
    return visit(object.substr(at + 1, key_end - at - 2), object.substr(value, end - value)) ? end : at;
  });
}

bool each_element(std::string_view array, const std::function<bool(std::string_view value)>& visit) {
  return each_part(array, '[', ']', [&](std::size_t at) {
    const std::size_t end = skip_value(array, at);
    if (end == kEnd) return kEnd;
    return visit(array.substr(at, end - at)) ? end : at;
  });
}

std::string_view cut_at(std::string_view object, std::initializer_list<std::string_view> path) {
  for (const std::string_view wanted : path) {
    std::string_view found;
    each_member(object, [&](std::string_view key, std::string_view value) {
      if (key == wanted) found = value;
      return key != wanted;
    });
    if (found.empty()) return {};
    object = found;
  }
  return object;
}

std::string characters_of(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return {};
  if (value.find('\\') == value.npos) return std::string(value.substr(1, value.size() - 2));
  const auto parsed = nlohmann::json::parse(value.begin(), value.end(), nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : std::string();
}

}  // namespace lockstep
