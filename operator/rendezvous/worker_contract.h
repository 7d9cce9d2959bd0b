// What an agent gives to the processes that it starts, and what they tell it back: the environment variables and
// the messages of the link. Foreign programs read only the torchrun variables; our trainer uses all of it.
//
// The link is one end of an AF_UNIX stream socketpair (descriptor number in LOCKSTEP_AGENT_FD). Both sides write
// lines of JSON, a worker's of at most kMaxLinkLine bytes, an agent's of at most kMaxAgentLine; a longer or unreadable
// line, and one with a number out of range (limits.h), closes the link; longer texts are cut. An agent never blocks on
// a worker: a worker that does not read loses messages, not the agent.
//
// A worker that says `regroups` with its `up` keeps its memory when another one dies:
//
//   agent                              worker
//     | <------------------------ broken |  (where it saw the failure itself; it waits then)
//     | regroup (term, g+1) -----------> |  ends its communicator, drops what is staged; a promise: nothing of an
//     |                                  |  earlier generation will ever be committed
//     | <------- holding (term, g+1)     |  the version of the state that it holds
//     | join (g+1), peers, source -----> |  reconnects, takes the source's state if its own differs
//     | <----------------------------- up |
//
// A regroup of a higher number is legal at any time and cancels the one before. Before others join, the agent says
// `yield`. The ranks agree in band on a step after which all of them say broken with `yielded`, and wait.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"
#include "operator/rendezvous/activity.h"

namespace lockstep::rendezvous {

// Environment of a worker. It has the values of the generation as torchrun names them. These are RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, NODE_RANK, ROLE_RANK, ROLE_WORLD_SIZE, ROLE_NAME,
// MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS and PET_*. It
// also has NCCL_SOCKET_IFNAME, NCCL_HOSTID and NCCL_RAS_ENABLE, with values that follow from the pod, unless the user
// has set them.
inline constexpr const char* kEnvJobName = "LOCKSTEP_JOB";            // metadata.name
inline constexpr const char* kEnvJobUid = "LOCKSTEP_JOB_UID";         // metadata.uid
inline constexpr const char* kEnvGeneration = "LOCKSTEP_GENERATION";  // decimal, grows with each agreement
inline constexpr const char* kEnvPeers = "LOCKSTEP_PEERS";            // "ip:port,..." by rank: data addresses
inline constexpr const char* kEnvMemberOfRank =
    "LOCKSTEP_MEMBERS";  // "0,0,1,1": which ranks share a pod (and /dev/shm)
// A file with both lists, a line each, instead of the variables where they are longer than the kernel takes (128 KiB).
inline constexpr const char* kEnvPeersFile = "LOCKSTEP_PEERS_FILE";
inline constexpr size_t kMostInVariable = 120 * 1024;  // bytes of a list that is passed in its variable
// "rank generation step digest": who gives the state to start from, and its version; empty: nobody holds one.
inline constexpr const char* kEnvStateSource = "LOCKSTEP_STATE_SOURCE";
inline constexpr const char* kEnvListenFd = "LOCKSTEP_LISTEN_FD";            // bound, listening TCP socket of this rank
inline constexpr const char* kEnvAgentFd = "LOCKSTEP_AGENT_FD";              // the link
inline constexpr const char* kEnvGenerationKey = "LOCKSTEP_GENERATION_KEY";  // 64 hex digits: MAC key of the data links
inline constexpr const char* kEnvCheckpointDir = "LOCKSTEP_CHECKPOINT_DIR";  // spec.checkpoint.path, where given
inline constexpr const char* kEnvCheckpointEvery = "LOCKSTEP_CHECKPOINT_EVERY_SECONDS";  // spec.checkpoint.everySeconds
inline constexpr const char* kEnvRestore = "LOCKSTEP_RESTORE";  // name of the checkpoint folder to start from, or empty

// "1": there is no generation yet, or the one that runs does without this process. It gets ready, says `up` with
// `regroups`, and waits for its first regroup; rank and world size are those that it would have if all slots took part,
// and there are no peers yet.
inline constexpr const char* kEnvStandby = "LOCKSTEP_STANDBY";

inline constexpr size_t kMaxLinkLine = 64 * 1024;
inline constexpr size_t kMaxAgentLine = 2 * 1024 * 1024;  // a join carries the addresses of all ranks: some 40,000

// How training stands. Written by rank 0 (others may; the agent keeps rank 0's), at most 4 times a second.
struct Progress {
  std::int64_t step = 0;         // committed steps
  std::int64_t total_steps = 0;  // 0: not known
  std::int64_t epoch = 0;
  double loss = 0;  // of the last committed step
  double samples_per_second = 0;
  double eta_seconds = 0;  // 0: not known

  bool operator==(const Progress&) const = default;
};

// A checkpoint that is complete on disk and that a collective of the next step has confirmed.
struct CheckpointReport {
  std::string name;  // folder inside the checkpoint path: "step-120.g3"
  std::int64_t step = 0;
  std::int64_t generation = 0;
  std::string digest;  // of the state, hexadecimal

  bool operator==(const CheckpointReport&) const = default;
};

// Why a worker is about to end; sent before it exits with a code that is not 0.
struct FailureReport {
  enum class Class { kOwn, kCommunication };  // its own fault, or it saw a peer go away
  Class kind = Class::kOwn;
  int suspect_rank = -1;  // for kCommunication: whose link broke; -1 when not known
  std::string message;    // one sentence

  bool operator==(const FailureReport&) const = default;
};

// Which state of the model: the generation that committed it, the steps that it has, and its bits.
struct StateVersion {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::string digest;  // 16 hexadecimal digits, equal for equal states on every rank; empty: there is no state yet

