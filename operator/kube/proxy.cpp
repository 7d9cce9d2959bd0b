#include "operator/kube/proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/kube/server_url.h"

namespace lockstep::kube {
namespace {

// An address as bytes; empty if it is none.
std::string address_bytes(const std::string& text) {
  std::array<char, sizeof(in6_addr)> buffer{};
  if (inet_pton(AF_INET, text.c_str(), buffer.data()) == 1) return {buffer.data(), sizeof(in_addr)};
  if (inet_pton(AF_INET6, text.c_str(), buffer.data()) == 1) return {buffer.data(), sizeof(in6_addr)};
  return {};
}

bool in_block(const std::string& host, std::string_view block) {
  const auto slash = block.find('/');
  const std::string address = address_bytes(host), network = address_bytes(std::string(block.substr(0, slash)));
  if (address.empty() || address.size() != network.size()) return false;
  const std::string bits_text(block.substr(slash + 1));
  if (bits_text.empty() || bits_text.find_first_not_of("0123456789") != bits_text.npos) return false;
  const long bits = std::strtol(bits_text.c_str(), nullptr, 10);
  if (bits > static_cast<long>(address.size() * 8)) return false;
  for (long bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
    if (((static_cast<std::uint8_t>(address[byte]) ^ static_cast<std::uint8_t>(network[byte])) & mask) != 0) {
      return false;
    }
  }
  return true;
}

bool excluded(const HostPort& server, std::string_view list) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (entry.empty()) continue;
    if (entry == "*") return true;
    if (entry.find('/') != entry.npos) {
      if (in_block(server.host, entry)) return true;
      continue;
    }
    HostPort wanted = host_port(entry);
    if (!wanted.port.empty() && wanted.port != server.port) continue;
    if (wanted.host.starts_with("*.")) wanted.host.erase(0, 1);
    const bool only_subdomains = wanted.host.starts_with(".");
    const std::string suffix = only_subdomains ? wanted.host : "." + wanted.host;
    if (server.host.ends_with(suffix)) return true;
    if (!only_subdomains && server.host == wanted.host) return true;
    const std::string address = address_bytes(server.host);
    if (!address.empty() && address == address_bytes(wanted.host)) return true;
  }
  return false;
}

std::string variable(const Environment& environment, const char* name) {
  if (auto value = environment(lower_case(name)); value && !value->empty()) return *value;
  return environment(name).value_or("");
}

}  // namespace

Result<Proxy> proxy_for(const std::string& server, const std::string& configured, const Environment& environment) {
  std::string url = configured;
  if (url.empty()) {
    const bool https = lower_case(server).starts_with("https://");
    HostPort target = host_port(server);
    if (target.port.empty()) target.port = https ? "443" : "80";
    url = variable(environment, https ? "HTTPS_PROXY" : "HTTP_PROXY");
    if (url.empty() || excluded(target, variable(environment, "NO_PROXY"))) return Proxy{};
  }
  if (url.find("://") == url.npos) url = "http://" + url;
  if (!lower_case(url).starts_with("http://")) {
    return fail(ErrorCode::kInvalid, fmt::format("the proxy {} cannot be used: only http:// proxies are supported",
                                                 url.substr(0, url.find("://") + 3) + host_port(url).host));
  }
  Proxy proxy;
  const auto authority_end = url.find_first_of("/?#", 7);
  const std::string authority = url.substr(7, authority_end == url.npos ? url.npos : authority_end - 7);
  const auto at = authority.rfind('@');
  proxy.url = "http://" + authority.substr(at == authority.npos ? 0 : at + 1);
  if (at != authority.npos) {
    const std::string user = authority.substr(0, at);
    const auto colon = user.find(':');
    proxy.user = user.substr(0, colon);
    if (colon != user.npos) proxy.password = user.substr(colon + 1);
  }
  return proxy;
}

}  // namespace lockstep::kube
