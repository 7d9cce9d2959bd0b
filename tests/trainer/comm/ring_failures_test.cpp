// The ends of a ring, and the errors of its ranks: deaths, aborts, leaving, different operations, stalls, strangers.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>

#include "operator/base/unique_fd.h"
#include "tests/trainer/comm/ring_parts.h"
#include "tests/trainer/comm/test_ring.h"
#include "trainer/comm/shared_memory.h"

extern char** environ;

namespace lockstep::trainer::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A rank process and its output.
class RankProcess {
 public:
  RankProcess(Parts& parts, int rank, Carrier carrier, int floats) {
    int out[2];
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    const int listen_fd = parts.listeners[static_cast<size_t>(rank)].get();
    std::string peers;
    for (const std::string& peer : parts.peers) peers += (peers.empty() ? "" : ",") + peer;
    std::vector<std::string> arguments{COMM_RANK_PROCESS,
                                       std::to_string(rank),
                                       std::to_string(parts.peers.size()),
                                       peers,
                                       "9",
                                       carrier == Carrier::kNccl ? FAKE_NCCL_LIBRARY : name_of(carrier),
                                       std::to_string(floats)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const int high = ::fcntl(listen_fd, F_DUPFD_CLOEXEC, 200);  // out of the way of descriptor 9
    posix_spawn_file_actions_adddup2(&actions, high, 9);
    EXPECT_EQ(::posix_spawn(&pid_, COMM_RANK_PROCESS, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(high);
    ::close(out[1]);
    out_.reset(out[0]);
  }
  ~RankProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  std::string line() {  // the next line of output; empty at its end
    std::string text;
    char c = 0;
    while (::read(out_.get(), &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  void kill(int signal) const { ::kill(pid_, signal); }
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  UniqueFd out_;
};

std::string carrier_name(const ::testing::TestParamInfo<Carrier>& info) {
  return name_of(info.param);
}

class Kills : public ::testing::TestWithParam<Carrier> {};

TEST_P(Kills, a_rank_killed_in_a_collective_fails_all_others_at_once_and_is_named) {
  const int n = 4;
  const int victim = 2;
  Parts parts(n);
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < n; ++rank) ranks.push_back(std::make_unique<RankProcess>(parts, rank, GetParam(), 300'000));
  parts.listeners.clear();
  for (auto& rank : ranks) ASSERT_EQ(rank->line(), "up");
  const auto start = std::chrono::steady_clock::now();
  ranks[victim]->kill(SIGKILL);
  int suspecting = 0;
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    const std::string said = ranks[static_cast<size_t>(rank)]->line();
    EXPECT_EQ(ranks[static_cast<size_t>(rank)]->exit_code(), 3);
    EXPECT_NE(said.find("lost rank 2"), std::string::npos) << "rank " << rank << ": " << said;
    // One neighbour may receive the abort of the other before its own link ends.
    const std::string suspect = said.substr(0, said.find(' '));
    EXPECT_TRUE(suspect == "-1" || (suspect == "2" && rank != 0)) << "rank " << rank << ": " << said;
    suspecting += suspect == "2" ? 1 : 0;
  }
  EXPECT_GE(suspecting, 1);
  EXPECT_LT(seconds_since(start), 15.0) << "not the stall deadline";
}

INSTANTIATE_TEST_SUITE_P(carriers, Kills, ::testing::ValuesIn(kCarriers), carrier_name);

class RingFailures : public ::testing::TestWithParam<Carrier> {};

TEST_P(RingFailures, an_abort_ends_every_rank_and_suspects_none) {
  auto ranks = make_ring(4, GetParam());
  std::vector<std::vector<float>> data(4, std::vector<float>(1'000'000, 1.0F));
  std::vector<Ticket> tickets(4);
  for (size_t rank = 0; rank < 3; ++rank) {
    tickets[rank] = ranks[rank]->submit(AllReduce{data[rank].data(), data[rank].size()}).value();
  }
  EXPECT_TRUE(ranks[3]->abort(seconds(5)));  // has not even submitted
  for (size_t rank = 0; rank < 3; ++rank) {
    const Status status = ranks[rank]->wait(tickets[rank]);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(status.error().message.find("rank 3 aborted"), std::string::npos) << status.error().message;
    EXPECT_EQ(ranks[rank]->suspect(), -1);
    EXPECT_FALSE(ranks[rank]->submit(AllReduce{data[rank].data(), 1}).ok()) << "dead for good";
    EXPECT_TRUE(ranks[rank]->abort(seconds(1)));
  }
  EXPECT_EQ(ranks[3]->suspect(), -1);
  EXPECT_EQ(ranks[3]->submit(AllReduce{data[3].data(), 1}).error().code, ErrorCode::kCancelled);
}

TEST_P(RingFailures, a_rank_may_leave_after_its_last_operation_until_a_peer_needs_it) {
  auto ranks = make_ring(3, GetParam());
  on_every_rank(3, [&](size_t rank) {
    std::vector<float> data(100'000, 1.0F);
    EXPECT_TRUE(run(*ranks[rank], AllReduce{data.data(), data.size()}).ok());
    EXPECT_EQ(data.back(), 3.0F);
    if (rank == 1) ranks[1].reset();
  });
  // Together: rank 0 may have sent its part before it learns that rank 1 has left, and then rank 2 reports that.
  on_every_rank(3, [&](size_t rank) {
    if (rank == 1) return;
    float value = 1.0F;
    const Status status = run(*ranks[rank], AllReduce{&value, 1});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(status.error().message.find("rank 1 has left"), std::string::npos) << status.error().message;
    EXPECT_EQ(ranks[rank]->suspect(), -1);
  });
}

TEST_P(RingFailures, a_rank_that_leaves_while_another_one_waits_for_it_ends_the_wait) {
  auto ranks = make_ring(2, GetParam());
  std::vector<float> data(100'000, 1.0F);
  const Ticket ticket = ranks[0]->submit(AllReduce{data.data(), data.size()}).value();
  ASSERT_TRUE(comes_true([&] { return ranks[0]->activity().waits_for_bytes_of == 1; }));
  const auto start = std::chrono::steady_clock::now();
  ranks[1].reset();
  const Status status = ranks[0]->wait(ticket);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(status.error().message.find("rank 1 has left"), std::string::npos) << status.error().message;
  EXPECT_EQ(ranks[0]->suspect(), -1);
  EXPECT_LT(seconds_since(start), 15.0) << "not the stall deadline";
}

TEST_P(RingFailures, different_operations_fail_at_once_and_name_both_ranks_and_what_differs) {
  struct Case {
    std::string name;
    std::function<Result<Ticket>(Communicator&, std::vector<float>&)> odd;
    std::string says;
  };
  const std::vector<Case> cases{
      {"count",
       [](auto& c, auto& d) {
         return c.submit(AllReduce{d.data(), 11});
       },
       "sum of 11 float32"},
      {"type",
       [](auto& c, auto& d) {
         return c.submit(AllReduce{d.data(), 10, DataType::kInt64});
       },
       "sum of 10 int64"},
      {"reduction",
       [](auto& c, auto& d) {
         return c.submit(AllReduce{d.data(), 10, DataType::kFloat32, Reduction::kMax});
       },
       "max of 10 float32"},
      {"kind",
       [](auto& c, auto& d) {
         return c.submit(Broadcast{d.data(), 40, 0});
       },
       "broadcast 1 (40 bytes from rank 0)"},
  };
  for (const Case& one : cases) {
    auto ranks = make_ring(3, GetParam());
    const auto start = std::chrono::steady_clock::now();
    on_every_rank(3, [&](size_t rank) {
      std::vector<float> data(1000, 1.0F);
      auto ticket = rank == 1 ? one.odd(*ranks[rank], data) : ranks[rank]->submit(AllReduce{data.data(), 10});
      // A rank that comes late finds the ring ended already.
      const Status status = ticket ? ranks[rank]->wait(*ticket) : Status(ticket.error());
      ASSERT_FALSE(status.ok()) << one.name;
      EXPECT_EQ(status.error().code, ErrorCode::kConflict) << status.error().message;
      const std::string& text = status.error().message;
      EXPECT_NE(text.find(one.says), std::string::npos) << text;
      EXPECT_NE(text.find("sum of 10 float32"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 1 submitted"), std::string::npos) << text;
    });
    EXPECT_LT(seconds_since(start), 15.0) << one.name << ": not the stall deadline";
  }
}

TEST_P(RingFailures, a_rank_that_does_nothing_is_a_stall_within_the_deadline) {
  RingOptions base;
  base.stall_deadline = milliseconds(300);
  auto ranks = make_ring(3, GetParam(), base);
  const auto start = std::chrono::steady_clock::now();
  on_every_rank(2, [&](size_t rank) {  // rank 2 never submits
    std::vector<float> data(100'000, 1.0F);
    const Status status = run(*ranks[rank], AllReduce{data.data(), data.size()});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("no byte moved for 0.3 s"), std::string::npos) << status.error().message;
    EXPECT_EQ(ranks[rank]->suspect(), -1);
  });
  EXPECT_LT(seconds_since(start), 15.0);
}

TEST_P(RingFailures, destroying_a_ring_in_the_middle_of_an_operation_is_an_abort) {
  auto ranks = make_ring(2, GetParam());
  // Too long for one round of blocks: rank 1 needs what rank 0 has to reduce first.
  std::vector<float> data(100'000, 1.0F);
  std::vector<float> other(100'000, 1.0F);
  ASSERT_TRUE(ranks[0]->submit(AllReduce{data.data(), data.size()}).ok());
  ranks[0].reset();
  const Status status = run(*ranks[1], AllReduce{other.data(), other.size()});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(ranks[1]->suspect(), -1);
}

INSTANTIATE_TEST_SUITE_P(carriers, RingFailures, ::testing::ValuesIn(kCarriers), carrier_name);

TEST(RingLinks, strangers_that_send_garbage_or_nothing_do_not_stop_the_ring) {
  Parts parts(2);
  std::vector<UniqueFd> strangers;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    UniqueFd stranger = parts.connect_to(i % 2);
    std::string bytes(i % 3 == 0 ? 0 : random() % 500, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(::send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    strangers.push_back(std::move(stranger));
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<RingOptions> options{parts.options(0), parts.options(1)};
  for (RingOptions& one : options) one.handshake_deadline = seconds(60);
  auto ranks = create_all(options);
  EXPECT_LT(seconds_since(start), 15.0) << "less than the time that a stranger may take";
  ASSERT_TRUE(ranks[0].ok()) << ranks[0].error().message;
  ASSERT_TRUE(ranks[1].ok()) << ranks[1].error().message;
  on_every_rank(2, [&](size_t rank) {
    float value = 1.0F;
    EXPECT_TRUE(run(**ranks[rank], AllReduce{&value, 1}).ok());
  });
}

TEST(RingLinks, another_key_generation_job_or_size_is_never_linked) {
  const std::vector<std::pair<const char*, std::function<void(RingOptions&)>>> changes{
      {"key", [](RingOptions& o) { o.key[3] = std::byte{9}; }},
      {"generation", [](RingOptions& o) { o.generation = 2; }},
      {"job", [](RingOptions& o) { o.job_uid = "other"; }},
  };
  for (const auto& [what, change] : changes) {
    Parts parts(2);
    RingOptions zero = parts.options(0);
    RingOptions one = parts.options(1);
    zero.init_deadline = one.init_deadline = milliseconds(250);
    change(one);
    int suspect = -1;
    auto other = std::async(std::launch::async, [&one] { return make_communicator(one); });
    const auto mine = make_communicator(zero, &suspect);
    EXPECT_FALSE(other.get().ok()) << what;
    ASSERT_FALSE(mine.ok()) << what;
    EXPECT_EQ(mine.error().code, ErrorCode::kDeadlineExceeded) << mine.error().message;
    EXPECT_NE(mine.error().message.find("could not link with rank 1"), std::string::npos) << mine.error().message;
    EXPECT_EQ(suspect, 1);
  }
}

Transport to_next(const Result<std::unique_ptr<Communicator>>& rank) {
  return dynamic_cast<const RingCommunicator&>(**rank).transport_to_next();
}

TEST(RingLinks, ranks_that_share_memory_use_it_and_others_use_tcp) {
  Parts parts(4);
  std::vector<RingOptions> options;
  for (const int rank : {0, 1, 2, 3}) options.push_back(parts.options(rank));
  options[0].memory = options[1].memory = memory_id("/dev/shm");
  options[3].memory = 77;  // another machine; rank 2 cannot tell
  const auto ranks = create_all(options);
  for (const auto& rank : ranks) ASSERT_TRUE(rank) << rank.error().message;
  EXPECT_EQ(to_next(ranks[0]), Transport::kSharedMemory);
  for (const size_t rank : {1, 2, 3}) EXPECT_EQ(to_next(ranks[rank]), Transport::kTcp) << rank;
}

TEST(RingLinks, a_memory_that_is_another_in_spite_of_its_name_is_not_used) {
  Parts parts(2);
  std::vector<RingOptions> options{parts.options(0), parts.options(1)};
  for (RingOptions& one : options) one.memory = 5;
  std::string other = ::testing::TempDir() + "lockstep-other-XXXXXX";
  options[1].shared_memory_dir = ::mkdtemp(other.data());
  const auto ranks = create_all(options);
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank) << rank.error().message;
    EXPECT_EQ(to_next(rank), Transport::kTcp);
  }
  EXPECT_EQ(::rmdir(other.c_str()), 0) << "a segment that the peer refused is unlinked";
}

TEST(RingLinks, a_missing_rank_is_named_when_the_deadline_has_passed) {
  Parts parts(3);
  std::vector<RingOptions> options{parts.options(0), parts.options(1)};
  for (RingOptions& one : options) one.init_deadline = milliseconds(800);  // ample for those two to link
  const auto ranks = create_all(options);
  ASSERT_FALSE(ranks[0].ok());
  ASSERT_FALSE(ranks[1].ok());
  EXPECT_NE(ranks[0].error().message.find("was not linked by rank 2"), std::string::npos) << ranks[0].error().message;
  EXPECT_NE(ranks[1].error().message.find("could not link with rank 2"), std::string::npos) << ranks[1].error().message;
}

TEST(RingLinks, a_rank_may_come_late) {
  Parts parts(2);
  RingOptions zero = parts.options(0);
  RingOptions one = parts.options(1);
  auto first = std::async(std::launch::async, [&zero] { return make_communicator(zero); });
  EXPECT_EQ(first.wait_for(milliseconds(300)), std::future_status::timeout) << "it waits for the other";
  const auto second = make_communicator(one);
  EXPECT_TRUE(second.ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(RingLinks, options_that_contradict_each_other_are_refused) {
  const std::vector<std::function<void(RingOptions&)>> changes{
      [](RingOptions& o) { o.rank = 2; },
      [](RingOptions& o) { o.rank = -1; },
      [](RingOptions& o) { o.peers.pop_back(); },
      [](RingOptions& o) { o.members = {1}; },
      [](RingOptions& o) { o.peers[1] = "nowhere"; },
      [](RingOptions& o) { o.listen_fd = -1; },
  };
  for (const auto& change : changes) {
    Parts parts(2);
    RingOptions options = parts.options(0);
    UniqueFd kept(::dup(options.listen_fd));
    const int given = options.listen_fd;
    change(options);
    const auto ring = make_communicator(options);
    if (options.listen_fd < 0) ::close(given);
    ASSERT_FALSE(ring.ok());
    EXPECT_EQ(ring.error().code, ErrorCode::kInvalid) << ring.error().message;
  }
}

}  // namespace
}  // namespace lockstep::trainer::comm
