#include "operator/job/strategic_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::job {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr const char* kPatch = "$patch";

struct MergedList {
  std::string_view field;
  const char* key;
};

// Every list of core/v1 PodSpec and Container with patchStrategy merge. No other field of a pod that takes objects
// has one of these names, so the name alone says how to merge.
constexpr std::array<MergedList, 15> kMergedLists{{
    {"containers", "name"},
    {"initContainers", "name"},
    {"ephemeralContainers", "name"},
    {"volumes", "name"},
    {"imagePullSecrets", "name"},
    {"hostAliases", "ip"},
    {"topologySpreadConstraints", "topologyKey"},
    {"schedulingGates", "name"},
    {"resourceClaims", "name"},
    {"evictionResponders", "name"},
    {"env", "name"},
    {"ports", "containerPort"},
    {"volumeMounts", "mountPath"},
    {"volumeDevices", "devicePath"},
    {"ownerReferences", "uid"},
}};

Error refuse(const std::string& path, const std::string& why) {
  return fail(ErrorCode::kInvalid, path + " " + why);
}

bool is_directive(const std::string& key) {
  return !key.empty() && key[0] == '$';
}

// `value` as it is put in where there was nothing: without nulls, and with no directive anywhere.
Result<Json> take(const Json& value, const std::string& path, int depth) {
  if (depth > kMaxDepth) return refuse(path, "is nested too deeply");
  if (value.is_object()) {
    Json result = Json::object();
    for (const auto& [key, item] : value.items()) {
      if (is_directive(key)) return refuse(path + "." + key, "has nothing here to act upon");
      if (item.is_null()) continue;
      LOCKSTEP_TRY(Json taken, take(item, path + "." + key, depth + 1));
      result[key] = std::move(taken);
    }
    return result;
  }
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& item : value) {
      LOCKSTEP_TRY(Json taken, take(item, fmt::format("{}[{}]", path, result.size()), depth + 1));
      result.push_back(std::move(taken));
    }
    return result;
  }
  return value;
}

Result<Json> merge_map(const Json& original, const Json& patch, const std::string& path, int depth);

const Json& key_of(const Json& item, const char* key) {
  static const Json none;
  const auto it = item.find(key);
  return it == item.end() ? none : *it;
}

std::optional<size_t> find(const Json& list, const char* key, const Json& value) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (const auto it = list[i].find(key); it != list[i].end() && *it == value) return i;
  }
  return std::nullopt;
}

Status check_keys(const Json& list, const char* key, const std::string& path) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    if (!list[i].is_object()) return refuse(place, "must be an object");
    if (list[i].contains(key)) continue;
    if (const auto it = list[i].find(kPatch); it != list[i].end() && *it == "replace") continue;
    return refuse(place, fmt::format("needs {}, by which the entries of this list are merged", key));
  }
  return {};
}

// Entries of the patch in the patch's order, the others in their own, interleaved by their places in `original`; new
// ones come first where nothing says otherwise. This is the order that the API server gives.
Json in_order(const Json& merged, const Json& patch, const Json& original, const char* key) {
  std::vector<std::pair<size_t, const Json*>> patched;
  std::vector<const Json*> others;
  for (const Json& item : merged) {
    if (const auto place = find(patch, key, key_of(item, key))) {
      patched.emplace_back(*place, &item);
    } else {
      others.push_back(&item);
    }
  }
  std::stable_sort(patched.begin(), patched.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto before = [&](const Json& a, const Json& b) {
    const auto place_a = find(original, key, key_of(a, key)), place_b = find(original, key, key_of(b, key));
    return place_a && place_b && *place_a < *place_b;
  };
  Json result = Json::array();
  size_t i = 0, j = 0;
  while (i < others.size() || j < patched.size()) {
    const bool take_other = j == patched.size() || (i < others.size() && before(*others[i], *patched[j].second));
    result.push_back(take_other ? *others[i++] : *patched[j++].second);
  }
  return result;
}

Result<Json> merge_list(Json original, const Json& patch, const char* key, const std::string& path, int depth) {
  LOCKSTEP_CHECK_OK(check_keys(patch, key, path));
  Json plain = Json::array();  // entries of the patch without directives
  bool replace = false;
  for (size_t i = 0; i < patch.size(); ++i) {
    const auto directive = patch[i].find(kPatch);
    if (directive == patch[i].end()) {
      plain.push_back(patch[i]);
    } else if (*directive == "replace") {
      replace = true;
    } else if (*directive == "delete") {
      while (const auto place = find(original, key, patch[i][key])) original.erase(*place);
    } else {
      return refuse(fmt::format("{}[{}].$patch", path, i), "must be delete or replace");
    }
  }
  if (replace) return take(plain, path, depth + 1);
  Json merged = original;
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    if (const auto found = find(merged, key, plain[i][key])) {
      LOCKSTEP_TRY(Json item, merge_map(merged[*found], plain[i], place, depth + 1));
      merged[*found] = std::move(item);
    } else {
      LOCKSTEP_TRY(Json item, take(plain[i], place, depth + 1));
      merged.push_back(std::move(item));
    }
  }
  return in_order(merged, plain, original, key);
}

Result<Json> merge_map(const Json& original, const Json& patch, const std::string& path, int depth) {
  if (depth > kMaxDepth) return refuse(path, "is nested too deeply");
  if (const auto directive = patch.find(kPatch); directive != patch.end()) {
    if (*directive == "delete") return Json::object();
    if (*directive != "replace") return refuse(path + ".$patch", "must be delete or replace");
    Json rest = patch;
    rest.erase(kPatch);
    return take(rest, path, depth + 1);
  }
  Json result = original;
  for (const auto& [key, value] : patch.items()) {
    const std::string place = path + "." + key;
    if (is_directive(key)) return refuse(place, "is not supported; $patch with delete or replace is");
    const auto old = result.find(key);
    if (value.is_null()) {
      if (old != result.end()) result.erase(old);
      continue;
    }
    const char* list_key = merge_key(key);
    Result<Json> merged = Json();
    if (old != result.end() && old->is_object() && value.is_object()) {
      merged = merge_map(*old, value, place, depth + 1);
    } else if (value.is_array() && list_key != nullptr) {
      const bool both = old != result.end() && old->is_array();
      merged = merge_list(both ? *old : Json::array(), value, list_key, place, depth + 1);
    } else {
      merged = take(value, place, depth + 1);
    }
    if (!merged) return merged.error();
    result[key] = std::move(merged).value();
  }
  return result;
}

}  // namespace

const char* merge_key(std::string_view field) {
  for (const MergedList& list : kMergedLists) {
    if (list.field == field) return list.key;
  }
  return nullptr;
}

Result<Json> strategic_merge(const Json& original, const Json& patch, const std::string& path) {
  if (!original.is_object()) return fail(ErrorCode::kInvalid, "the pod to patch must be an object");
  if (!patch.is_object()) return refuse(path, "must be an object");
  return merge_map(original, patch, path, 0);
}

}  // namespace lockstep::job
