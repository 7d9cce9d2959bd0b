// TrainingJob, lockstep.dev/v1alpha1, as plain structs. The defaults repeat those of the CRD's schema, for job files
// that never reach an API server; a test compares the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/cause.h"
#include "operator/api/object.h"
#include "operator/api/stored_name.h"
#include "operator/api/strategy.h"

namespace lockstep::api {

enum class RendezvousKind { kLockstep, kTorch, kNone };
enum class RestartStrategy { kInPlace, kGang };
enum class RuleAction { kRestart, kFail };
enum class CleanPodPolicy { kRunning, kAll, kNone };
enum class SchedulingBackend { kLockstep, kNone };

struct RendezvousSpec {
  RendezvousKind kind = RendezvousKind::kLockstep;
  std::int32_t port = 0;      // MASTER_PORT; 0: a free port, fresh for each generation
  Json env = Json::object();  // extra variables by name: {"NCCL_DEBUG": "INFO"}; string values
};

// A gang that may run with fewer pods than `nodes`, and whose `nodes` may change while it runs.
struct ElasticSpec {
  std::int32_t min_nodes = 0;
  std::optional<std::int32_t> max_nodes;    // the largest value of `nodes`
  std::int32_t hold_seconds = 600;          // fewer than min_nodes hold their state in memory for this long
  std::int32_t stabilization_seconds = 30;  // without a further pod, before it starts or grows while some are missing
};

// First match wins. A rule with neither list matches every failure.
struct RestartRule {
  std::vector<std::string> on_reasons;      // cause of the attempt (ProcessExit, PodDeleted, NodeLost, OOMKilled, ...)
  std::vector<std::int32_t> on_exit_codes;  // of the first failing rank
  RuleAction action = RuleAction::kRestart;
  bool counts_towards_max = true;
};

struct RestartSpec {
  RestartStrategy strategy = RestartStrategy::kInPlace;
  std::int32_t max_restarts = 10;  // counted restarts allowed within the window
  std::int32_t window_seconds = 3600;
  std::int32_t backoff_initial_seconds = 1;     // restart.backoff.initialSeconds: second restart without progress
  std::int32_t backoff_max_seconds = 60;        // restart.backoff.maxSeconds
  std::int32_t force_delete_after_seconds = 5;  // a terminating pod on a dead node is then deleted by force
  std::vector<RestartRule> rules;
};

struct DeadlinesSpec {
  std::int32_t startup_seconds = 600;          // from enough pods bound to nodes until a generation is up
  std::optional<std::int64_t> active_seconds;  // from start to finish
  // Time without progress of any rank until a hang, at least; 0: no watch. Not given: 10, if processes report activity.
  std::optional<std::int32_t> progress_seconds;
};

struct CheckpointSpec {
  std::string path;        // folder inside the container
  std::string claim_name;  // PersistentVolumeClaim mounted at `path`; empty: `path` is on one of the job's volumes
  std::int32_t every_seconds = 300;
  std::int32_t grace_period_seconds = 60;  // terminationGracePeriodSeconds of the pods: time to write a last checkpoint
};

// Where the pods go. Levels are names of the operator's topology, or kNodeLevel.
struct PlacementSpec {
  std::string required;   // one domain of this level holds the whole gang; empty: none has to
  std::string preferred;  // the same as a wish; empty: the level next to the node
  std::optional<std::int32_t> preferred_wait_seconds;  // only with `preferred`; not given: kDefaultPreferredWaitSeconds
  bool exclusive = false;                              // no two pods of the job on one node
  std::int32_t gang_timeout_seconds = 120;             // a gang that is not whole gives its nodes back after this
  bool operator==(const PlacementSpec&) const = default;
};

// The level below all levels of a topology: one node.
inline constexpr std::string_view kNodeLevel = "node";
// A job that ends gives its nodes back within its grace period, by default as long as this.
inline constexpr std::int32_t kDefaultPreferredWaitSeconds = 60;

struct SchedulingSpec {
  std::optional<SchedulingBackend> backend;  // empty: the operator's default
  std::string priority_class_name;           // of the pods, and of the job in the placer's queue
  std::string scheduler_name;                // of the pods; empty: the cluster's default
  bool operator==(const SchedulingSpec&) const = default;
};

struct TrainingJobSpec {
  std::string image;
  std::vector<std::string> command;
  std::vector<std::string> args;
  Json env = Json::array();       // core/v1 EnvVar
  Json env_from = Json::array();  // core/v1 EnvFromSource
  std::string working_dir;
  std::int32_t nodes = 0;
  std::int32_t gpus_per_node = 0;
  std::int32_t procs_per_node = 0;  // 0: not given; only resolved_procs_per_node() fills it in
  std::string gpu_resource_name = "nvidia.com/gpu";
  Json resources = Json::object();          // core/v1 ResourceRequirements
  Json volumes = Json::array();             // core/v1 Volume
  Json volume_mounts = Json::array();       // core/v1 VolumeMount
  Json image_pull_secrets = Json::array();  // core/v1 LocalObjectReference
  std::string shm_size;                     // quantity; empty: the runtime's own 64 MiB
  Json pod_template = Json::object();       // strategic merge patch over the generated pod
  RendezvousSpec rendezvous;
  std::optional<ElasticSpec> elastic;
  std::int32_t spares = 0;  // spares.nodes: warm pods beside the gang
  PlacementSpec placement;
  SchedulingSpec scheduling;
  RestartSpec restart;
  DeadlinesSpec deadlines;
  CheckpointSpec checkpoint;
  bool suspend = false;
  std::optional<std::int32_t> ttl_seconds_after_finished;
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
};

// Slots that have a pod: those of the gang and the spares.
std::int32_t slots_with_pods(const TrainingJobSpec& spec);

// Fewest pods that train: elastic.minNodes, or all of the gang.
std::int32_t fewest_nodes(const TrainingJobSpec& spec);

// Whether a generation may be formed without one of the slots that have a pod.
bool may_leave_out(const TrainingJobSpec& spec);

// procsPerNode, or gpusPerNode, or 1.
std::int32_t resolved_procs_per_node(const TrainingJobSpec& spec);

struct NodesStatus {
  std::int32_t desired = 0;
  std::int32_t ready = 0;
  std::int32_t min = 0;               // fewest that train
  std::optional<std::int32_t> max;    // most that spec.nodes may ask for
  std::optional<std::int32_t> spare;  // spares that are ready
  std::string summary;                // "3/4"
  bool operator==(const NodesStatus&) const = default;
};

// Where the gang is, as placement decided it.
struct PlacementStatus {
  std::vector<std::string> domains;  // that hold its pods, next to the node: "block-1/rack-3"; kMostDomains at most
  std::string level_spanned;         // of the innermost domain that holds the whole gang; kNodeLevel: one node
  std::string score;                 // the cost by placement/objective.h, lower is better: decimal text
  bool operator==(const PlacementStatus&) const = default;
};
// The API server refuses a status with more.
inline constexpr std::size_t kMostDomains = 64;

// Pods that leave because a user lowered spec.nodes: all of these slots, up to this incarnation.
struct Release {
  std::int32_t from_slot = 0;
  std::int64_t incarnation = 0;
  bool operator==(const Release&) const = default;
};

// The restarts in the window of the budget. While they are few each has an entry of its own.
struct CountedRestarts {
  WallTime time{};  // of the newest of them
  std::int32_t count = 1;
  bool operator==(const CountedRestarts&) const = default;
};

// A failure that the program itself caused.
struct OwnFailure {
  std::int64_t step = 0;
  std::int32_t exit_code = 0;
  bool operator==(const OwnFailure&) const = default;
};

// All that the restart policy keeps of a job; the list of attempts is for people.
struct RestartsStatus {
  std::int32_t total = 0;    // since the job was created
  std::int32_t charged = 0;  // of those, the ones that counted towards maxRestarts
  std::int32_t counted = 0;  // the sum of `window` when it last changed
  StoredName<Cause> last_cause;
  // Charged restarts since the last progress, oldest first; empty optional: written by a version without this field.
  std::optional<std::vector<CountedRestarts>> window;
  std::int32_t without_progress = 0;  // restarts in a row; sets the pause before the next one
  std::int64_t best_step = 0;         // the highest committed step at the end of any attempt
  std::optional<OwnFailure> last_failure;
  bool out_of_memory = false;  // a pod of the job was killed for memory
  bool operator==(const RestartsStatus&) const = default;
};

// One stretch from start to failure (or to the end).
struct Attempt {
  std::int64_t generation = 0;  // the generation that ended
  StoredName<Cause> cause;
  std::int32_t first_failing_rank = -1;
  std::string pod;
  std::string node;
  std::optional<std::int32_t> exit_code;
  std::string message;  // sentence with the tail of stderr where there is one
  StoredName<Strategy> strategy;
  std::string decision;  // the rule that decided that: half a sentence
  bool counted = false;  // towards maxRestarts
  std::optional<WallTime> start_time;
  std::optional<WallTime> end_time;  // when the coordinator saw the failure
  std::int64_t step = 0;             // last committed step that was reported
  // Milliseconds per phase of the recovery that followed; -1: unknown (so far).
  std::int64_t detect_ms = -1;      // death of the process to its report
  std::int64_t agree_ms = -1;       // report to GO of the next generation; of that, partly in parallel:
  std::int64_t decide_ms = -1;      //   until the controller had handled the failure
  std::int64_t abort_ms = -1;       //   until all earlier processes had ended their communicators, or themselves
  std::int64_t record_ms = -1;      //   the compare-and-set of the record
  std::int64_t start_ms = -1;       // GO to UP; of that, in the slowest rank:
  std::int64_t init_ms = -1;        //   to connect with the others
  std::int64_t transfer_ms = -1;    //   until it had the state
  std::int64_t first_step_ms = -1;  // UP to the first newly committed step
  bool operator==(const Attempt&) const = default;
};

// By the names that status, metrics and `lockstep explain` use.
struct RecoveryPhase {
  const char* name;
  std::int64_t Attempt::*ms;
};
inline constexpr RecoveryPhase kRecoveryPhases[] = {
    {"detect", &Attempt::detect_ms}, {"agree", &Attempt::agree_ms},       {"decide", &Attempt::decide_ms},
    {"abort", &Attempt::abort_ms},   {"record", &Attempt::record_ms},     {"start", &Attempt::start_ms},
    {"init", &Attempt::init_ms},     {"transfer", &Attempt::transfer_ms}, {"firstStep", &Attempt::first_step_ms},
};

struct ProgressStatus {
  std::int64_t step = 0, total_steps = 0, epoch = 0;
  std::string loss;  // decimal text: floats do not belong into the API
  std::string samples_per_second;
  std::int32_t percentage = 0;
  std::int64_t eta_seconds = 0;
  std::optional<WallTime> last_update;
  bool operator==(const ProgressStatus&) const = default;
};

// A trouble of a pod of the gang that the operator has handled.
enum class SlotTrouble {
  kNone,         // "": none
  kSilent,       // its agent fell silent, and the others continued without it
  kPartitioned,  // it did not reach another pod of the gang: the operator replaces it, and avoids its node for a while
  kNodeLost,     // its node died
  kUnhealthy,    // a device of it or its node is sick: the operator deletes it, and avoids its node for a while
};
// "Silent" for kSilent; "" for kNone.
std::string_view name_of(SlotTrouble trouble);
// Empty when no trouble has that name.
std::optional<SlotTrouble> slot_trouble_named(std::string_view name);

struct SlotStatus {
  std::int32_t slot = 0;
  StoredName<SlotTrouble> trouble;
  std::string pod;
  std::string node;
  std::optional<WallTime> since;
  std::int64_t generation = 0;  // that ended with it
  std::string sign;             // of kUnhealthy, and of kNodeLost where it is called dead: what says so
  bool operator==(const SlotStatus&) const = default;
};

struct TrainingJobStatus {
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions;  // Placed, Running, Restarting, Suspended, Succeeded, Failed
  std::string state;                  // one word derived from the conditions
  std::int64_t incarnation = 0;       // stored before the first create of a round
  std::vector<Release> released;      // stored before their pods are deleted, kept until the pods have ended
  std::int64_t membership_generation = 0;
  NodesStatus nodes;
  std::int32_t procs_per_node = 0;
  std::int32_t world_size = 0;
  std::optional<PlacementStatus> placement;  // empty: Lockstep did not place the pods
  RestartsStatus restarts;
  std::vector<Attempt> attempts;  // the last ten, for people
  // Pods in trouble, oldest first; empty optional: written by a version without this field.
  std::optional<std::vector<SlotStatus>> slots;
  std::optional<ProgressStatus> progress;
  std::optional<WallTime> start_time;
  std::optional<WallTime> completion_time;
  std::string selector;

  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
};

// Reads an object of the API server (or a job file turned into JSON). Unknown fields are ignored here: the server
// and validate() refuse them. A wrong type is kInvalid and names the field ("spec.nodes must be an integer").
Result<TrainingJob> parse_training_job(const Json& object);
Json to_json(const TrainingJobSpec& spec);
Json to_json(const TrainingJobStatus& status);
Json to_json(const TrainingJob& job);

}  // namespace lockstep::api
