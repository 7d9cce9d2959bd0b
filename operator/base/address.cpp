#include "operator/base/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "operator/base/number.h"

namespace lockstep {
namespace {

const sockaddr_in& v4(const Address& a) {
  return *static_cast<const sockaddr_in*>(static_cast<const void*>(&a.storage));
}
const sockaddr_in6& v6(const Address& a) {
  return *static_cast<const sockaddr_in6*>(static_cast<const void*>(&a.storage));
}

}  // namespace

Result<Address> parse_address(const std::string& text) {
  const auto bad = [&] {
    return fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not a numeric address and port such as 10.0.0.1:29500", text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  std::string host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  const auto port = parse_number<std::uint16_t>(std::string_view(text).substr(colon + 1), 1);
  if (!port) return bad();
  Address address;
  if (brackets) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(*port);
    if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return bad();
    std::memcpy(&address.storage, &six, sizeof six);
    address.length = sizeof six;
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(*port);
    if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) return bad();
    std::memcpy(&address.storage, &four, sizeof four);
    address.length = sizeof four;
  }
  return address;
}

std::string ip_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &v4(address).sin_addr, text, sizeof text);
  } else if (address.storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &v6(address).sin6_addr, text, sizeof text);
  }
  return text;
}

int port_of(const Address& address) {
  if (address.storage.ss_family == AF_INET) return ntohs(v4(address).sin_port);
  if (address.storage.ss_family == AF_INET6) return ntohs(v6(address).sin6_port);
  return 0;
}

std::string format_address(const Address& address) {
  if (address.storage.ss_family == AF_INET) return fmt::format("{}:{}", ip_of(address), port_of(address));
  if (address.storage.ss_family == AF_INET6) return fmt::format("[{}]:{}", ip_of(address), port_of(address));
  return "";
}

Result<Address> local_address(int fd) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, address.get(), &address.length) != 0) {
    return fail(ErrorCode::kInvalid, fmt::format("descriptor {} is not a socket: {}", fd, std::strerror(errno)));
  }
  if (port_of(address) == 0)
    return fail(ErrorCode::kInvalid, fmt::format("descriptor {} is not bound to a TCP port", fd));
  return address;
}

}  // namespace lockstep
