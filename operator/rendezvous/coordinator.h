// The seam between the job controller and the coordinator. The controller says, level-triggered, which members a job
// should have and up to which generation failures have been dealt with; the coordinator forms generations from the
// members that are connected and says what became of them. Neither calls the other's decisions: policy (budgets,
// rules, pods) is the controller's, agreement is the coordinator's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/cause.h"
#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/certificates.h"
#include "operator/rendezvous/roster.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::rendezvous {

enum class Kind { kLockstep, kTorch, kNone };

// A pod that should take part. A member that says HELLO with another uid or incarnation is told to go.
struct ExpectedMember {
  int slot = 0;
  std::int64_t incarnation = 0;
  std::string pod_name;
  std::string pod_uid;  // as the API server gave it
  std::string node;     // "" while not known
  // It is to leave: it is in no further generation, and the end of its processes is no failure.
  bool leaving = false;
  // The domains of its node, outermost first, without the node itself; empty: not known. It counts for the order of
  // ranks when the next generation is proposed, and never makes one necessary.
  std::vector<std::string> path = {};

  bool operator==(const ExpectedMember&) const = default;
};

// An elastic gang continues with fewer members: the survivors of a broken generation at once, and newcomers join later.
struct ElasticTerms {
  int min_slots = 0;  // the fewest slots that a generation may have; 0: all of JobPlan::slots or none
  // An incomplete gang starts, or takes newcomers in, when no member has joined for this long.
  int stabilization_seconds = 0;

  bool operator==(const ElasticTerms&) const = default;
};

// The settings of a job's processes; each GO carries them unchanged.
struct ProgramSettings {
  std::string checkpoint_path;  // "": the job writes none
  int checkpoint_every_seconds = 0;
  int max_restarts = 0;                    // only shown to the program, TORCHELASTIC_MAX_RESTARTS
  std::map<std::string, std::string> env;  // spec.rendezvous.env

  bool operator==(const ProgramSettings&) const = default;
};

// How long a generation may take to start and to make progress.
struct GenerationDeadlines {
  // From GO until every member said UP; then the generation is broken (StartTimeout). 0: no limit.
  int start_timeout_seconds = 600;
  // A generation hangs if no rank makes progress for this long, and for five times its p99 step time. The coordinator
  // then has the process to blame killed. Until the first step `start_timeout_seconds` count. 0: no watch.
  int progress_seconds = 0;
  // Watches programs that report only their progress, too, from their first reported step on.
  bool watch_reports = false;

  bool operator==(const GenerationDeadlines&) const = default;
};

// What a job wants from the coordinator. set_job() with an equal plan changes nothing.
struct JobPlan {
  std::string name_space, name, uid;
  Kind kind = Kind::kLockstep;
  int slots = 0;  // gang size; a generation is formed when so many members are connected
  // Further members, of the slots from `slots` on, that are held ready: a generation is made of any `slots` of them
  // all.
  int spares = 0;
  ElasticTerms elastic;
  int procs_per_node = 1;  // ranks of each slot
  int port = 0;            // MASTER_PORT; 0: fresh for each generation
  ProgramSettings program;
  std::vector<ExpectedMember> members;
  // The controller has dealt with the generations up to this one. A broken or finished generation g is followed by g+1
  // only once handled_generation >= g. 0 allows the first.
  std::int64_t handled_generation = 0;
  // True: end all processes and let the agents exit (suspend, failed, clean-up). Processes get SIGTERM first, and
  // SIGKILL after `stop_grace_seconds`.
  bool stop = false;
  // With `stop`: the job goes on later from its last checkpoint, which is recorded before any agent leaves.
  bool goes_on = false;
  int stop_grace_seconds = 30;
  GenerationDeadlines deadlines;

  bool operator==(const JobPlan&) const = default;
};

enum class Phase {
  kWaiting,    // not all members are connected
  kProposing,  // PROPOSE is out: old processes end, READYs and the record's compare-and-set are awaited
  kStarting,   // GO is out
  kUp,         // every member said UP
  kBroken,     // the generation failed; `failure` says how; waiting for handled_generation
  kFinished,   // every rank of the generation exited with 0
  kStopped,    // JobPlan::stop was carried out: no process is left
};

