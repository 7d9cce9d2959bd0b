// From variables to a world, from a world to a ring, and from failures to exit codes.
#include "trainer/elastic/world.h"
#include "operator/base/address.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "operator/base/unique_fd.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/comm/shared_memory.h"
#include "trainer/elastic/ending.h"

namespace lockstep::trainer::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<World> world_of(const Variables& variables) {
  return world_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

UniqueFd listen_on_loopback(int* port = nullptr) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&loopback)), sizeof loopback), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  if (port != nullptr) *port = port_of(local_address(fd.get()).value());
  return fd;
}

class AgentsWorld : public ::testing::Test {
 protected:
  AgentsWorld() {
    variables_ = {{"RANK", "1"},
                  {"WORLD_SIZE", "3"},
                  {"LOCAL_RANK", "1"},
                  {"LOCAL_WORLD_SIZE", "2"},
                  {"LOCKSTEP_JOB", "a"},
                  {"LOCKSTEP_JOB_UID", "uid"},
                  {"LOCKSTEP_GENERATION", "4"},
                  {"LOCKSTEP_PEERS", "10.0.0.1:5000,10.0.0.1:5001,[fd00::1]:5000"},
                  {"LOCKSTEP_MEMBERS", "0,0,1"},
                  {"LOCKSTEP_LISTEN_FD", std::to_string(listener_.get())},
                  {"LOCKSTEP_AGENT_FD", std::to_string(agent_.get())},
                  {"LOCKSTEP_GENERATION_KEY", std::string(62, '0') + "fF"},
                  {"LOCKSTEP_CHECKPOINT_DIR", "/ck"},
                  {"LOCKSTEP_CHECKPOINT_EVERY_SECONDS", "2.5"},
                  {"LOCKSTEP_RESTORE", "step-120.g3"}};
  }
  std::string refusal() {
    const auto world = world_of(variables_);
    if (world.ok()) return "accepted";
    EXPECT_EQ(world.error().code, ErrorCode::kInvalid);
    return world.error().message;
  }
  UniqueFd listener_ = listen_on_loopback();
  UniqueFd agent_ = listen_on_loopback();
  Variables variables_;
};

// More addresses than the kernel lets a variable hold.
TEST_F(AgentsWorld, peers_and_members_may_be_in_a_file) {
  constexpr int kRanks = 8192;
  const std::string path = testing::TempDir() + "lockstep-peers-" + std::to_string(::getpid());
  std::string peers, members;
  for (int rank = 0; rank < kRanks; ++rank) {
    peers += (rank > 0 ? "," : "") + std::string("10.100.") + std::to_string(rank / 256) + "." +
             std::to_string(rank % 256) + ":20000";
    members += (rank > 0 ? "," : "") + std::to_string(rank / 8);
  }
  std::ofstream(path) << peers << "\n" << members << "\n";
  variables_.erase("LOCKSTEP_PEERS");
  variables_.erase("LOCKSTEP_MEMBERS");
  variables_["LOCKSTEP_PEERS_FILE"] = path;
  variables_["WORLD_SIZE"] = std::to_string(kRanks);
  const auto world = world_of(variables_);
  ASSERT_TRUE(world.ok()) << world.error().message;
  EXPECT_EQ(world->peers.size(), static_cast<size_t>(kRanks));
  EXPECT_EQ(world->peers.back(), "10.100.31.255:20000");
  EXPECT_EQ(world->members.back(), 1023);
  std::ofstream(path) << peers << "\n";
  EXPECT_THAT(refusal(), HasSubstr("LOCKSTEP_PEERS_FILE=" + path + " does not hold two lines"));
  ::unlink(path.c_str());
}

