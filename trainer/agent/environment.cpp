#include "trainer/agent/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "operator/rendezvous/coordinator.h"

namespace lockstep::trainer::agent {
namespace {

using rendezvous::Go;
using rendezvous::Kind;
using Variables = std::map<std::string, std::string>;

void add_ours(Variables& variables, const Go& go) {
  variables[rendezvous::kEnvJobName] = go.job;
  variables[rendezvous::kEnvJobUid] = go.job_uid;
  variables[rendezvous::kEnvGeneration] = std::to_string(go.id.generation);
  if (!go.program.checkpoint_path.empty()) {
    variables[rendezvous::kEnvCheckpointDir] = go.program.checkpoint_path;
    variables[rendezvous::kEnvCheckpointEvery] = std::to_string(go.program.checkpoint_every_seconds);
  }
  variables[rendezvous::kEnvRestore] = go.restore;
  variables.erase(rendezvous::kEnvStandby);
  if (go.id.generation == 0) variables[rendezvous::kEnvStandby] = "1";
  const rendezvous::StateSource& source = go.source;
  if (source.rank >= 0) {
    variables[rendezvous::kEnvStateSource] =
        fmt::format("{} {} {} {}", source.rank, source.version.generation, source.version.step, source.version.digest);
  }
}

std::string addresses_of(const Go& go) {
  return fmt::format("{}", fmt::join(go.peers->addresses(), ","));
}
std::string slots_of(const Go& go) {
  return fmt::format("{}", fmt::join(go.peers->slots(), ","));
}

void add_peers(Variables& variables, const Go& go, int peers_fd) {
  if (go.peers && peers_fd >= 0) {
    variables.erase(rendezvous::kEnvPeers);
    variables.erase(rendezvous::kEnvMemberOfRank);
    variables[rendezvous::kEnvPeersFile] = fmt::format("/proc/self/fd/{}", peers_fd);
  } else if (go.peers) {
    variables[rendezvous::kEnvPeers] = addresses_of(go);
    variables[rendezvous::kEnvMemberOfRank] = slots_of(go);
  }
  variables[rendezvous::kEnvGenerationKey] = go.key;
}

// The set that torchrun gives to its workers, and its own settings by environment (PET_*): a command that starts with
// torchrun finds them as well.
void add_torch(Variables& variables, const Go& go, int local_rank) {
  const std::string rank = std::to_string(go.first_rank + local_rank);
  const std::string world_size = std::to_string(go.world_size);
  const std::string group_rank = std::to_string(go.group_rank);
  const std::string groups = std::to_string(go.group_world_size);
  const std::string port = std::to_string(go.master_port);
  variables["RANK"] = variables["ROLE_RANK"] = rank;
  variables["WORLD_SIZE"] = variables["ROLE_WORLD_SIZE"] = world_size;
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(go.ranks);
  variables["GROUP_RANK"] = variables["NODE_RANK"] = group_rank;
  variables["GROUP_WORLD_SIZE"] = groups;
  variables["ROLE_NAME"] = "default";
  variables["MASTER_ADDR"] = go.master_addr;
  variables["MASTER_PORT"] = port;
  variables["TORCHELASTIC_RUN_ID"] = go.job_uid;
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(std::max<std::int64_t>(0, go.id.generation - 1));
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(go.program.max_restarts);
  variables["PET_NNODES"] = groups;
  variables["PET_NPROC_PER_NODE"] = std::to_string(go.ranks);
  variables["PET_NODE_RANK"] = group_rank;
  variables["PET_MASTER_ADDR"] = go.master_addr;
  variables["PET_MASTER_PORT"] = port;
  variables["PET_RDZV_BACKEND"] = "static";
  variables["PET_RDZV_ENDPOINT"] = go.master_addr.find(':') == std::string::npos
                                       ? fmt::format("{}:{}", go.master_addr, port)
                                       : fmt::format("[{}]:{}", go.master_addr, port);
  variables["PET_RDZV_ID"] = go.job_uid;
  variables["PET_MAX_RESTARTS"] = std::to_string(0);  // restarts are the operator's
}

// emplace() keeps what the user set, an empty value as well.
void add_nccl_defaults(Variables& variables, const std::string& interface) {
  // NCCL takes the first interface that is up, unless told; that may lead nowhere on a node with several. The second
  // "=" asks for this very name: without it "eth1" means eth10 as well.
  if (!interface.empty()) variables.emplace("NCCL_SOCKET_IFNAME", "=" + interface);
  // Ranks of one host exchange data through /dev/shm and CUDA IPC, which pods do not share. NCCL tells hosts apart by
  // hostname and boot id, which pods with hostNetwork on one node have in common.
  const auto pod = variables.find(rendezvous::kEnvPodUid);
  if (pod != variables.end() && !pod->second.empty()) variables.emplace("NCCL_HOSTID", pod->second);
  // A thread in each process that listens on a fixed port, without authentication, for questions that nobody asks here.
  variables.emplace("NCCL_RAS_ENABLE", "0");
}

// Gives each process its equal part of the pod's GPUs: the device plugin lists all of them in NVIDIA_VISIBLE_DEVICES,
// in the pod's environment. CUDA does not read that variable, so cuda:LOCAL_RANK keeps its meaning.
void divide_gpus(Variables& variables, const Go& go, int local_rank) {
  const auto listed = variables.find("NVIDIA_VISIBLE_DEVICES");
  const bool divided = variables.count("CUDA_VISIBLE_DEVICES") != 0 ||
                       std::any_of(go.program.env.begin(), go.program.env.end(),
                                   [](const auto& entry) { return entry.first == "NVIDIA_VISIBLE_DEVICES"; });
  if (listed == variables.end() || divided || local_rank < 0 || local_rank >= go.ranks) return;
  std::vector<std::string_view> gpus;
  const std::string_view text = listed->second;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) return;  // not a list of devices
    gpus.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::size_t processes = static_cast<std::size_t>(go.ranks);
  if (gpus.size() % processes != 0) return;
  const auto part = static_cast<std::ptrdiff_t>(gpus.size() / processes);
  const auto first = gpus.begin() + local_rank * part;
  listed->second = fmt::format("{}", fmt::join(first, first + part, ","));
}

}  // namespace

