// The place of this process among its peers, from the environment. It has the variables of the agent
// (operator/rendezvous/worker_contract.h), else those of plain torchrun, else a world of one. And the options of a
// communicator that follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::elastic {

struct World {
  enum class Source { kAgent, kTorchrun, kAlone };
  Source source = Source::kAlone;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::int64_t generation = 0;  // torchrun: its restart count
  bool standby = false;         // kAgent: there is no generation yet; the agent's first join brings the rank
  std::string job_name;
  std::string job_uid;                   // torchrun: its run id
  std::vector<std::string> peers;        // kAgent: data addresses by rank
  std::vector<int> members;              // kAgent: which ranks share a pod
  bool shared_memory = true;             // false: TCP everywhere
  int listen_fd = -1;                    // kAgent: stays open until the process ends
  int agent_fd = -1;                     // -1: no agent
  comm::GenerationKey key{};             // kAgent
  std::string master_addr;               // kTorchrun
  int master_port = 0;                   // kTorchrun
  std::string identity;                  // the identity line (worker_contract.h); empty: not known, not compared
  std::string checkpoint_dir;            // empty: not given
  double checkpoint_every_seconds = 0;   // 0: not given
  Duration storage_deadline{};           // for a rank that reads or writes a checkpoint; 0: there are none
  Duration data_deadline{};              // for a rank that waits for samples, and its end; 0: it waits for no storage
  std::string restore;                   // folder name of the checkpoint to start from; empty: none
  rendezvous::StateSource state_source;  // kAgent: the rank that streams its state to start from; rank -1: none
  // The transport of elements; nothing: a ring.
  std::shared_ptr<const comm::NcclSetup> nccl;
};

// Looks a variable up; nullptr when it is not set. Tests give their own.
using Environment = std::function<const char*(const char*)>;

// kInvalid with a sentence that names the variable, for values that cannot be read or contradict each other; the
// process should end with kExitConfig. An empty variable counts as not set.
Result<World> world_from_environment(const Environment& lookup);
Result<World> world_from_environment();  // of this process

// `world` with the values of the agent's join: rank, size, generation, peers, members, key, source and checkpoint. The
// rest stays. kInvalid: the join is inconsistent.
Result<World> joined(const World& world, const rendezvous::Join& join);

// The options for comm::make_communicator, by which ranks that see the same /dev/shm use it, if `world` allows it.
// kAgent: a translation. listen_fd is a duplicate of the world's, because the communicator closes its own (kExhausted:
// no descriptor left). A collective may stall for ten minutes, because the coordinator watches for hangs. kTorchrun: a
// collective may stall for 30 s. Either may stall for 30 s beyond storage_deadline and data_deadline of the world, if
// that is longer. Between two collectives a rank may wait for both. Under kTorchrun it opens a data socket and
// exchanges addresses and a key through MASTER_ADDR:MASTER_PORT. Rank 0 listens there, at MASTER_PORT + 1 if torchrun's
// own store holds that port. kDeadlineExceeded names what is missing after `deadline`. kUnavailable says that the port
// is taken, kInvalid that two processes claim one rank, or that sizes or identity lines differ. Key and addresses cross
// the network unencrypted: plain torchrun has no secret to start from. kAlone, and in standby: options of size 1.
// Blocks.
Result<comm::RingOptions> ring_options(const World& world, Duration deadline = std::chrono::seconds(60));

}  // namespace lockstep::trainer::elastic
