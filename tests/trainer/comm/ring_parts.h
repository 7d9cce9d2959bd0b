// For tests that set a ring up rank by rank: its listening sockets, the options of each rank, all of them at once.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/address.h"
#include "operator/base/unique_fd.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

// Listening sockets and options of a ring that the test sets up rank by rank.
struct Parts {
  explicit Parts(int n) {
    for (int i = 0; i < n; ++i) {
      UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in loopback{};
      loopback.sin_family = AF_INET;
      loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(::bind(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&loopback)), sizeof loopback),
                0);
      EXPECT_EQ(::listen(fd.get(), 64), 0);
      auto address = local_address(fd.get());
      EXPECT_TRUE(address.ok());
      peers.push_back(format_address(*address));
      listeners.push_back(std::move(fd));
    }
  }
  RingOptions options(int rank) {
    RingOptions result;
    result.rank = rank;
    result.size = static_cast<int>(peers.size());
    result.peers = peers;
    result.listen_fd = listeners[static_cast<size_t>(rank)].release();
    result.job_uid = "job";
    result.generation = 1;
    return result;
  }
  UniqueFd connect_to(int rank) const {
    auto address = parse_address(peers[static_cast<size_t>(rank)]);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), address->get(), address->length), 0);
    return fd;
  }
  std::vector<std::string> peers;
  std::vector<UniqueFd> listeners;
};

inline std::vector<Result<std::unique_ptr<Communicator>>> create_all(std::vector<RingOptions> options) {
  std::vector<std::future<Result<std::unique_ptr<Communicator>>>> futures;
  for (RingOptions& one : options) {
    futures.push_back(std::async(std::launch::async, [one] { return make_communicator(one); }));
  }
  std::vector<Result<std::unique_ptr<Communicator>>> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

}  // namespace lockstep::trainer::comm
