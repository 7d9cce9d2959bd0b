#include "trainer/elastic/world.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "operator/base/address.h"
#include "operator/base/number.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/comm/shared_memory.h"
#include "trainer/elastic/torchrun_exchange.h"

namespace lockstep::trainer::elastic {
namespace {

using namespace rendezvous;  // the names of the variables

// The coordinator can tell a rank that hangs from a slow one, and a peer cannot. This deadline is for when there is no
// coordinator.
constexpr auto kWatchedStall = std::chrono::minutes(10);

Error bad(std::string text) {
  return fail(ErrorCode::kInvalid, std::move(text));
}

// Reads variables; errors name the invalid one.
class Variables {
 public:
  explicit Variables(const Environment& lookup) : lookup_(lookup) {}

  std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  // `otherwise` when it is not set.
  Result<std::int64_t> integer(const char* name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const {
    const std::string value = text(name);
    if (value.empty()) return otherwise;
    const auto number = parse_number(value, least, most);
    if (!number) return bad(fmt::format("{}={} is not a number from {} to {}", name, value, least, most));
    return *number;
  }

  Result<double> seconds(const char* name) const {
    const std::string value = text(name);
    if (value.empty()) return 0.0;
    const auto number = parse_number(value, 0.0, 1e9);
    if (!number) return bad(fmt::format("{}={} is not a number of seconds", name, value));
    return *number;
  }

  // -1 if it is not set. The descriptor must be open; sets its close-on-exec flag.
  Result<int> descriptor(const char* name) const {
    LOCKSTEP_TRY(const std::int64_t number, integer(name, -1, 0, 1 << 20));
    const int fd = static_cast<int>(number);
    if (fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      return bad(fmt::format("{}={} is not an open descriptor", name, fd));
    }
    return fd;
  }

 private:
  const Environment& lookup_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

constexpr std::int64_t kMostRanks = 1 << 20;

// The lists of peers and of their members, from two variables or from two lines of a file.
struct PeerLists {
  const char* name = kEnvPeers;  // the variable for error messages
  std::string peers, members;
};
Result<PeerLists> read_peer_lists(const Variables& variables) {
  const std::string path = variables.text(kEnvPeersFile);
  if (variables.has(kEnvPeers) || path.empty()) {
    return PeerLists{kEnvPeers, variables.text(kEnvPeers), variables.text(kEnvMemberOfRank)};
  }
  PeerLists lists{kEnvPeersFile, "", ""};
  std::ifstream file(path);
  if (!std::getline(file, lists.peers) || !std::getline(file, lists.members)) {
    return bad(fmt::format("{}={} does not hold two lines, of peers and of their members", kEnvPeersFile, path));
  }
  return lists;
}

Status read_ranks(const Variables& variables, World& world) {
  for (const char* needed : {"RANK", "WORLD_SIZE"}) {
    if (!variables.has(needed)) {
      const char* other = std::string_view(needed) == "RANK" ? "WORLD_SIZE" : "RANK";
      return bad(fmt::format("{} is not set, though {} is: both or neither", needed,
                             variables.has(other) ? other : kEnvPeers));
    }
  }
  LOCKSTEP_TRY(const auto size, variables.integer("WORLD_SIZE", 1, 1, kMostRanks));
  LOCKSTEP_TRY(const auto rank, variables.integer("RANK", 0, 0, kMostRanks));
  LOCKSTEP_TRY(const auto local_rank, variables.integer("LOCAL_RANK", 0, 0, kMostRanks));
  LOCKSTEP_TRY(const auto local_size, variables.integer("LOCAL_WORLD_SIZE", local_rank + 1, 1, kMostRanks));
  if (rank >= size) return bad(fmt::format("RANK={} is not below WORLD_SIZE={}", rank, size));
  if (local_rank >= local_size) {
    return bad(fmt::format("LOCAL_RANK={} is not below LOCAL_WORLD_SIZE={}", local_rank, local_size));
  }
  if (variables.has("LOCAL_WORLD_SIZE") && local_size > size) {
    return bad(fmt::format("LOCAL_WORLD_SIZE={} is above WORLD_SIZE={}", local_size, size));
  }
  world.rank = static_cast<int>(rank);
  world.size = static_cast<int>(size);
  world.local_rank = static_cast<int>(local_rank);
  world.local_size = static_cast<int>(local_size);
  return {};
}

Status read_key(const std::string& text, const char* name, World& world) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  bool good = text.size() == 2 * world.key.size();
  for (size_t i = 0; good && i < world.key.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    world.key[i] = static_cast<std::byte>(high * 16 + low);
  }
  // The value itself is a secret and does not appear in the message.
  if (!good) return bad(fmt::format("{} is not 64 hexadecimal digits", name));
  return {};
}

Status check_peers(const World& world, const char* name) {
  for (const std::string& peer : world.peers) {
    if (auto address = parse_address(peer); !address) return address.error().in(name);
  }
  return {};
}

// "rank generation step digest".
Status read_state_source(const Variables& variables, World& world) {
  const std::string text = variables.text(kEnvStateSource);
  if (text.empty()) return {};
  rendezvous::StateSource& source = world.state_source;
  std::istringstream words(text);
  std::string rest;
  words >> source.rank >> source.version.generation >> source.version.step >> source.version.digest;
  const bool whole = !words.fail() && !(words >> rest);
  if (!whole || source.rank < 0 || source.version.generation < 0 || source.version.step < 0) {
    return bad(fmt::format("{}='{}' is not a rank, a generation, a step and a digest", kEnvStateSource, text));
  }
  if (source.rank >= world.size || source.rank == world.rank) {
    return bad(fmt::format("{}='{}' does not name another rank of {}", kEnvStateSource, text, world.size));
  }
  source.send = true;  // this process holds nothing
  return {};
}

Status read_agents_world(const Variables& variables, World& world) {
  world.source = World::Source::kAgent;
  LOCKSTEP_CHECK_OK(read_ranks(variables, world));
  world.standby = variables.has(kEnvStandby);
  const char* given = world.standby ? kEnvStandby : variables.has(kEnvPeers) ? kEnvPeers : kEnvPeersFile;
  for (const char* needed : {kEnvJobUid, kEnvGeneration, kEnvGenerationKey, kEnvListenFd}) {
    if (world.standby && needed == kEnvGenerationKey) continue;
    if (!variables.has(needed)) return bad(fmt::format("{} is not set, though {} is", needed, given));
  }
  LOCKSTEP_TRY(world.listen_fd, variables.descriptor(kEnvListenFd));
  if (world.listen_fd == world.agent_fd) {
    return bad(fmt::format("{} and {} are the same descriptor", kEnvListenFd, kEnvAgentFd));
  }
  if (world.standby) {
    if (world.agent_fd < 0) return bad(fmt::format("{} is set, and {} is not", kEnvStandby, kEnvAgentFd));
    return {};
  }
  const auto size = static_cast<size_t>(world.size);
  LOCKSTEP_TRY(const PeerLists lists, read_peer_lists(variables));
  world.peers = split(lists.peers);
  if (world.peers.size() != size) {
    return bad(fmt::format("{} lists {} addresses for WORLD_SIZE={}", lists.name, world.peers.size(), world.size));
  }
  LOCKSTEP_CHECK_OK(check_peers(world, lists.name));
  if (!lists.members.empty()) {
    for (const std::string& part : split(lists.members)) {
      if (part.empty()) return bad(fmt::format("{} has an empty entry", kEnvMemberOfRank));
      LOCKSTEP_TRY(const auto member,
                   Variables([&](const char*) { return part.c_str(); }).integer(kEnvMemberOfRank, 0, 0, kMostRanks));
      world.members.push_back(static_cast<int>(member));
    }
    if (world.members.size() != size) {
      return bad(
          fmt::format("{} lists {} members for WORLD_SIZE={}", kEnvMemberOfRank, world.members.size(), world.size));
    }
  }
  LOCKSTEP_CHECK_OK(read_state_source(variables, world));
  return read_key(variables.text(kEnvGenerationKey), kEnvGenerationKey, world);
}

Status read_torchrun_world(const Variables& variables, World& world) {
  world.source = World::Source::kTorchrun;
  LOCKSTEP_CHECK_OK(read_ranks(variables, world));
  if (world.job_uid.empty()) world.job_uid = variables.text("TORCHELASTIC_RUN_ID");
  if (!variables.has(kEnvGeneration)) {
    LOCKSTEP_TRY(world.generation, variables.integer("TORCHELASTIC_RESTART_COUNT", 0, 0, INT32_MAX));
  }
  if (world.size == 1) return {};
  for (const char* needed : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (!variables.has(needed)) {
      return bad(
          fmt::format("{} is not set, though WORLD_SIZE={}: the ranks cannot find each other", needed, world.size));
    }
  }
  world.master_addr = variables.text("MASTER_ADDR");
  LOCKSTEP_TRY(const auto port, variables.integer("MASTER_PORT", 0, 1, 65534));
  // torchrun's own agent listens at MASTER_PORT then, and speaks another protocol.
  const std::string agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE");
  world.master_port = static_cast<int>(port) + (agent_store == "True" || agent_store == "1" ? 1 : 0);
  return {};
}

}  // namespace

Result<World> world_from_environment(const Environment& lookup) {
  const Variables variables(lookup);
  World world;
  world.job_name = variables.text(kEnvJobName);
  world.job_uid = variables.text(kEnvJobUid);
  world.checkpoint_dir = variables.text(kEnvCheckpointDir);
  world.restore = variables.text(kEnvRestore);
  LOCKSTEP_TRY(world.checkpoint_every_seconds, variables.seconds(kEnvCheckpointEvery));
  LOCKSTEP_TRY(world.generation, variables.integer(kEnvGeneration, 0, 0, INT64_MAX));
  LOCKSTEP_TRY(world.agent_fd, variables.descriptor(kEnvAgentFd));
  if (!world.restore.empty() && world.checkpoint_dir.empty()) {
    return bad(fmt::format("{}={} is set, and {} is not: the folder of the checkpoint is unknown", kEnvRestore,
                           world.restore, kEnvCheckpointDir));
  }
  if (variables.has(kEnvPeers) || variables.has(kEnvPeersFile) || variables.has(kEnvStandby)) {
    LOCKSTEP_CHECK_OK(read_agents_world(variables, world));
  } else if (variables.has("RANK") || variables.has("WORLD_SIZE")) {
    LOCKSTEP_CHECK_OK(read_torchrun_world(variables, world));
  }
  return world;
}

Result<World> world_from_environment() {
  return world_from_environment([](const char* name) -> const char* { return std::getenv(name); });
}

Result<World> joined(const World& world, const rendezvous::Join& join) {
  World next = world;
  next.rank = join.rank;
  next.size = join.world_size;
  next.generation = join.generation;
  next.standby = false;
  next.peers = join.peers;
  next.members = join.member_of_rank;
  next.state_source = join.source;
  next.restore = join.restore;
  const auto size = static_cast<size_t>(next.size);
  if (next.size < 1 || next.rank < 0 || next.rank >= next.size || next.peers.size() != size ||
      next.state_source.rank >= next.size || (!next.members.empty() && next.members.size() != size)) {
    return bad("the agent's join contradicts itself");
  }
  LOCKSTEP_CHECK_OK(check_peers(next, "the agent's join"));
  LOCKSTEP_CHECK_OK(read_key(join.key, "the key of the agent's join", next));
  return next;
}

Result<comm::RingOptions> ring_options(const World& world, Duration deadline) {
  comm::RingOptions options;
  if (world.standby) return options;  // there are no peers yet
  options.rank = world.rank;
  options.size = world.size;
  options.job_uid = world.job_uid;
  options.generation = world.generation;
  if (world.listen_fd >= 0) {
    options.listen_fd = ::fcntl(world.listen_fd, F_DUPFD_CLOEXEC, 0);
    if (options.listen_fd < 0) {
      const ErrorCode code = errno == EMFILE ? ErrorCode::kExhausted : ErrorCode::kInvalid;
      return fail(code,
                  fmt::format("the listening socket {} has no duplicate: {}", world.listen_fd, std::strerror(errno)));
    }
  }
  options.peers = world.peers;
  options.members = world.members;
  options.key = world.key;
  options.nccl = world.nccl;
  // A rank that waits for its storage submits nothing meanwhile.
  const Duration rest = world.storage_deadline + world.data_deadline + options.stall_deadline;
  if (world.source == World::Source::kAgent) options.stall_deadline = kWatchedStall;
  options.stall_deadline = std::max(options.stall_deadline, rest);
  if (world.source == World::Source::kTorchrun && world.size > 1) LOCKSTEP_CHECK_OK(exchange(world, deadline, options));
  if (world.shared_memory) {
    options.memory = comm::memory_id(options.shared_memory_dir);
  } else {
    options.members.clear();
  }
  return options;
}

}  // namespace lockstep::trainer::elastic