TEST_F(AgentsWorld, is_read_whole_and_becomes_ring_options) {
  const auto world = world_of(variables_);
  ASSERT_TRUE(world.ok()) << world.error().message;
  EXPECT_EQ(world->source, World::Source::kAgent);
  EXPECT_EQ(world->rank, 1);
  EXPECT_EQ(world->size, 3);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 2);
  EXPECT_EQ(world->generation, 4);
  EXPECT_EQ(world->job_uid, "uid");
  EXPECT_EQ(world->agent_fd, agent_.get());
  EXPECT_EQ(world->checkpoint_dir, "/ck");
  EXPECT_EQ(world->checkpoint_every_seconds, 2.5);
  EXPECT_EQ(world->restore, "step-120.g3");
  const auto options = ring_options(*world);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->peers.size(), 3U);
  EXPECT_EQ(options->members, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(options->key[31], std::byte{0xff});
  const UniqueFd duplicate(options->listen_fd);
  EXPECT_NE(duplicate.get(), listener_.get()) << "the communicator closes its descriptor, and the next one needs it";
  int listens = 0;
  socklen_t length = sizeof listens;
  EXPECT_EQ(::getsockopt(duplicate.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length), 0);
  EXPECT_EQ(listens, 1);
  EXPECT_EQ(world->state_source, rendezvous::StateSource{});
}

TEST_F(AgentsWorld, ranks_share_memory_if_they_see_the_same_unless_tcp_is_asked_for) {
  auto world = world_of(variables_).value();
  const auto options = ring_options(world);
  ASSERT_TRUE(options.ok());
  const UniqueFd duplicate(options->listen_fd);
  EXPECT_EQ(options->memory, comm::memory_id("/dev/shm"));
  world.shared_memory = false;
  const auto apart = ring_options(world);
  ASSERT_TRUE(apart.ok());
  const UniqueFd another(apart->listen_fd);
  EXPECT_EQ(apart->memory, 0u);
  EXPECT_TRUE(apart->members.empty());
}

TEST_F(AgentsWorld, a_process_that_starts_into_a_generation_reads_its_state_source) {
  variables_["LOCKSTEP_STATE_SOURCE"] = "2 3 120 00ff00ff00ff00ff";
  const auto world = world_of(variables_);
  ASSERT_TRUE(world.ok()) << world.error().message;
  EXPECT_EQ(world->state_source, (rendezvous::StateSource{2, {3, 120, "00ff00ff00ff00ff"}, true}));
}

TEST_F(AgentsWorld, a_join_replaces_the_fields_of_the_generation_and_keeps_the_rest) {
  const auto world = world_of(variables_).value();
  rendezvous::Join join{.term = 1,
                        .generation = 5,
                        .rank = 0,
                        .world_size = 2,
                        .peers = {"10.0.0.1:5001", "10.0.0.9:5000"},
                        .member_of_rank = {0, 3},
                        .key = std::string(64, 'a'),
                        .source = {1, {4, 77, "0123456789abcdef"}, true}};
  const auto next = joined(world, join);
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(next->rank, 0);
  EXPECT_EQ(next->size, 2);
  EXPECT_EQ(next->generation, 5);
  EXPECT_EQ(next->peers, join.peers);
  EXPECT_EQ(next->members, join.member_of_rank);
  EXPECT_EQ(next->key[0], std::byte{0xaa});
  EXPECT_EQ(next->state_source, join.source);
  EXPECT_EQ(next->restore, "");
  EXPECT_EQ(next->listen_fd, listener_.get());
  EXPECT_EQ(next->job_uid, "uid");
}

TEST_F(AgentsWorld, a_join_that_contradicts_itself_is_refused) {
  const auto world = world_of(variables_).value();
  const rendezvous::Join good{.generation = 5,
                              .rank = 1,
                              .world_size = 2,
                              .peers = {"10.0.0.1:5001", "10.0.0.9:5000"},
                              .key = std::string(64, 'a')};
  EXPECT_TRUE(joined(world, good).ok());
  for (const auto& spoil : std::vector<void (*)(rendezvous::Join&)>{
           [](rendezvous::Join& join) { join.rank = 2; }, [](rendezvous::Join& join) { join.peers.pop_back(); },
           [](rendezvous::Join& join) { join.peers[0] = "nowhere"; }, [](rendezvous::Join& join) { join.key = "a"; },
           [](rendezvous::Join& join) { join.source.rank = 2; },
           [](rendezvous::Join& join) { join.member_of_rank = {1}; }}) {
    rendezvous::Join join = good;
    spoil(join);
    const auto next = joined(world, join);
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.error().code, ErrorCode::kInvalid);
  }
}