// Why a generation ended: the first failing rank by the agents' millisecond time stamps; a signal or an error of
// its own comes before "communication failed".
struct Failure {
  std::int64_t generation = 0;
  api::Cause cause = api::Cause::kNone;  // of a process or of a generation
  int rank = -1;
  int slot = -1;
  std::optional<int> exit_code;  // 128 + signal when it was a signal
  int signal = 0;
  std::string message;          // one sentence, then the tail of the rank's stderr (at most 2 KiB)
  WallTime time{};              // when the process ended, by its agent's clock
  std::int64_t detect_ms = -1;  // from then to the coordinator's knowing
  std::int64_t step = 0;        // last committed step that was reported

  bool operator==(const Failure&) const = default;
};

struct MemberView {
  int slot = 0;
  std::int64_t incarnation = 0;
  bool connected = false;
  bool in_gang = false;  // it is one of the current generation, which may run without some
  bool up = false;       // its processes of the current generation run
  bool leaving = false;  // as the plan has it
  bool alive = false;    // it has processes of some generation, and they may hold a state

  bool operator==(const MemberView&) const = default;
};

// What became of the newest recovery; -1: not there yet. A generation that ended only because others were taken in, or
// given up, between two steps is followed by no recovery. What the last one took stays to be read.
struct RecoveryTimes {
  std::int64_t after = 0;  // the generation whose end it followed
  std::int64_t into = 0;   // the one that it led to; 0: none yet
  // PROPOSE to GO, and three parts of it, partly at the same time: until the controller had dealt with the failure;
  // until the last READY (all processes of before have ended their communicators, or themselves); and the
  // compare-and-set of the record.
  std::int64_t agree_ms = -1, decide_ms = -1, abort_ms = -1, record_ms = -1;
  // GO to the last UP, and what of that the slowest rank needed for its links and for the state.
  std::int64_t start_ms = -1, init_ms = -1, transfer_ms = -1;
  std::int64_t first_step_ms = -1;  // UP to the first newly committed step

  bool operator==(const RecoveryTimes&) const = default;
};

// What the coordinator knows of a job.
struct JobView {
  std::int64_t generation = 0;
  Phase phase = Phase::kWaiting;
  std::vector<MemberView> members;  // by slot
  int world_size = 0;               // ranks of the current generation; 0: there is none yet
  std::vector<Place> places;        // of the current generation, in order of rank
  std::optional<Failure> failure;   // with kBroken
  std::string message;              // why it waits, for people: "waiting for slots 2, 3 to connect"
  Progress progress;
  std::optional<CheckpointReport> newest_checkpoint;
  RecoveryTimes times;
  // Replicas of one step were not bitwise identical: the generation that found it, what each rank held, what was taken.
  // Empty: that has not been seen.
  std::string divergence;
  std::vector<std::string> refused;  // the last few members that were turned away, and why

  // What is known of the member of a slot; null when none is expected there. Without gaps a slot is its own index.
  const MemberView* member_of(int slot) const {
    const auto guess = static_cast<std::size_t>(slot);
    if (slot >= 0 && guess < members.size() && members[guess].slot == slot) return &members[guess];
    const auto at = std::lower_bound(members.begin(), members.end(), slot,
                                     [](const auto& member, int wanted) { return member.slot < wanted; });
    return at == members.end() || at->slot != slot ? nullptr : &*at;
  }
  // The first rank of that slot in the current generation; -1: it has none.
  int first_rank_of(int slot) const {
    const auto at = std::find_if(places.begin(), places.end(), [slot](const Place& it) { return it.slot == slot; });
    const int procs = places.empty() ? 0 : world_size / static_cast<int>(places.size());
    return at == places.end() ? -1 : static_cast<int>(at - places.begin()) * procs;
  }
  bool operator==(const JobView&) const = default;
};