std::vector<std::string> worker_environment(const std::vector<std::string>& base, const Go& go, int local_rank,
                                            WorkerDescriptors descriptors, const std::string& interface) {
  Variables variables;
  for (const std::string& entry : base) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const char* own : {rendezvous::kEnvCoordinator, rendezvous::kEnvCoordinatorCa, rendezvous::kEnvTokenFile,
                          rendezvous::kEnvParentDeath, rendezvous::kEnvStopGrace}) {
    variables.erase(own);
  }
  for (const auto& [name, value] : go.program.env) variables[name] = value;
  divide_gpus(variables, go, local_rank);
  add_ours(variables, go);
  if (go.kind == Kind::kLockstep && go.id.generation > 0) add_peers(variables, go, descriptors.peers);
  if (go.kind != Kind::kNone) {
    add_torch(variables, go, local_rank);
    add_nccl_defaults(variables, interface);
  }
  if (descriptors.listen >= 0) variables[rendezvous::kEnvListenFd] = std::to_string(descriptors.listen);
  if (descriptors.agent >= 0) variables[rendezvous::kEnvAgentFd] = std::to_string(descriptors.agent);

  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

std::string peers_text(const Go& go) {
  if (go.kind != Kind::kLockstep || go.id.generation == 0 || !go.peers) return "";
  const std::string addresses = addresses_of(go);
  const std::string slots = slots_of(go);
  if (std::max(addresses.size(), slots.size()) <= rendezvous::kMostInVariable) return "";
  return addresses + "\n" + slots + "\n";
}

}  // namespace lockstep::trainer::agent