  bool operator==(const StateVersion&) const = default;
  // By (generation, step); the digest has no order.
  bool newer_than(const StateVersion& other) const {
    return generation != other.generation ? generation > other.generation : step > other.step;
  }
};

// The worker's communicator has failed, or was ended in band: its generation cannot go on. It stays, keeps its state,
// and waits for a regroup.
struct BrokenReport {
  std::int64_t generation = 0;
  int suspect_rank = -1;  // whose link broke first as seen from here; -1 when not known
  std::string message;    // one sentence
  bool yielded = false;   // nothing failed: all ranks ended the generation after the same step, as the agent asked
  bool stepped = false;   // a step of this generation was committed: its links have worked

  bool operator==(const BrokenReport&) const = default;
};

// The answer to a regroup.
struct Holding {
  std::int64_t term = 0;  // of the regroup, with its generation
  std::int64_t generation = 0;
  StateVersion version;

  bool operator==(const Holding&) const = default;
};

// What it took a process to come into its generation, in milliseconds; -1: not known.
struct EntryTimes {
  std::int64_t init_ms = -1;      // to link with the other ranks, from the order to join or the start of the process
  std::int64_t transfer_ms = -1;  // then, until the state was there: received, given to others, or restored

  bool operator==(const EntryTimes&) const = default;
};

// The identity line of a process says what all ranks of a generation must have in common. It has each name and value of
// `fields`, sorted, with one blank between two: "gradients=fp32 numerics=cpu/float32/...". A blank in a value becomes
// "_". At most kMaxMessage bytes arrive. identity_choice.h compares them.
std::string identity_line(const std::map<std::string, std::string>& fields);

// One message from a worker to its agent; exactly one of `up` and the optional members is set. `up` says that the
// communicators work, `regroups` (with `up`) that the worker can be regrouped.
struct WorkerMessage {
  bool up = false;
  bool regroups = false;
  EntryTimes entry;  // with `up`
  std::optional<Progress> progress;
  std::optional<CheckpointReport> checkpoint;
  std::optional<FailureReport> failure;
  std::optional<BrokenReport> broken;
  std::optional<Holding> holding;
  std::optional<Activity> activity;  // what it is doing: every 250 ms, said by a thread that does not train
  // Its identity line: before `up`, and again when it changes; it travels in an activity, which agents that know no
  // identity read as well. A process that says none is not compared.
  std::optional<std::string> identity = {};

  bool operator==(const WorkerMessage&) const = default;
};

// Where the state of a generation comes from. rank -1: from a checkpoint, or from nothing.
struct StateSource {
  int rank = -1;
  StateVersion version;
  // Some rank holds another version, or none: the state has to be sent. False: all hold exactly `version`.
  bool send = false;

  bool operator==(const StateSource&) const = default;
};

// What a worker is asked to do for the generation to be formed, see above.
struct Regroup {
  std::int64_t term = 0;
  std::int64_t generation = 0;

  bool operator==(const Regroup&) const = default;
};

// The generation is agreed: what a process that starts now would find in its environment.
struct Join {
  std::int64_t term = 0;
  std::int64_t generation = 0;
  int rank = 0;
  int world_size = 1;
  std::vector<std::string> peers;   // data addresses by rank
  std::vector<int> member_of_rank;  // by rank
  std::string key;                  // 64 hexadecimal digits
  StateSource source;
  std::string restore;  // with source.rank -1: the checkpoint to start from, or empty

  bool operator==(const Join&) const = default;
};

// One message from an agent to a worker.
struct AgentMessage {
  enum class Kind {
    kStop,     // the whole job stops: finish the step, write a checkpoint, exit 83. SIGTERM alone: this process leaves
    kRegroup,  // see Regroup
    kJoin,     // see Join
    kYield,    // end the generation `yields` after a step on which all ranks agree, see BrokenReport::yielded
  };
  Kind kind = Kind::kStop;
  Regroup regroup;          // with kRegroup
  Join join;                // with kJoin
  std::int64_t yields = 0;  // with kYield

  bool operator==(const AgentMessage&) const = default;
};

// A line with its newline.
std::string encode(const WorkerMessage& message);
std::string encode(const AgentMessage& message);
// `line` without its newline. kInvalid for anything that is not exactly one message; unknown JSON fields are ignored.
Result<WorkerMessage> decode_worker_message(std::string_view line);
Result<AgentMessage> decode_agent_message(std::string_view line);

// Exit codes of our trainer (0 done; 1-127 permanent but for the named ones; 128 and above may be tried again).
inline constexpr int kExitUsage = 64;          // bad flags
inline constexpr int kExitData = 65;           // data missing, empty, too short, unreadable
inline constexpr int kExitCheckpoint = 66;     // no usable checkpoint: truncated, of another model, seed or numerics
inline constexpr int kExitNoDevice = 69;       // no GPU, driver or library of the backend that was asked for
inline constexpr int kExitDisk = 74;           // a checkpoint could not be written (full disk); the last good one stays
inline constexpr int kExitTemporary = 75;      // too little memory, threads, descriptors; a GPU is lost or busy
inline constexpr int kExitConfig = 78;         // settings that contradict each other or the environment
inline constexpr int kExitCommunication = 80;  // a peer went away; try again
inline constexpr int kExitWatchdog = 82;       // storage did not answer before its deadline; try again
inline constexpr int kExitStopped = 83;        // stopped on request after a checkpoint; try again, not counted
inline constexpr int kExitDiverged = 84;       // NaN or infinity in the loss; permanent

}  // namespace lockstep::rendezvous
