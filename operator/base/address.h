// Numeric socket addresses as text: "10.0.0.1:2379", "[fd00::1]:2379".
#pragma once

#include <sys/socket.h>

#include <string>

#include "operator/base/result.h"

namespace lockstep {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return static_cast<const sockaddr*>(static_cast<const void*>(&storage)); }
  sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }
};

// kInvalid: not "ip:port" with a numeric address and a port from 1 to 65535.
Result<Address> parse_address(const std::string& text);
// "ip:port"; empty for families other than IPv4 and IPv6.
std::string format_address(const Address& address);
std::string ip_of(const Address& address);
int port_of(const Address& address);

// The address of a bound socket; kInvalid if it is not a bound TCP socket.
Result<Address> local_address(int fd);

}  // namespace lockstep
