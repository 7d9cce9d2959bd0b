#include "tests/bench/operator_size/request_target.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lockstep::bench {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      result += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      result += text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

kube::Resource resource_of(const std::string& group, const std::string& version, const std::string& plural) {
  for (const auto* known :
       {&kube::kTrainingJobs, &kube::kPods, &kube::kNodes, &kube::kServices, &kube::kConfigMaps, &kube::kSecrets,
        &kube::kEvents, &kube::kLeases, &kube::kEndpointSlices, &kube::kTokenReviews, &kube::kPriorityClasses}) {
    if (known->group == group && known->plural == plural) return *known;
  }
  return {group, version, plural, ""};
}

}  // namespace

std::string RequestTarget::asked(const std::string& key) const {
  const auto found = query.find(key);
  return found == query.end() ? "" : found->second;
}

std::optional<RequestTarget> parse_target(std::string_view target) {
  RequestTarget parsed;
  const auto mark = target.find('?');
  if (mark != target.npos) {
    for (const std::string& pair : split(target.substr(mark + 1), '&')) {
      const auto equals = pair.find('=');
      if (equals != pair.npos) parsed.query[decoded(pair.substr(0, equals))] = decoded(pair.substr(equals + 1));
    }
  }
  std::vector<std::string> path = split(target.substr(0, mark), '/');
  for (std::string& part : path) part = decoded(part);
  const std::size_t before = !path.empty() && path[0] == "apis" ? 3 : 2;  // the plural or "namespaces" comes next
  if (path.size() <= before) return std::nullopt;
  std::size_t at = before;
  if (path[at] == "namespaces") {
    if (path.size() < at + 3) return std::nullopt;
    parsed.name_space = path[at + 1];
    at += 2;
  }
  parsed.resource = resource_of(before == 3 ? path[1] : "", path[before - 1], path[at]);
  if (++at < path.size()) parsed.name = path[at];
  if (++at < path.size()) parsed.subresource = path[at];
  return parsed;
}

}  // namespace lockstep::bench
