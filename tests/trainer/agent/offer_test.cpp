#include "trainer/agent/offer.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <set>

namespace lockstep::trainer::agent {
namespace {

// The interfaces of this machine by numeric address, as text; without IPv6 addresses that mean nothing without a link.
std::map<std::string, std::set<std::string>> interfaces() {
  ifaddrs* first = nullptr;
  EXPECT_EQ(::getifaddrs(&first), 0);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  std::map<std::string, std::set<std::string>> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const std::string address = text;
    if (address.find('%') == std::string::npos) found[address].insert(one->ifa_name);
  }
  return found;
}

TEST(Offer, each_address_of_the_machine_is_found_on_its_interface) {
  const auto all = interfaces();
  ASSERT_FALSE(all.empty());
  for (const auto& [address, names] : all) EXPECT_EQ(names.count(interface_of(address)), 1U) << address;
}

TEST(Offer, the_loopback_holds_its_whole_network) {
  const std::string loopback = interface_of("127.0.0.1");
  EXPECT_NE(loopback, "");
  EXPECT_EQ(interface_of("127.0.0.2"), loopback);
}

TEST(Offer, an_address_of_another_machine_is_on_no_interface) {
  for (const char* address : {"192.0.2.255", "::2"}) EXPECT_EQ(interface_of(address), "") << address;
}

}  // namespace
}  // namespace lockstep::trainer::agent
