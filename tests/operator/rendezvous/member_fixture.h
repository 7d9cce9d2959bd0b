// The agent's state machine, driven by hand, and the actions that it asked for.
#pragma once

#include "operator/rendezvous/member_state.h"

#include <gtest/gtest.h>

#include "operator/rendezvous/worker_contract.h"

namespace lockstep::rendezvous {
class MemberStateTest : public testing::Test {
 protected:
  MonotonicTime now{std::chrono::hours(1)};
  MemberState member{MemberOptions{"ns", "pod", "uid", 1, 1, "session"}, now};
  std::vector<MemberAction> seen;

  void collect() {
    for (MemberAction& action : member.take_actions()) {
      if (const auto* send = std::get_if<SendToCoordinator>(&action)) expect_understood(send->message);
      seen.push_back(std::move(action));
    }
  }
  // A coordinator ends the connection of an agent of which it cannot read a message.
  static void expect_understood(const AgentToCoordinator& message) {
    const Result<std::string> frame = encode_frame(message);
    ASSERT_TRUE(frame) << frame.error().message;
    const auto read = decode_from_agent(std::string_view(*frame).substr(4));
    EXPECT_TRUE(read) << read.error().message << ": " << frame->substr(4);
  }
  template <typename Message>
  void tell(const Message& message) {
    member.on_message(CoordinatorToAgent(message), now);
    collect();
  }
  // The actions of one kind since the last call for any kind.
  template <typename Action>
  std::vector<Action> taken() {
    collect();
    std::vector<Action> found;
    for (const MemberAction& action : seen) {
      if (const auto* wanted = std::get_if<Action>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  template <typename Message>
  std::vector<Message> sent() {
    std::vector<Message> found;
    for (const auto& send : taken<SendToCoordinator>()) {
      if (const auto* wanted = std::get_if<Message>(&send.message)) found.push_back(*wanted);
    }
    return found;
  }
  void forget() {
    collect();
    seen.clear();
  }

  void join(std::int64_t term = 1) {
    member.on_connected(now);
    tell(Welcome{term});
  }
  Propose proposal(std::int64_t generation, std::int64_t term = 1) {
    Propose propose;
    propose.id = {term, generation};
    propose.first_rank = 1;
    propose.world_size = 2;
    return propose;
  }
  Go go(std::int64_t generation, std::int64_t term = 1) {
    Go message;
    message.id = {term, generation};
    message.first_rank = 1;
    message.world_size = 2;
    return message;
  }
  void prepared(std::int64_t generation, std::int64_t term = 1) {
    member.on_prepared({term, generation}, Prepared{{"10.0.0.1:5"}, "10.0.0.1", 0, api::Cause::kNone, ""}, now);
    collect();
  }
  void run_generation(std::int64_t generation) {
    tell(proposal(generation));
    prepared(generation);
    tell(go(generation));
    WorkerMessage up;
    up.up = true;
    member.on_worker_message(1, up, now);
    collect();
  }
  void end_process(int code, int signal = 0) {
    member.on_exit(ProcessEnd{.rank = 1,
                              .code = code,
                              .signal = signal,
                              .end_ms = 17,
                              .stderr_tail = "tail",
                              .problem = api::Cause::kNone,
                              .message = ""},
                   now);
    collect();
  }
};

}  // namespace lockstep::rendezvous