TEST_F(AgentsWorld, every_variable_that_is_missing_or_wrong_is_named) {
  struct Case {
    const char* name;
    std::optional<std::string> value;
    const char* says;
  };
  const std::vector<Case> cases{
      {"RANK", std::nullopt, "RANK is not set, though WORLD_SIZE is"},
      {"WORLD_SIZE", std::nullopt, "WORLD_SIZE is not set"},
      {"RANK", "3", "RANK=3 is not below WORLD_SIZE=3"},
      {"LOCKSTEP_STATE_SOURCE", "2 3 120", "LOCKSTEP_STATE_SOURCE='2 3 120' is not a rank, a generation, a step and"},
      {"LOCKSTEP_STATE_SOURCE", "2 3 120 d more", "is not a rank, a generation, a step and a digest"},
      {"LOCKSTEP_STATE_SOURCE", "x 3 120 d", "is not a rank, a generation, a step and a digest"},
      {"LOCKSTEP_STATE_SOURCE", "1 3 120 d", "does not name another rank of 3"},
      {"LOCKSTEP_STATE_SOURCE", "3 3 120 d", "does not name another rank of 3"},
      {"RANK", "-1", "RANK=-1 is not a number"},
      {"WORLD_SIZE", "three", "WORLD_SIZE=three is not a number"},
      {"WORLD_SIZE", "4", "LOCKSTEP_PEERS lists 3 addresses for WORLD_SIZE=4"},
      {"LOCAL_RANK", "2", "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"},
      {"LOCAL_WORLD_SIZE", "4", "LOCAL_WORLD_SIZE=4 is above WORLD_SIZE=3"},
      {"LOCKSTEP_JOB_UID", "", "LOCKSTEP_JOB_UID is not set"},
      {"LOCKSTEP_GENERATION", "x", "LOCKSTEP_GENERATION=x is not a number"},
      {"LOCKSTEP_PEERS", "10.0.0.1:5000,host:1,10.0.0.1:2", "'host:1' is not a numeric address"},
      {"LOCKSTEP_PEERS", "10.0.0.1:5000,10.0.0.1:70000,10.0.0.1:2", "is not a numeric address"},
      {"LOCKSTEP_MEMBERS", "0,0", "LOCKSTEP_MEMBERS lists 2 members for WORLD_SIZE=3"},
      {"LOCKSTEP_MEMBERS", "0,,1", "LOCKSTEP_MEMBERS has an empty entry"},
      {"LOCKSTEP_MEMBERS", "0,x,1", "LOCKSTEP_MEMBERS=x is not a number"},
      {"LOCKSTEP_LISTEN_FD", "987", "LOCKSTEP_LISTEN_FD=987 is not an open descriptor"},
      {"LOCKSTEP_AGENT_FD", "987", "LOCKSTEP_AGENT_FD=987 is not an open descriptor"},
      {"LOCKSTEP_GENERATION_KEY", "abc", "LOCKSTEP_GENERATION_KEY is not 64 hexadecimal digits"},
      {"LOCKSTEP_GENERATION_KEY", std::string(64, 'g'), "LOCKSTEP_GENERATION_KEY is not 64 hexadecimal digits"},
      {"LOCKSTEP_CHECKPOINT_EVERY_SECONDS", "-1", "is not a number of seconds"},
      {"LOCKSTEP_CHECKPOINT_DIR", "", "LOCKSTEP_RESTORE=step-120.g3 is set, and LOCKSTEP_CHECKPOINT_DIR is not"},
  };
  const Variables good = variables_;
  for (const Case& one : cases) {
    variables_ = good;
    if (one.value) {
      variables_[one.name] = *one.value;
    } else {
      variables_.erase(one.name);
    }
    EXPECT_THAT(refusal(), HasSubstr(one.says)) << one.name << "=" << one.value.value_or("(unset)");
  }
}

TEST(World, nothing_set_is_a_world_of_one_and_empty_counts_as_not_set) {
  for (const Variables& variables : {Variables{}, Variables{{"RANK", ""}, {"LOCKSTEP_PEERS", ""}}}) {
    const auto world = world_of(variables);
    ASSERT_TRUE(world.ok());
    EXPECT_EQ(world->source, World::Source::kAlone);
    EXPECT_EQ(world->size, 1);
    EXPECT_EQ(ring_options(*world)->size, 1);
  }
}

