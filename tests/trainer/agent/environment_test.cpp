#include "trainer/agent/environment.h"

#include <gmock/gmock.h>

namespace lockstep::trainer::agent {
namespace {

using rendezvous::Go;
using rendezvous::Kind;
using testing::Contains;
using testing::Each;
using testing::Not;
using testing::StartsWith;

Go two_by_two(Kind kind) {
  Go go;
  go.id = {1, 3};
  go.job = "a";
  go.job_uid = "uid";
  go.kind = kind;
  go.first_rank = 2;
  go.ranks = 2;
  go.world_size = 4;
  go.group_rank = 1;
  go.group_world_size = 2;
  go.peers = rendezvous::Peers({{0, 1, {"10.0.0.1:1", "10.0.0.1:2"}}, {1, 1, {"10.0.0.2:1", "10.0.0.2:2"}}});
  go.master_addr = "10.0.0.1";
  go.master_port = 20'001;
  go.key = "abc";
  go.restore = "step-5.g2";
  go.program.checkpoint_path = "/ckpt";
  go.program.checkpoint_every_seconds = 60;
  go.program.max_restarts = 10;
  return go;
}

TEST(Environment, a_worker_gets_what_torchrun_would_set) {
  const auto environment = worker_environment({}, two_by_two(Kind::kTorch), 1, {-1, 7});
  for (const char* entry : {"RANK=3",
                            "WORLD_SIZE=4",
                            "LOCAL_RANK=1",
                            "LOCAL_WORLD_SIZE=2",
                            "GROUP_RANK=1",
                            "GROUP_WORLD_SIZE=2",
                            "NODE_RANK=1",
                            "ROLE_RANK=3",
                            "ROLE_WORLD_SIZE=4",
                            "ROLE_NAME=default",
                            "MASTER_ADDR=10.0.0.1",
                            "MASTER_PORT=20001",
                            "TORCHELASTIC_RUN_ID=uid",
                            "TORCHELASTIC_RESTART_COUNT=2",
                            "TORCHELASTIC_MAX_RESTARTS=10",
                            "PET_NNODES=2",
                            "PET_NPROC_PER_NODE=2",
                            "PET_NODE_RANK=1",
                            "PET_MASTER_ADDR=10.0.0.1",
                            "PET_MASTER_PORT=20001",
                            "PET_RDZV_BACKEND=static",
                            "PET_RDZV_ENDPOINT=10.0.0.1:20001",
                            "PET_RDZV_ID=uid",
                            "LOCKSTEP_AGENT_FD=7",
                            "LOCKSTEP_GENERATION=3"}) {
    EXPECT_THAT(environment, Contains(entry));
  }
}

TEST(Environment, our_trainer_gets_its_peers_and_where_to_go_on) {
  const auto environment = worker_environment({}, two_by_two(Kind::kLockstep), 0, {5, 7});
  for (const char* entry : {"LOCKSTEP_PEERS=10.0.0.1:1,10.0.0.1:2,10.0.0.2:1,10.0.0.2:2", "LOCKSTEP_MEMBERS=0,0,1,1",
                            "LOCKSTEP_LISTEN_FD=5", "LOCKSTEP_GENERATION_KEY=abc", "LOCKSTEP_CHECKPOINT_DIR=/ckpt",
                            "LOCKSTEP_CHECKPOINT_EVERY_SECONDS=60", "LOCKSTEP_RESTORE=step-5.g2", "LOCKSTEP_JOB=a",
                            "LOCKSTEP_JOB_UID=uid", "RANK=2"}) {
    EXPECT_THAT(environment, Contains(entry));
  }
}

TEST(Environment, lists_of_peers_that_fit_no_variable_are_in_a_file) {
  Go go = two_by_two(Kind::kLockstep);
  EXPECT_EQ(peers_text(go), "") << "foreign programs find the variables where they fit";
  std::vector<rendezvous::PeerBlock::Member> members;
  std::string peers, slots;
  for (int slot = 0; slot < 1024; ++slot) {
    members.push_back({slot, 1, std::vector<std::string>(8, "10.100.100.100:65535")});
    for (int i = 0; i < 8; ++i) {
      peers += (peers.empty() ? "" : ",") + members.back().addresses.front();
      slots += (slots.empty() ? "" : ",") + std::to_string(slot);
    }
  }
  go.peers = rendezvous::Peers(std::move(members));
  EXPECT_EQ(peers_text(go), peers + "\n" + slots + "\n");
  const auto environment = worker_environment({}, go, 0, {5, 7, 9});
  EXPECT_THAT(environment, Contains("LOCKSTEP_PEERS_FILE=/proc/self/fd/9"));
  EXPECT_THAT(environment, Each(Not(StartsWith("LOCKSTEP_PEERS="))));
  EXPECT_THAT(environment, Each(Not(StartsWith("LOCKSTEP_MEMBERS="))));
}

TEST(Environment, rendezvous_none_sets_no_rendezvous_variable) {
  const auto environment = worker_environment({"HOME=/root"}, two_by_two(Kind::kNone), 0);
  for (const char* name : {"RANK=", "WORLD_SIZE=", "MASTER_", "PET_", "TORCHELASTIC_", "LOCKSTEP_PEERS="}) {
    EXPECT_THAT(environment, Each(Not(StartsWith(name))));
  }
  EXPECT_THAT(environment, Contains("HOME=/root"));
}

TEST(Environment, the_generation_wins_over_the_job_and_the_job_over_the_pod) {
  Go go = two_by_two(Kind::kTorch);
  go.program.env = {{"NCCL_DEBUG", "INFO"}, {"RANK", "99"}};
  const auto environment = worker_environment({"NCCL_DEBUG=WARN", "RANK=98", "MINE=a=b"}, go, 0);
  EXPECT_THAT(environment, Contains("NCCL_DEBUG=INFO"));
  EXPECT_THAT(environment, Contains("RANK=2"));
  EXPECT_THAT(environment, Contains("MINE=a=b"));
}

TEST(Environment, nccl_is_told_of_the_pods_network) {
  const std::vector<std::string> pod = {"LOCKSTEP_POD_UID=pod-1"};
  for (const Kind kind : {Kind::kLockstep, Kind::kTorch}) {
    const auto environment = worker_environment(pod, two_by_two(kind), 1, {}, "eth1");
    EXPECT_THAT(environment, Contains("NCCL_SOCKET_IFNAME==eth1")) << "eth10 is another";
    EXPECT_THAT(environment, Contains("NCCL_HOSTID=pod-1")) << "the same for all processes of the pod";
    EXPECT_THAT(environment, Contains("NCCL_RAS_ENABLE=0"));
  }
  EXPECT_THAT(worker_environment(pod, two_by_two(Kind::kNone), 1, {}, "eth1"), Each(Not(StartsWith("NCCL_"))));
}

TEST(Environment, nccl_settings_of_the_pod_and_of_the_job_stay_as_they_are) {
  const std::vector<std::string> pod = {"LOCKSTEP_POD_UID=pod-1", "NCCL_SOCKET_IFNAME=^docker", "NCCL_RAS_ENABLE="};
  Go go = two_by_two(Kind::kTorch);
  go.program.env = {{"NCCL_HOSTID", "rack-7"}};
  const auto environment = worker_environment(pod, go, 0, {}, "eth1");
  for (const char* entry : {"NCCL_SOCKET_IFNAME=^docker", "NCCL_RAS_ENABLE=", "NCCL_HOSTID=rack-7"}) {
    EXPECT_THAT(environment, Contains(entry));
  }
}

TEST(Environment, nccl_chooses_the_interface_where_none_holds_the_pods_address) {
  const auto environment = worker_environment({}, two_by_two(Kind::kTorch), 0, {}, "");
  EXPECT_THAT(environment, Each(Not(StartsWith("NCCL_SOCKET_IFNAME="))));
  EXPECT_THAT(environment, Each(Not(StartsWith("NCCL_HOSTID=")))) << "an empty one would be equal in all pods";
}

TEST(Environment, processes_of_a_pod_share_its_gpus_in_equal_parts) {
  const std::vector<std::string> pod = {"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c,GPU-d"};
  for (const Kind kind : {Kind::kLockstep, Kind::kTorch, Kind::kNone}) {
    EXPECT_THAT(worker_environment(pod, two_by_two(kind), 0), Contains("NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"));
    EXPECT_THAT(worker_environment(pod, two_by_two(kind), 1), Contains("NVIDIA_VISIBLE_DEVICES=GPU-c,GPU-d"));
  }
  Go four = two_by_two(Kind::kTorch);
  four.ranks = 4;
  EXPECT_THAT(worker_environment(pod, four, 3), Contains("NVIDIA_VISIBLE_DEVICES=GPU-d"));
  EXPECT_THAT(worker_environment(pod, four, 3), Each(Not(StartsWith("CUDA_VISIBLE_DEVICES="))))
      << "cuda:LOCAL_RANK has to name a device of the pod";
}

TEST(Environment, gpus_that_do_not_divide_stay_with_every_process) {
  for (const char* pod :
       {"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void",
        "NVIDIA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=GPU-a,", "NVIDIA_VISIBLE_DEVICES=GPU-a,,GPU-b,GPU-c"}) {
    EXPECT_THAT(worker_environment({pod}, two_by_two(Kind::kTorch), 1), Contains(pod));
  }
  EXPECT_THAT(worker_environment({}, two_by_two(Kind::kTorch), 1), Each(Not(StartsWith("NVIDIA_VISIBLE_DEVICES="))));
}

TEST(Environment, gpus_that_the_job_has_divided_stay_as_they_are) {
  const char* const pod = "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b";
  EXPECT_THAT(worker_environment({pod, "CUDA_VISIBLE_DEVICES=1"}, two_by_two(Kind::kTorch), 1), Contains(pod));
  Go go = two_by_two(Kind::kTorch);
  go.program.env = {{"NVIDIA_VISIBLE_DEVICES", "GPU-c,GPU-d"}};
  EXPECT_THAT(worker_environment({pod}, go, 1), Contains("NVIDIA_VISIBLE_DEVICES=GPU-c,GPU-d"));
}

TEST(Environment, what_is_the_agents_alone_is_not_passed_on) {
  const auto environment = worker_environment({"LOCKSTEP_COORDINATOR=1.2.3.4:5", "LOCKSTEP_TOKEN_FILE=/t",
                                               "LOCKSTEP_COORDINATOR_CA=pem", "LOCKSTEP_PARENT_DEATH=1"},
                                              two_by_two(Kind::kLockstep), 0);
  EXPECT_THAT(environment, Each(Not(StartsWith("LOCKSTEP_COORDINATOR"))));
  EXPECT_THAT(environment, Each(Not(StartsWith("LOCKSTEP_TOKEN_FILE"))));
  EXPECT_THAT(environment, Each(Not(StartsWith("LOCKSTEP_PARENT_DEATH"))));
}

}  // namespace
}  // namespace lockstep::trainer::agent
