// The link to the agent and the stop token.
#include "trainer/elastic/agent_link.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::elastic {
namespace {

using rendezvous::AgentMessage;
using rendezvous::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AgentLinkTest : public ::testing::Test {
 protected:
  AgentLinkTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    agent_.reset(ends[0]);
    auto opened = AgentLink::open(ends[1], stop_);
    EXPECT_TRUE(opened.ok());
    link_ = std::move(opened).value();
  }
  // The next message, as the agent reads it; an empty one at the end of the link.
  WorkerMessage next() {
    std::string line;
    char c = 0;
    while (::read(agent_.get(), &c, 1) == 1 && c != '\n') line += c;
    if (line.empty()) return {};
    const auto message = rendezvous::decode_worker_message(line);
    EXPECT_TRUE(message.ok()) << line;
    return message.value_or(WorkerMessage());
  }
  void agent_says(const std::string& text) const {
    EXPECT_EQ(::write(agent_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  StopReason stopped() const {  // waits for it
    const auto until = std::chrono::steady_clock::now() + seconds(10);
    while (!stop_.requested() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return stop_.reason();
  }
  StopToken stop_;
  UniqueFd agent_;
  std::unique_ptr<AgentLink> link_;
};

TEST_F(AgentLinkTest, messages_arrive_in_order) {
  link_->up(true);
  link_->checkpoint({"step-1.g1", 1, 1, "d"});
  link_->failure({rendezvous::FailureReport::Class::kOwn, -1, "why"});
  const WorkerMessage up = next();
  EXPECT_TRUE(up.up);
  EXPECT_TRUE(up.regroups);
  EXPECT_EQ(next().checkpoint->name, "step-1.g1");
  EXPECT_EQ(next().failure->message, "why");
}

TEST_F(AgentLinkTest, of_much_progress_only_the_newest_goes_and_at_most_four_a_second) {
  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= 2000; ++step) link_->progress({.step = step});
  EXPECT_TRUE(link_->flush(seconds(10)));
  link_.reset();
  int messages = 0;
  std::int64_t last = 0;
  while (true) {
    const WorkerMessage message = next();
    if (!message.progress) break;
    EXPECT_GT(message.progress->step, last);
    last = message.progress->step;
    ++messages;
  }
  EXPECT_EQ(last, 2000) << "the newest is never lost";
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(messages, 2 + static_cast<int>(took * 4)) << "one at once, one by the flush";
}

TEST_F(AgentLinkTest, the_activity_is_sent_four_times_a_second_without_other_messages) {
  std::int64_t looks = 0;  // the link's thread counts
  const auto start = std::chrono::steady_clock::now();
  link_->watch([&looks] { return rendezvous::Activity{.generation = 3, .beats = ++looks}; });
  for (std::int64_t i = 1; i <= 4; ++i) {
    const WorkerMessage message = next();  // the training thread is stuck here
    ASSERT_TRUE(message.activity);
    EXPECT_EQ(message.activity->generation, 3);
    EXPECT_EQ(message.activity->beats, i);
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, milliseconds(3 * 250));
  link_.reset();  // before what it counts
}

TEST_F(AgentLinkTest, an_agent_that_reads_nothing_blocks_no_thread) {
  const std::string text(1000, 'x');
  for (int i = 0; i < 1500; ++i) link_->failure({rendezvous::FailureReport::Class::kOwn, -1, text});
  EXPECT_FALSE(link_->flush(milliseconds(50))) << "more than the socket holds";
}

TEST_F(AgentLinkTest, the_agents_stop_reaches_the_token_in_pieces_too) {
  const std::string line = rendezvous::encode(AgentMessage{});
  agent_says(line.substr(0, 4));
  agent_says(line.substr(4));
  EXPECT_EQ(stopped(), StopReason::kAgent);
}

TEST_F(AgentLinkTest, the_end_of_the_link_is_the_loss_of_the_agent) {
  agent_.reset();
  EXPECT_EQ(stopped(), StopReason::kAgentLost);
  link_->up(false);
  EXPECT_FALSE(link_->flush(seconds(1)));
}

TEST_F(AgentLinkTest, nonsense_from_the_agent_is_the_loss_of_the_agent) {
  agent_says("nonsense\n");
  EXPECT_EQ(stopped(), StopReason::kAgentLost);
}

TEST_F(AgentLinkTest, a_line_without_an_end_is_not_gathered_for_ever) {
  const std::string text(4096, ' ');
  const auto until = std::chrono::steady_clock::now() + seconds(10);
  while (!stop_.requested() && std::chrono::steady_clock::now() < until) {
    (void)::send(agent_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  EXPECT_EQ(stopped(), StopReason::kAgentLost);
}

TEST(AgentLink, without_an_agent_nothing_happens) {
  StopToken stop;
  auto link = AgentLink::open(-1, stop);
  ASSERT_TRUE(link.ok());
  EXPECT_FALSE((*link)->present());
  (*link)->up(false);
  (*link)->progress({.step = 1});
  EXPECT_TRUE((*link)->flush({}));
  EXPECT_FALSE(stop.requested());
}

TEST(AgentLink, a_descriptor_that_is_no_socket_is_refused) {
  StopToken stop;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd other(ends[1]);
  const auto link = AgentLink::open(ends[0], stop);
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.error().code, ErrorCode::kInvalid);
}

TEST(StopToken, the_gravest_reason_stays) {
  StopToken stop;
  EXPECT_FALSE(stop.requested());
  stop.request(StopReason::kSignal);
  stop.request(StopReason::kAgent);
  EXPECT_EQ(stop.reason(), StopReason::kAgent);
  stop.request(StopReason::kSignal);
  EXPECT_EQ(stop.reason(), StopReason::kAgent);
  stop.request(StopReason::kAgentLost);
  EXPECT_EQ(stop.reason(), StopReason::kAgentLost);
  stop.request(StopReason::kAgent);
  EXPECT_EQ(stop.reason(), StopReason::kAgentLost);
}

TEST(StopToken, the_first_sigterm_asks_and_the_second_ends_the_process) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    StopToken stop;
    const SigtermListener listener(stop);
    ::kill(::getpid(), SIGTERM);
    for (int i = 0; i < 10'000 && !stop.requested(); ++i) ::usleep(1000);  // polled, as training does
    if (stop.reason() != StopReason::kSignal) ::_exit(1);
    ::kill(::getpid(), SIGTERM);
    ::sleep(10);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

}  // namespace
}  // namespace lockstep::trainer::elastic