TEST(World, torchruns_variables_are_enough) {
  Variables variables{{"RANK", "0"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "localhost"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_RUN_ID", "run"},
                      {"TORCHELASTIC_RESTART_COUNT", "2"}};
  auto world = world_of(variables);
  ASSERT_TRUE(world.ok()) << world.error().message;
  EXPECT_EQ(world->source, World::Source::kTorchrun);
  EXPECT_EQ(world->generation, 2);
  EXPECT_EQ(world->job_uid, "run");
  EXPECT_EQ(world->master_port, 29500);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(world_of(variables)->master_port, 29501);
  variables.erase("MASTER_ADDR");
  EXPECT_THAT(world_of(variables).error().message, HasSubstr("MASTER_ADDR is not set, though WORLD_SIZE=2"));
}

// A world of plain torchrun variables with this master port.
World torchrun_world(int rank, int size, int port) {
  World world;
  world.source = World::Source::kTorchrun;
  world.rank = rank;
  world.size = size;
  world.job_uid = "run";
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  return world;
}

int free_port() {
  int port = 0;
  listen_on_loopback(&port);
  return port;
}

TEST(TorchrunExchange, ranks_find_each_other_in_any_order_past_strangers_and_can_all_reduce) {
  const int n = 3;
  const int port = free_port();
  std::vector<std::future<float>> sums;
  std::atomic<bool> strangers_done{false};
  for (const int rank : {2, 0, 1}) {
    sums.push_back(std::async(std::launch::async, [=, &strangers_done]() -> float {
      while (rank == 1 && !strangers_done) std::this_thread::yield();
      auto options = ring_options(torchrun_world(rank, n, port), seconds(20));
      if (!options) {
        ADD_FAILURE() << options.error().message;
        return 0;
      }
      EXPECT_EQ(options->members, (std::vector<int>{0, 0, 0})) << "all on this machine";
      auto ring = comm::make_communicator(*options);
      if (!ring) {
        ADD_FAILURE() << ring.error().message;
        return 0;
      }
      auto value = static_cast<float>(rank + 1);
      auto ticket = (*ring)->submit(comm::AllReduce{&value, 1});
      EXPECT_TRUE(ticket.ok() && (*ring)->wait(*ticket).ok());
      return value;
    }));
  }
  // Another program connects to the port too, sends nonsense or nothing, and stays.
  const auto address = parse_address("127.0.0.1:" + std::to_string(port)).value();
  std::vector<UniqueFd> strangers;
  const auto give_up = std::chrono::steady_clock::now() + seconds(10);
  while (strangers.size() < 3 && std::chrono::steady_clock::now() < give_up) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), address.get(), address.length) != 0) {
      std::this_thread::sleep_for(milliseconds(5));  // rank 0 does not listen yet; no event tells when it does
      continue;
    }
    const std::string_view says = strangers.empty() ? "GET / HTTP/1.1\r\n\r\n" : "";
    EXPECT_EQ(::send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
    strangers.push_back(std::move(fd));
  }
  strangers_done = true;
  for (auto& sum : sums) EXPECT_EQ(sum.get(), 6.0F);
}

TEST(TorchrunExchange, an_exchange_that_fails_names_the_cause) {
  const int port = free_port();
  const auto missing = ring_options(torchrun_world(0, 3, port), milliseconds(200));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(missing.error().message, HasSubstr("these ranks did not connect: 1 2"));
  const auto nobody = ring_options(torchrun_world(1, 3, port), milliseconds(250));
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(nobody.error().message,
              HasSubstr("rank 1 could not connect to rank 0 at 127.0.0.1:" + std::to_string(port)));
  int taken = 0;
  const UniqueFd holder = listen_on_loopback(&taken);
  const auto blocked = ring_options(torchrun_world(0, 2, taken), milliseconds(200));
  ASSERT_FALSE(blocked.ok());
  EXPECT_THAT(blocked.error().message, HasSubstr("choose another MASTER_PORT"));
}

