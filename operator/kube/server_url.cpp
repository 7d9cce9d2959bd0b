#include "operator/kube/server_url.h"

#include <algorithm>
#include <cctype>

namespace lockstep::kube {
namespace {

std::string_view without_scheme(std::string_view url) {
  const auto scheme = url.find("://");
  return scheme == url.npos ? url : url.substr(scheme + 3);
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

HostPort host_port(std::string_view url) {
  url = without_scheme(url);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const auto at = url.rfind('@'); at != url.npos) url.remove_prefix(at + 1);
  if (!url.empty() && url.front() == '[') {
    const auto end = url.find(']');
    if (end == url.npos) return {lower_case(url), ""};
    const auto rest = url.substr(end + 1);
    return {lower_case(url.substr(1, end - 1)), std::string(rest.empty() ? rest : rest.substr(1))};
  }
  const auto colon = url.rfind(':');
  if (colon == url.npos || url.find(':') != colon) return {lower_case(url), ""};  // several colons: a bare IPv6 address
  return {lower_case(url.substr(0, colon)), std::string(url.substr(colon + 1))};
}

std::string url_path(std::string_view url) {
  url = without_scheme(url);
  url.remove_prefix(std::min(url.find('/'), url.size()));
  url = url.substr(0, url.find_first_of("?#"));
  while (url.ends_with('/')) url.remove_suffix(1);
  return std::string(url);
}

}  // namespace lockstep::kube