// The durable state of a job's membership (README.md): written only by the coordinator, by compare-and-set.
inline constexpr int kRecordFormat = 3;
struct Record {
  // 1: members in order of slots; from 2 on: in order of rank. What a later format says of members is not known: its
  // generation is re-formed, never adopted.
  int format = kRecordFormat;
  std::int64_t term = 0;
  std::string writer;  // which coordinator wrote it: terms begin again when the Lease is deleted
  std::int64_t generation = 0;
  struct Member {
    int slot = 0;
    std::int64_t incarnation = 0;
    std::int64_t life = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;  // empty, of a generation: not known
  std::optional<CheckpointReport> checkpoint;
  bool finished = false;  // every rank of `generation` exited with 0: agents may leave, nothing follows
  // With `finished`: how training ended, for a leader that no agent will tell it.
  std::optional<Progress> progress;
  bool operator==(const Record&) const = default;
};

// Where records live: a ConfigMap on a cluster, an entry of the in-memory API in `run`. Calls block; the coordinator
// makes them on a thread of their own.
class GenerationStore {
 public:
  virtual ~GenerationStore() = default;
  struct Versioned {
    Record record;
    std::string version;  // opaque; "" when there is no record yet
  };
  virtual Result<Versioned> load(const std::string& name_space, const std::string& job, const std::string& uid) = 0;
  // Writes `next` if the stored version is still `version`; kConflict otherwise. Returns the new version.
  virtual Result<std::string> compare_and_set(const std::string& name_space, const std::string& job,
                                              const std::string& uid, const std::string& version,
                                              const Record& next) = 0;
};

// Says whether the bearer of `token` is the pod that it claims to be. Blocks; called on up to 32 threads at the
// same time, once for each pod and token. kUnauthorized when not.
class MemberAuthenticator {
 public:
  virtual ~MemberAuthenticator() = default;
  virtual Status check(const std::string& token, const std::string& name_space, const std::string& pod_name,
                       const std::string& pod_uid) = 0;
};

// The server: listens, speaks the protocol with agents, forms generations. start() and stop() bracket a term.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  // Adds the job or changes its plan. Returns at once; any thread.
  virtual void set_job(const JobPlan& plan) = 0;
  // Drops the job and its connections; any thread.
  virtual void forget_job(const std::string& uid) = 0;
  // The newest view; empty when the job is not known (yet). Any thread; never blocks on the network.
  virtual std::optional<JobView> view(const std::string& uid) const = 0;
  // "ip:port" that it listens on.
  virtual std::string address() const = 0;
  // Serves connections that are accepted from now on with `serving`; those that exist stay as they are. kInvalid when
  // it is no certificate with its key. Any thread.
  virtual Status use_certificate(const KeyPair& serving) = 0;
};

// Called when a job's view changed in more than its progress (and at most once a second for progress alone).
// On the coordinator's thread: only put a key into a queue.
using OnViewChange = std::function<void(const std::string& name_space, const std::string& name)>;

struct CoordinatorOptions {
  std::string listen_address = "0.0.0.0";
  int port = 0;                 // 0: any free one
  std::string certificate_pem;  // empty with an empty key: plain TCP is never spoken; start() fails
  std::string private_key_pem;
  std::int64_t term = 1;                                 // that this leader claimed; a job may move above it
  std::function<bool()> leads;                           // whether this process holds the Lease now; empty: always
  bool authenticate = true;                              // false only in tests of the protocol
  Duration heartbeat_timeout = std::chrono::seconds(3);  // a member that says nothing for this long is lost
  // For an agent to take a frame before its connection is closed; begins again with each frame.
  Duration read_within = std::chrono::seconds(10);
};

// Binds and starts its threads; they are joined by the destructor. kUnavailable when the port is taken.
Result<std::unique_ptr<Coordinator>> start_coordinator(const CoordinatorOptions& options, GenerationStore& store,
                                                       MemberAuthenticator& authenticator, Clock& clock,
                                                       OnViewChange on_change);

// Environment of the agent (set by the pod builder).
inline constexpr const char* kEnvCoordinator = "LOCKSTEP_COORDINATOR";       // "10.0.3.4:7077", numeric
inline constexpr const char* kEnvCoordinatorCa = "LOCKSTEP_COORDINATOR_CA";  // PEM
inline constexpr const char* kEnvNamespace = "LOCKSTEP_NAMESPACE";
inline constexpr const char* kEnvPodName = "LOCKSTEP_POD_NAME";  // downward API
inline constexpr const char* kEnvPodUid = "LOCKSTEP_POD_UID";    // downward API
inline constexpr const char* kEnvPodIp = "LOCKSTEP_POD_IP";      // downward API
inline constexpr const char* kEnvSlot = "LOCKSTEP_SLOT";
inline constexpr const char* kEnvIncarnation = "LOCKSTEP_INCARNATION";
inline constexpr const char* kEnvProcsPerNode = "LOCKSTEP_PROCS_PER_NODE";
inline constexpr const char* kEnvTokenFile = "LOCKSTEP_TOKEN_FILE";          // projected token, audience lockstep
inline constexpr const char* kEnvStopGrace = "LOCKSTEP_STOP_GRACE_SECONDS";  // SIGTERM to the agent until SIGKILL to
                                                                             // its processes; 25 where not set
inline constexpr const char* kEnvParentDeath = "LOCKSTEP_PARENT_DEATH";      // "1": end all when the parent dies
inline constexpr const char* kTokenAudience = "lockstep";
inline constexpr const char* kCoordinatorServerName = "lockstep-coordinator";

}  // namespace lockstep::rendezvous
