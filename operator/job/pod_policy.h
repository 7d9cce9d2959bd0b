// Which pods a job has, which of them are lost, and which to create and delete. A slot keeps its number while its pod
// changes; a new round of pods is one higher incarnation of the job, written to the status before its first create.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/api/cause.h"
#include "operator/job/plan.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

enum class SlotState {
  kEmpty,  // no pod, or only pods that are going away and whose loss was dealt with, or is none
  kLive,   // a pod that runs or will run
  kDone,   // its pod succeeded
  kLost,   // its pod is gone, failed, going away, or on a dead node, and nobody has dealt with it yet
};

struct SlotView {
  int slot = 0;
  SlotState state = SlotState::kEmpty;
  const api::Pod* pod = nullptr;  // the newest of the slot; null when there is none. Owned by the snapshot
  std::int64_t incarnation = 0;   // of `pod`
  // When lost: what happened.
  api::Cause cause = api::Cause::kNone;
  std::string message;
  std::optional<int> exit_code;
  // The gang goes on without this slot, or it is a spare: nothing that happens to its pod ends the generation.
  bool outside = false;
  // Its node refused the pod, which placement replaces: no loss, and the slot is empty.
  bool refused = false;

  bool usable() const { return state == SlotState::kLive || state == SlotState::kDone; }
};

// How long after its grace period a pod that leaves may keep its successor waiting. Its container may never end: a
// process that hangs in a driver does not.
inline constexpr auto kLeaveOverdue = std::chrono::seconds(10);

struct Survey {
  std::vector<SlotView> slots;             // those of the gang and the spares
  std::vector<const api::Pod*> leftovers;  // older incarnations
  std::vector<const api::Pod*> surplus;    // of slots beyond those of the job, not released yet
  std::vector<const api::Pod*> released;   // those that leave, of whatever slot

  bool all_placed() const;  // every slot has a usable pod that is bound to a node
  int placed() const;       // slots that have one
  int done() const;         // slots whose pod succeeded
  int ready() const;        // slots whose pod is live and ready
};

// The stored entry of a silence of the slot's pod, without which the others went on. Null when there is none, or more
// is known of that pod.
const api::SlotStatus* find_silence(const api::TrainingJobStatus& status, const SlotView& slot);

// The highest incarnation that status or pods know: a status that was lost does not make old names new again.
std::int64_t known_incarnation(const Snapshot& snapshot);
// That of the next round of pods; never above kMostIncarnation.
std::int64_t next_incarnation(const Snapshot& snapshot);

// The reason of condition Placed while the gang has its nodes and some spare has none.
inline constexpr const char* kGangPlaced = "GangPlaced";
// Condition Placed tells that every slot had a pod, spares included: one that is missing is a loss.
bool all_were_placed(const api::TrainingJobStatus& status);

// Sorts the pods of the job into slots, for a job whose newest round is `incarnation`; with strategy Gang all pods of
// older rounds are leftovers. `unhandled_generation`: a generation exists whose end was not dealt with.
Survey survey(const Snapshot& snapshot, std::int64_t incarnation, const std::vector<api::Release>& released,
              bool unhandled_generation);
// The same for a job that does not run: by the stored status, with nothing to be dealt with.
Survey survey(const Snapshot& snapshot);

// True when the pod's node is known and is not ready, was taken out of service, or counts as lost (death_policy.h).
bool on_dead_node(const Snapshot& snapshot, const api::Pod& pod);
// And its agent is silent, too.
bool silent_on_dead_node(const Snapshot& snapshot, const api::Pod& pod);
// And it is, though it had the time to find this process, or status.slots tells of that loss already.
// A node is also called not ready when only its kubelet is away, or the API server was.
bool lost_with_node(const Snapshot& snapshot, const api::Pod& pod);
// Of a job that stops and is to go on later: its processes may still save what they hold, or tell of it.
bool may_save(const Snapshot& snapshot, const api::Pod& pod);

// Deletes every pod of `pods`. One that is on a dead node gets restart.forceDeleteAfterSeconds to go and is then
// removed by force; one that is going away already is left alone.
void delete_pods(const Snapshot& snapshot, const std::vector<const api::Pod*>& pods, const std::string& why,
                 Plan& plan);

// Fills in what is missing and removes what must not be there, for a job that should run. Missing may be the Service,
// and a pod for every empty slot at `status.incarnation`. Leftovers and released pods must not be there. Where the
// operator places the pods, what its answer says of them, too. Creates wait for `hold_creates_until`, and after a
// refusal for a while.
void plan_pods(const Snapshot& snapshot, const Survey& survey, const api::TrainingJobStatus& status,
               WallTime hold_creates_until, Plan& plan);

// When the next create is tried after a refusal: 1 s, doubling up to 30 s.
WallTime next_create_try(const CreateProblem& problem);

}  // namespace lockstep::job
