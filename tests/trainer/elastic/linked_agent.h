// An agent that the test plays, at the other end of an AgentLink.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "operator/base/unique_fd.h"
#include "trainer/elastic/agent_link.h"

namespace lockstep::trainer::elastic {

struct LinkedAgent {
  LinkedAgent() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    agent.reset(ends[0]);
    auto opened = AgentLink::open(ends[1], stop);
    EXPECT_TRUE(opened.ok());
    link = std::move(opened).value();
  }

  // The next message, as the agent reads it; an empty one at the end of the link.
  rendezvous::WorkerMessage hears() const {
    std::string line;
    char c = 0;
    while (::read(agent.get(), &c, 1) == 1 && c != '\n') line += c;
    if (line.empty()) return {};
    const auto message = rendezvous::decode_worker_message(line);
    EXPECT_TRUE(message.ok()) << line;
    return message.value_or(rendezvous::WorkerMessage());
  }

  void says(const std::string& text) const {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::write(agent.get(), text.data() + sent, text.size() - sent);
      ASSERT_GT(n, 0);
      sent += static_cast<size_t>(n);
    }
  }
  void regroup(std::int64_t term, std::int64_t generation) const {
    says(rendezvous::encode(
        {.kind = rendezvous::AgentMessage::Kind::kRegroup, .regroup = {term, generation}, .join = {}, .yields = 0}));
  }
  void join(const rendezvous::Join& join) const {
    says(rendezvous::encode({.kind = rendezvous::AgentMessage::Kind::kJoin, .regroup = {}, .join = join, .yields = 0}));
  }

  StopToken stop;
  UniqueFd agent;
  std::unique_ptr<AgentLink> link;
};

}  // namespace lockstep::trainer::elastic
