// The parts of a server's URL.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::kube {

std::string lower_case(std::string_view text);

struct HostPort {
  std::string host, port;  // either may be empty
};

// Of "https://user@host:port/path", in lower case; the brackets of an IPv6 address are taken off.
HostPort host_port(std::string_view url);

// The path, without a slash at its end: "/k8s/clusters/a" of "https://rancher/k8s/clusters/a/"; often "".
std::string url_path(std::string_view url);

}  // namespace lockstep::kube