TEST(TorchrunExchange, two_sizes_or_two_claims_of_a_rank_are_refused_on_both_sides) {
  const int port = free_port();
  auto host = std::async(std::launch::async, [&] { return ring_options(torchrun_world(0, 3, port), seconds(20)); });
  const auto guest = ring_options(torchrun_world(1, 2, port), seconds(20));
  ASSERT_FALSE(guest.ok());
  EXPECT_THAT(guest.error().message, HasSubstr("rank 1 was started with WORLD_SIZE=2 and rank 0 with 3"));
  const auto hosted = host.get();
  ASSERT_FALSE(hosted.ok());
  EXPECT_EQ(hosted.error().code, ErrorCode::kInvalid);
}

TEST(RingOptions, peers_wait_as_long_as_a_rank_may_wait_for_its_storage) {
  World world;
  for (const auto source : {World::Source::kTorchrun, World::Source::kAgent}) {
    world.source = source;
    const seconds without = source == World::Source::kAgent ? seconds(600) : seconds(30);
    world.storage_deadline = {};
    EXPECT_EQ(ring_options(world)->stall_deadline, without) << "no checkpoints";
    for (const seconds deadline : {seconds(120), seconds(5000)}) {
      world.storage_deadline = deadline;
      world.data_deadline = {};
      EXPECT_EQ(ring_options(world)->stall_deadline, std::max(without, deadline + seconds(30)));
      world.data_deadline = seconds(150);
      EXPECT_EQ(ring_options(world)->stall_deadline, std::max(without, deadline + seconds(150 + 30)));
    }
    world.storage_deadline = {};
    EXPECT_EQ(ring_options(world)->stall_deadline, std::max(without, seconds(150 + 30))) << "samples alone";
    world.data_deadline = {};
  }
}

TEST(Ending, every_origin_has_its_exit_code_and_class) {
  using rendezvous::FailureReport;
  const auto ending = [](ErrorCode code, Origin origin) { return ending_of(fail(origin, code, "why"), 3); };
  EXPECT_EQ(ending(ErrorCode::kInvalid, Origin::kUsage).exit_code, 64);
  EXPECT_EQ(ending(ErrorCode::kNotFound, Origin::kData).exit_code, 65);
  EXPECT_EQ(ending(ErrorCode::kCorrupt, Origin::kRestore).exit_code, 66);
  EXPECT_EQ(ending(ErrorCode::kExhausted, Origin::kRestore).exit_code, 75) << "of this machine, not of the checkpoint";
  EXPECT_EQ(ending(ErrorCode::kExhausted, Origin::kSave).exit_code, 74);
  EXPECT_EQ(ending(ErrorCode::kInvalid, Origin::kConfig).exit_code, 78);
  EXPECT_EQ(ending(ErrorCode::kInvalid, Origin::kNumerics).exit_code, 84);
  EXPECT_EQ(ending(ErrorCode::kInternal, Origin::kInternal).exit_code, 1);
  for (const Origin storage : {Origin::kRestore, Origin::kSave}) {
    EXPECT_EQ(ending(ErrorCode::kDeadlineExceeded, storage).exit_code, 82) << "slow storage: try again";
  }
  for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kDeadlineExceeded}) {
    EXPECT_EQ(ending(code, Origin::kData).exit_code, 82) << "storage that does not answer: try again";
  }
  EXPECT_EQ(ending(ErrorCode::kCorrupt, Origin::kData).exit_code, 65);
  EXPECT_EQ(ending(ErrorCode::kExhausted, Origin::kData).exit_code, 75) << "of this machine, not of the data";
  for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kDeadlineExceeded, ErrorCode::kCancelled}) {
    const Ending peers = ending(code, Origin::kCommunication);
    EXPECT_EQ(peers.exit_code, 80);
    EXPECT_EQ(peers.report, (FailureReport{FailureReport::Class::kCommunication, 3, "why"}));
  }
  const Ending own = ending(ErrorCode::kConflict, Origin::kCommunication);
  EXPECT_EQ(own.exit_code, 78);
  EXPECT_EQ(own.report, (FailureReport{FailureReport::Class::kOwn, -1, "why"}));
}

}  // namespace
}  // namespace lockstep::trainer::elastic
