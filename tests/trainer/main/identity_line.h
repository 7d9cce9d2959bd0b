// What a trainer says of itself before it trains (operator/rendezvous/worker_contract.h).
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

#include "operator/rendezvous/identity_choice.h"
#include "operator/rendezvous/worker_contract.h"
#include "tests/trainer/main/process.h"

namespace lockstep::trainer::testing {

// What a trainer with these arguments tells its agent; empty: it ended before. `program`: null for trainer().
inline std::string identity_line(const fs::path& folder, const std::vector<std::string>& arguments,
                                 const char* program = nullptr, Environment environment = {}) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd link(ends[0]), theirs(ends[1]);
  environment["LOCKSTEP_AGENT_FD"] = std::to_string(theirs.get());
  Process process(folder, "rank", arguments, environment, Limits{.keep_fds = {theirs.get()}, .program = program});
  theirs.reset();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string heard;
  while (readable(link.get(), deadline)) {
    char chunk[4096];
    const ssize_t n = ::recv(link.get(), chunk, sizeof chunk, 0);
    if (n <= 0) break;
    heard.append(chunk, static_cast<size_t>(n));
    for (size_t newline = 0; (newline = heard.find('\n')) != std::string::npos; heard.erase(0, newline + 1)) {
      const auto message = rendezvous::decode_worker_message(heard.substr(0, newline));
      if (message && message->identity) return *message->identity;
    }
  }
  ADD_FAILURE() << "no identity: " << process.err();
  return "";
}

// The field by which a coordinator tells two lines apart, or "none".
inline std::string identity_difference(const std::string& one, const std::string& other) {
  const std::vector<rendezvous::IdentityRun> first = {{1, one}}, second = {{1, other}};
  const auto found = rendezvous::identity_difference({{0, &first}, {1, &second}});
  return found ? found->field : "none";
}

}  // namespace lockstep::trainer::testing
