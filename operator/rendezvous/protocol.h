// The wire protocol between agents and the coordinator: frames of a 4-byte big-endian length and that many bytes of
// JSON, and one struct per message. README.md tells how a conversation goes; who may say what, and when, is left to the
// state machines (member_state.h, coordinator_state.h), and the sockets to the server and the agent.
//
// Decoding never throws and never trusts: unknown fields are ignored, and an unknown type decodes to Unknown. Anything
// else that is not exactly a message is kInvalid, and the caller closes that connection.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "operator/api/cause.h"
#include "operator/base/result.h"
#include "operator/rendezvous/activity.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/peer_block.h"

namespace lockstep::rendezvous {

// What an agent speaks is in its HELLO. A coordinator answers each in its own.
//   1: GO and WARM list the peers, ECHO the addresses
//   2: PEERS frames carry them, once for each generation and connection; GO and ECHO name them by their digest
inline constexpr int kProtocolVersion = 2;
inline constexpr int kProtocolOfPeerBlocks = 2;
inline constexpr std::size_t kMaxFrame = 256 * 1024;      // bytes of JSON in a frame
inline constexpr std::size_t kMaxFirstFrame = 24 * 1024;  // of a HELLO, whose sender is not known yet
inline constexpr std::size_t kMaxStderrTail = 2 * 1024;
inline constexpr std::size_t kMaxRanksPerMember = 1024;

// Timing that both sides must agree on.
inline constexpr Duration kHeartbeatEvery = std::chrono::milliseconds(250);  // in gangs of some hundreds, and at least
// How often an agent of that protocol says a heartbeat, in a job of so many members. It is 250 ms up to 512 members,
// then 250 ms * members / 512, at most 1 s (from 2,048 members on). So a job costs its coordinator 2,048 heartbeats a
// second at most up to 2,048 members, and silence of 3 s is three of them. Agents of protocol 1 have 250 ms always.
Duration heartbeat_every(int protocol, std::size_t members);
inline constexpr Duration kKillGrace = std::chrono::milliseconds(500);  // SIGTERM to SIGKILL when a generation is over
inline constexpr Duration kAbortGrace = std::chrono::milliseconds(1500);  // SIGABRT to SIGKILL, for the stack
inline constexpr Duration kReadyDeadline = std::chrono::seconds(5);       // PROPOSE to READY, apart from kKillGrace
inline constexpr Duration kHoldWithin = std::chrono::seconds(3);  // for a process to end its communicator: part of it
inline constexpr Duration kOrphanAfter = std::chrono::seconds(600);  // agents without a coordinator end processes
// For agents to reconnect to a new leader. After an outage of the API server kube-proxy knows the way late. Client-go,
// with which it watches, doubles its pauses up to 30 s and adds as much by chance.
inline constexpr Duration kReconnectWithin = std::chrono::seconds(60);

// A generation as agents compare it: the term of the leader that proposed it, then its number.
struct GenerationId {
  std::int64_t term = 0;
  std::int64_t generation = 0;
  auto operator<=>(const GenerationId&) const = default;
};

// What an agent's processes are doing.
enum class MemberPhase {
  kIdle,     // none was ever started by this agent
  kReady,    // READY(promised) was said: nothing of an older generation will be committed here
  kRunning,  // at least one process of `generation` runs
  kExited,   // all processes of `generation` have ended
  kWarm,     // processes wait for a generation to join, as quickly as those that are in one
};

// The identity line (worker_contract.h) of so many of a member's processes, one after the other by local rank.
struct IdentityRun {
  int ranks = 1;
  std::string line;  // empty: they have said none
  bool operator==(const IdentityRun&) const = default;
};
// Runs of a message. Of more, which are a difference in any case, the last ones count as one.
inline constexpr std::size_t kMostIdentityRuns = 16;

// ---- agent to coordinator ----

// First message of a connection: who speaks, and where it stands.
struct Hello {
  int protocol = kProtocolVersion;
  std::string name_space, pod_name, pod_uid;
  int slot = 0;
  std::int64_t incarnation = 0;
  std::string token;    // of the pod's service account
  std::string session;  // differs for every agent process: a new one lost the processes of the old
  MemberPhase phase = MemberPhase::kIdle;
  std::int64_t generation = 0;  // that its processes belong to; 0: none was started yet
  bool up = false;              // all its processes of `generation` are up
  bool regroups = false;        // all its processes live, and keep what they hold from one generation to the next
  GenerationId promised;        // highest PROPOSE accepted
  std::int64_t welcomed = 0;    // the highest term that welcomed it; it leaves a coordinator of a lower one
  std::int64_t life = 0;        // how often it started processes
  bool operator==(const Hello&) const = default;
};

struct Heartbeat {
  std::int64_t sequence = 0;
  MemberPhase phase = MemberPhase::kIdle;
  std::int64_t generation = 0;
  bool up = false;
  bool regroups = false;             // see Hello
  std::optional<Progress> progress;  // of the lowest local rank that reports it
  std::optional<CheckpointReport> newest_checkpoint;
  std::vector<RankActivity> ranks;  // what the processes of `generation` are doing, by local rank; empty: none runs
  // When a process has said another line, and in the first of a connection; empty: as before.
  std::vector<IdentityRun> identities = {};
  bool operator==(const Heartbeat&) const = default;
};

// A promise: nothing of a generation below this one is committed on this pod from now on, because its processes are
// gone or have ended their communicators. This is where the ranks (will) listen.
struct Ready {
  GenerationId id;
  std::vector<std::string> addresses;  // "ip:port" by local rank
  std::vector<StateVersion> holdings;  // by local rank, when the processes stayed; empty: new ones will be started
  std::string host;                    // MASTER_ADDR if its rank 0 is here
  int master_port = 0;                 // a free port on this host
  std::int64_t life = 0;
  // Why the generation cannot start here, of the causes that api::cause_of_agent() knows, and a sentence; kNone: it
  // can.
  api::Cause problem = api::Cause::kNone;
  std::string message;
  std::vector<IdentityRun> identities = {};  // of processes that are there; empty: nothing is known
  bool operator==(const Ready&) const = default;
};

struct Up {
  std::int64_t generation = 0;
  bool regroups = false;  // see Hello
  EntryTimes entry;       // the longest of its ranks
  bool operator==(const Up&) const = default;
};

// What ECHO came to. `problem`: the first address that could not be reached, and why; empty: all were.
struct Echoed {
  std::int64_t generation = 0;
  std::string problem;
  bool operator==(const Echoed&) const = default;
};

// A process that stays saw its communicator fail, or its generation yield. Sent again after every WELCOME until the
// next generation.
struct Broken {
  int rank = 0;
  BrokenReport report;
  bool operator==(const Broken&) const = default;
};

// A process has ended. Sent again after every WELCOME until the next generation.
struct Exit {
  // What ended it: itself, the coordinator's order (HALT, PROPOSE, STOP), or a signal to the agent (pod deleted).
  enum class Reason { kOwn, kOrdered, kTerminated };
  std::int64_t generation = 0;
  int rank = 0;
  int code = 0;             // 128 + signal when it was a signal
  int signal = 0;           // 0: it called exit
  std::int64_t end_ms = 0;  // when, in milliseconds since 1970 by the agent's clock
  Reason reason = Reason::kOwn;
  std::optional<FailureReport> report;
  std::string stderr_tail;
  api::Cause problem = api::Cause::kNone;  // kCommandNotFound, when it never started, or kHang
  std::string message;                     // a sentence about the problem
  bool operator==(const Exit&) const = default;
};

// ---- coordinator to agent ----

struct Welcome {
  std::int64_t term = 0;
  int heartbeat_ms = 250;  // heartbeat_every(): say one so often
  bool operator==(const Welcome&) const = default;
};

// The connection is not accepted, and is closed. `final`: end the processes and exit, there is no place for this pod.
struct Refused {
  std::string message;
  bool final = false;
  bool operator==(const Refused&) const = default;
};

// A generation is to be formed: processes that can be regrouped end their communicators, all others end; then READY.
struct Propose {
  GenerationId id;
  int first_rank = 0;
  int ranks = 1;  // processes of this member
  int world_size = 1;
  int port = 0;  // MASTER_PORT that was asked for; 0: any
  bool operator==(const Propose&) const = default;
};

// The generation is agreed and recorded: start its processes.
struct Go {
  GenerationId id;
  std::string job, job_uid;
  Kind kind = Kind::kLockstep;
  int first_rank = 0;
  int ranks = 1;
  int world_size = 1;
  int group_rank = 0;  // of this member among members
  int group_world_size = 1;
  Peers peers;  // of all ranks; none in a WARM
  std::string master_addr;
  int master_port = 0;
  std::string key;      // 64 hexadecimal digits
  StateSource source;   // whose state the ranks go on from
  std::string restore;  // with no source: checkpoint folder, or empty
  ProgramSettings program;
  bool operator==(const Go&) const = default;
};

// There is no generation yet, or the one that runs does without this member. Its processes are to start all the same,
// or to wait if they are there, so that they can join it quickly; until then they have no rank that counts and no
// peers. `go` says what they need to know; its generation is 0, or the sender is not understood.
struct Warm {
  Go go;
  // No generation has been yet: processes that end before they were in one are part of the first, see MemberState.
  bool first = false;
  bool operator==(const Warm&) const = default;
};

// Answered by ECHOED: are these data addresses of a generation that runs to be reached from there? A member outside of
// it is asked before the others end a step for it.
struct Echo {
  std::int64_t generation = 0;
  Peers peers;
  bool operator==(const Echo&) const = default;
};

// EXIT(generation, rank) was taken note of.
struct Ack {
  std::int64_t generation = 0;
  int rank = 0;
  bool operator==(const Ack&) const = default;
};

// Generations up to this one are over: end their processes, stay.
struct Halt {
  GenerationId id;
  bool operator==(const Halt&) const = default;
};

// Others are to join: the ranks end this generation after a step on which they agree, and hold what they have. Without
// it they would be interrupted in the middle of a step.
struct Yield {
  GenerationId id;
  bool operator==(const Yield&) const = default;
};

// That process hangs, as `message` says: end it (SIGABRT for its stack, then SIGKILL). Its EXIT then has the
// problem Cause::kHang and this message.
struct Abort {
  std::int64_t generation = 0;
  int rank = 0;
  std::string message;
  bool operator==(const Abort&) const = default;
};

// End all processes (they get `grace_seconds`), then exit with `exit_code`.
struct Stop {
  int grace_seconds = 30;
  int exit_code = 0;
  bool operator==(const Stop&) const = default;
};

// The job has succeeded: exit with 0.
struct Done {
  bool operator==(const Done&) const = default;
};

// A type that this version does not know; counted and ignored.
struct Unknown {
  bool operator==(const Unknown&) const = default;
};

using AgentToCoordinator = std::variant<Hello, Heartbeat, Ready, Up, Broken, Exit, Echoed, Unknown>;
using CoordinatorToAgent =
    std::variant<Welcome, Refused, Propose, Go, Warm, Echo, Ack, Halt, Yield, Abort, Stop, Done, Unknown>;

// A whole frame, length included. kExhausted when the JSON would be longer than kMaxFrame.
Result<std::string> encode_frame(const AgentToCoordinator& message);

// The JSON of one frame, without its length. kInvalid with a sentence for anything malformed or out of range.
Result<AgentToCoordinator> decode_from_agent(std::string_view json);

// What the coordinator writes to one connection, in the protocol that its agent speaks.
class CoordinatorWriter {
 public:
  explicit CoordinatorWriter(int protocol = 1) : protocol_(protocol) {}
  // The frames of `message`, in order; before them those of its peers, where this connection has not had them yet.
  // kExhausted when a frame would be longer than kMaxFrame; then nothing counts as sent.
  Result<std::vector<Chunk>> encode(const CoordinatorToAgent& message);

 private:
  int protocol_;
  Peers sent_;  // the newest
};

// What an agent reads of the coordinator on one connection, in either protocol.
class CoordinatorReader {
 public:
  // The JSON of one frame, without its length; none when it was a part of the peers that a later message names.
  // kInvalid with a sentence for anything malformed or out of range.
  Result<std::optional<CoordinatorToAgent>> decode(std::string_view json);

 private:
  PeerParts parts_;
};

// The four bytes ahead of so much JSON; kExhausted above kMaxFrame.
Result<std::string> encode_length(std::size_t json_bytes);
// The first four bytes of a frame; kInvalid when it is 0 or above `most`.
Result<std::size_t> decode_length(std::string_view four_bytes, std::size_t most = kMaxFrame);

// Collects the bytes of a stream into frames and never holds more than one frame and what was fed at once.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most = kMaxFrame) : most_(most) {}
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // Frames of so many bytes from the next one on.
  void allow(std::size_t most) { most_ = most; }
  // The JSON of the next whole frame, empty when more bytes are needed; kInvalid ends the stream.
  Result<std::optional<std::string>> next();

 private:
  std::size_t most_;
  std::string buffer_;
};

}  // namespace lockstep::rendezvous
