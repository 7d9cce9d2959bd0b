#include "operator/local/selectors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep::local {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// Splits at commas that are not inside parentheses.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(trimmed(part));
  return parts;
}

Error unreadable(const std::string& kind, const std::string& text) {
  return fail(ErrorCode::kInvalid, "unable to parse " + kind + " selector \"" + text + "\"");
}

const nlohmann::json* member(const nlohmann::json* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto& fields = object->get_ref<const nlohmann::json::object_t&>();
  const auto found = fields.find(key);
  return found == fields.end() ? nullptr : &found->second;
}

const std::string* text(const nlohmann::json* value) {
  return value != nullptr && value->is_string() ? value->get_ptr<const std::string*>() : nullptr;
}

const std::string* text_at(const nlohmann::json& object, const std::string& dotted) {
  const auto dot = dotted.find('.');  // parse_fields() lets only paths of two names in
  return text(member(member(&object, dotted.substr(0, dot)), dotted.substr(dot + 1)));
}

}  // namespace

Result<std::vector<Selector::Requirement>> Selector::parse_labels(const std::string& text) {
  std::vector<Requirement> requirements;
  for (const std::string& part : split(text)) {
    if (part.empty()) return unreadable("label", text);
    const auto open = part.find('(');
    if (open != std::string::npos) {
      if (part.back() != ')') return unreadable("label", text);
      const std::string head = trimmed(std::string_view(part).substr(0, open));
      const auto space = head.find_last_of(" \t");
      if (space == std::string::npos) return unreadable("label", text);
      const std::string word = head.substr(space + 1);
      if (word != "in" && word != "notin") return unreadable("label", text);
      requirements.push_back({trimmed(std::string_view(head).substr(0, space)),
                              word == "in" ? Requirement::Kind::kIn : Requirement::Kind::kNotIn,
                              split(part.substr(open + 1, part.size() - open - 2))});
    } else if (const auto equals = part.find('='); equals != std::string::npos) {
      const bool negated = equals > 0 && part[equals - 1] == '!';
      const auto value = part.find_first_not_of('=', equals);
      requirements.push_back({trimmed(std::string_view(part).substr(0, negated ? equals - 1 : equals)),
                              negated ? Requirement::Kind::kNotIn : Requirement::Kind::kIn,
                              {value == std::string::npos ? "" : trimmed(std::string_view(part).substr(value))}});
    } else if (part[0] == '!') {
      requirements.push_back({trimmed(std::string_view(part).substr(1)), Requirement::Kind::kAbsent, {}});
    } else {
      requirements.push_back({part, Requirement::Kind::kExists, {}});
    }
    const std::string& key = requirements.back().key;
    if (key.empty() || key.find_first_of(" \t!=") != std::string::npos) return unreadable("label", text);
  }
  return requirements;
}

Result<std::vector<Selector::Requirement>> Selector::parse_fields(const std::string& text) {
  LOCKSTEP_TRY(auto requirements, parse_labels(text));
  static const std::vector<std::string> known = {"metadata.name", "metadata.namespace", "spec.nodeName",
                                                 "status.phase"};
  for (const Requirement& requirement : requirements) {
    if (requirement.values.size() != 1) return unreadable("field", text);
    if (std::find(known.begin(), known.end(), requirement.key) == known.end()) {
      return fail(ErrorCode::kInvalid, "field label not supported: " + requirement.key);
    }
  }
  return requirements;
}

Result<Selector> Selector::parse(const std::string& labels, const std::string& fields) {
  Selector selector;
  if (!labels.empty()) {
    LOCKSTEP_TRY(selector.labels_, parse_labels(labels));
  }
  if (!fields.empty()) {
    LOCKSTEP_TRY(selector.fields_, parse_fields(fields));
  }
  return selector;
}

bool Selector::meets(const Requirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr &&
           std::find(requirement.values.begin(), requirement.values.end(), *value) != requirement.values.end();
  };
  switch (requirement.kind) {
    case Requirement::Kind::kExists:
      return value != nullptr;
    case Requirement::Kind::kAbsent:
      return value == nullptr;
    case Requirement::Kind::kIn:
      return listed();
    case Requirement::Kind::kNotIn:
      return !listed();
  }
  return false;
}

bool Selector::matches(const nlohmann::json& object) const {
  static const std::string empty;
  const nlohmann::json* labels = member(member(&object, "metadata"), "labels");
  for (const Requirement& requirement : labels_) {
    const std::string* value = text(member(labels, requirement.key));
    if (!meets(requirement, value)) return false;
  }
  for (const Requirement& requirement : fields_) {
    const std::string* value = text_at(object, requirement.key);
    if (!meets(requirement, value == nullptr ? &empty : value)) return false;
  }
  return true;
}

}  // namespace lockstep::local
