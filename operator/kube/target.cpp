#include "operator/kube/target.h"

#include <fmt/format.h>

#include <cctype>

namespace lockstep::kube {

std::string percent_encoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((std::isalnum(byte) != 0 && byte < 0x80) || c == '-' || c == '.' || c == '_' || c == '~') {
      result += c;
    } else {
      result += fmt::format("%{:02X}", byte);
    }
  }
  return result;
}

Query& Query::add(std::string_view key, std::string_view value) {
  if (value.empty()) return *this;
  if (!text_.empty()) text_ += '&';
  text_ += fmt::format("{}={}", key, percent_encoded(value));
  return *this;
}

Query& Query::add(std::string_view key, int value) {
  return add(key, std::string_view(std::to_string(value)));
}

std::string collection_path(const Resource& resource, const std::string& name_space) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  path += resource.version;
  if (resource.namespaced && !name_space.empty()) path += "/namespaces/" + percent_encoded(name_space);
  return path + "/" + resource.plural;
}

Result<std::string> object_path(const Resource& resource, const std::string& name_space, const std::string& name,
                                const std::string& subresource) {
  if (resource.namespaced && name_space.empty()) {
    return fail(ErrorCode::kInvalid, fmt::format("the {} '{}' has no namespace", resource.kind, name));
  }
  // "." and ".." would be path segments of the URL.
  if (name.empty() || name == "." || name == "..") {
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is no name of a {}", name, resource.kind));
  }
  std::string path = collection_path(resource, name_space) + "/" + percent_encoded(name);
  if (!subresource.empty()) path += "/" + subresource;
  return path;
}

}  // namespace lockstep::kube
