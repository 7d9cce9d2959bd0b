#include "trainer/agent/offer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "operator/api/cause.h"

namespace lockstep::trainer::agent {
namespace {

// Below the range that the kernel gives to outgoing connections, so that none of those takes it in between.
constexpr int kFirstPort = 20'000;
constexpr int kPorts = 10'000;
constexpr int kBacklog = 512;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// `ip` empty: any address of the family.
Address address_of(int family, const std::string& ip, int port) {
  Address address;
  if (family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (!ip.empty()) inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.length = sizeof v6;
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    if (!ip.empty()) inet_pton(AF_INET, ip.c_str(), &v4.sin_addr);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.length = sizeof v4;
  }
  return address;
}

// A bound socket, or none with errno set.
UniqueFd bound_socket(int family, const std::string& ip, int port) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const int on = 1;
  if (port != 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const Address address = address_of(family, ip, port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

int port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  std::uint16_t port = 0;  // at the same place in both families
  std::memcpy(&port, reinterpret_cast<const char*>(&storage) + offsetof(sockaddr_in, sin_port), sizeof port);
  return ntohs(port);
}

bool is_free(int family, int port) {
  const UniqueFd fd = bound_socket(family, "", port);
  return fd && ::listen(fd.get(), 1) == 0;
}

// Whether `one` of an interface is the address `other`, or holds it as the loopback holds its whole network.
bool holds(const ifaddrs& one, const Address& other) {
  if (one.ifa_addr == nullptr || one.ifa_addr->sa_family != other.storage.ss_family) return false;
  if (other.storage.ss_family == AF_INET6) {
    const auto& ours = reinterpret_cast<const sockaddr_in6*>(one.ifa_addr)->sin6_addr;
    return std::memcmp(&ours, &reinterpret_cast<const sockaddr_in6&>(other.storage).sin6_addr, sizeof ours) == 0;
  }
  std::uint32_t mask = ~std::uint32_t{0};
  if ((one.ifa_flags & IFF_LOOPBACK) != 0 && one.ifa_netmask != nullptr) {
    mask = reinterpret_cast<const sockaddr_in*>(one.ifa_netmask)->sin_addr.s_addr;
  }
  const std::uint32_t ours = reinterpret_cast<const sockaddr_in*>(one.ifa_addr)->sin_addr.s_addr;
  return ((ours ^ reinterpret_cast<const sockaddr_in&>(other.storage).sin_addr.s_addr) & mask) == 0;
}

}  // namespace

std::string interface_of(const std::string& ip) {
  const Address address = address_of(ip.find(':') == std::string::npos ? AF_INET : AF_INET6, ip, 0);
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (holds(*one, address)) return one->ifa_name;
  }
  return "";
}

Offer make_offer(const std::string& pod_ip, const rendezvous::Propose& propose, const std::string& seed) {
  Offer offer;
  offer.prepared.host = pod_ip;
  const int family = pod_ip.find(':') == std::string::npos ? AF_INET : AF_INET6;
  for (int i = 0; i < propose.ranks; ++i) {
    UniqueFd fd = bound_socket(family, pod_ip, 0);
    if (!fd && errno == EADDRNOTAVAIL) fd = bound_socket(family, "", 0);
    if (!fd || ::listen(fd.get(), kBacklog) != 0) {
      offer.prepared.problem = api::Cause::kPortInUse;
      offer.prepared.message = fmt::format("no port could be bound on {}: {}", pod_ip, std::strerror(errno));
      return offer;
    }
    offer.prepared.addresses.push_back(family == AF_INET6 ? fmt::format("[{}]:{}", pod_ip, port_of(fd.get()))
                                                          : fmt::format("{}:{}", pod_ip, port_of(fd.get())));
    offer.listeners.push_back(std::move(fd));
  }
  if (propose.first_rank != 0) return offer;
  if (propose.port != 0) {
    offer.prepared.master_port = propose.port;
    if (!is_free(family, propose.port)) {
      offer.prepared.problem = api::Cause::kPortInUse;
      offer.prepared.message =
          fmt::format("port {} of spec.rendezvous.port cannot be bound on {}, the host of rank 0: {}", propose.port,
                      pod_ip, std::strerror(errno));
    }
    return offer;
  }
  const auto start = std::hash<std::string>{}(fmt::format("{}/{}", seed, propose.id.generation));
  for (int i = 0; i < kPorts && offer.prepared.master_port == 0; ++i) {
    const int port = kFirstPort + static_cast<int>((start + static_cast<std::size_t>(i)) % kPorts);
    if (is_free(family, port)) offer.prepared.master_port = port;
  }
  if (offer.prepared.master_port == 0) {
    offer.prepared.problem = api::Cause::kPortInUse;
    offer.prepared.message =
        fmt::format("no port from {} to {} is free on {}", kFirstPort, kFirstPort + kPorts - 1, pod_ip);
  }
  return offer;
}

}  // namespace lockstep::trainer::agent
