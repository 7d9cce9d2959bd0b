// A small world for tests of the reconciler. It has a real in-memory API server, a kubelet and agents that do as they
// are told, and a coordinator by the rules of coordinator.h. The operator can die after any write.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/base/metrics.h"
#include "operator/cache/store.h"
#include "operator/control/own_writes.h"
#include "operator/job/pod_policy.h"
#include "operator/job/reconciler.h"
#include "operator/local/memory_api.h"
#include "tests/operator/job/hooked_api.h"

namespace lockstep::job {

struct Crash {};  // thrown out of a write of an operator that dies right after it

// The operator's way to the server: counts its writes, and dies when told.
class MortalApi final : public testing::HookedApi {
 public:
  using HookedApi::HookedApi;

  int writes = 0;
  int die_after = 0;                        // 0: never
  std::map<std::string, int> pods_created;  // by name
  // Pods recreated while the stored status said that every slot had its pod.
  std::vector<std::string> created_while_placed;
  int gang_placed = 0;  // pods created while the stored status said that the gang, and not all spares, had its nodes
  // Pods created while the stored status said that the gang had its nodes, and it did not.
  std::vector<std::string> created_while_gang_placed;
  std::function<std::optional<Error>(const std::string& kind, const Json& object)> refuse_create;

 private:
  std::optional<Error> before(const Write& write) override {
    if (write.object == nullptr || !refuse_create) return std::nullopt;
    return refuse_create(write.resource.kind, *write.object);
  }
  void after(const Write& write, bool made) override {
    if (made && write.object != nullptr && write.resource == kube::kPods) count_pod(write);
    ++writes;
    if (die_after > 0 && writes == die_after) throw Crash{};
  }
  void count_pod(const Write& write) {
    ++pods_created[write.name];
    const auto& meta = (*write.object)["metadata"];
    const auto job = api_.get(kube::kTrainingJobs, meta["namespace"], meta["labels"][api::kLabelJob]);
    const auto parsed = job ? api::parse_training_job(*job) : job.error();
    // The first pod of a slot that the user has added replaces nothing.
    const bool first = slots_.insert(meta["labels"][api::kLabelSlot].get<std::string>()).second;
    if (!first && parsed && all_were_placed(parsed->status)) {
      created_while_placed.push_back(write.name);
    }
    if (parsed && !all_were_placed(parsed->status) && api::is_true(parsed->status.conditions, "Placed")) {
      ++gang_placed;
      if (bound_pods() < parsed->spec.nodes) created_while_gang_placed.push_back(write.name);
    }
  }
  int bound_pods() {
    int bound = 0;
    const auto page = api_.list(kube::kPods, {});
    for (const Json& item : page->items) {
      const auto pod = api::parse_pod(item);
      const bool counts = pod && !pod->node_name.empty() && !pod->meta.deleted;
      bound += counts && (!pod->terminal() || pod->phase == "Succeeded") ? 1 : 0;
    }
    return bound;
  }

  std::set<std::string> slots_;  // that ever had a pod
};

// What agents and record know: it outlives any coordinator.
struct Gang {
  std::int64_t generation = 0;
  std::map<int, std::string> uid_of_slot;
  bool over = true;
  std::map<int, bool> silent;  // by slot: the agent cannot be heard though its pod looks well
  std::optional<rendezvous::Failure> failure;
  bool finished = false;
  bool stopped = false;
};

class World {
 public:
  World();
  ~World();

  ManualClock clock;
  local::MemoryApi api{clock};
  MortalApi mortal{api};
  MetricsRegistry metrics;
  Gang gang;
  std::vector<EventToSend> events;
  std::vector<std::string> violations;  // of what must always hold
  int crashes = 0;                      // of the operator, after a write
  int left = 0;                         // members that left because they were sick
  int lost_by_sign = 0;                 // pods that were told to go because their node has a sign
  bool gang_holds_state = false;        // processes of pods that run keep their memory between generations

  // The job that every World has; `change` may change it before it is created.
  void create_job(const std::function<void(api::TrainingJob&)>& change = {});
  api::TrainingJob job();
  std::vector<api::Pod> pods();  // a copy: the world moves on while it is walked through
  const api::ObjectKey key{"default", "a"};

  // Nodes, kubelets, agents: everything that is not the operator moves by one step.
  void move();
  // The operator looks at the job once. False when it died.
  bool reconcile();
  // move() and reconcile() by turns, a second apart; operators that die are replaced.
  void run(int turns);
  void start_operator();
  void stop_operator();

  void set_node(int number, bool ready);
  bool node_ready(int number) const { return dead_nodes_.count(number) == 0; }
  // The node has a sign that it counts as lost, or has it no longer. Its kubelet and agents go on.
  void call_dead(int number, bool dead);
  void break_gang(api::Cause cause, int slot, std::optional<int> exit_code);
  void delete_pod(const std::string& name);
  void fail_pod(const std::string& name, int exit_code);
  // A device of that pod is Unhealthy from now on.
  void sicken(const std::string& name);
  void finish();
  void set_suspend(bool value);
  void set_nodes(int value);
  bool up() const { return !gang.over && !gang.failure && !gang.finished; }

 private:
  class ScriptedCoordinator;
  struct Operator;

  void sync();
  void check();
  void check_state();
  void check_leaving(bool knows);  // `knows`: the world is as it was when the operator decided
  void check_dead();
  void look();  // reads the fields below again if the store has changed
  std::optional<api::Pod> pod_of_uid(const std::string& uid);
  bool works(const api::Pod& pod);
  void set_pod_status(const std::string& name, const std::function<void(api::Json&)>& change);

  std::uint64_t seen_ = 0;  // version of the store that these two are of
  api::TrainingJob job_;
  std::vector<api::Pod> pods_;
  std::set<int> dead_nodes_;
  std::set<std::string> called_dead_;        // nodes
  std::map<std::string, int> stay_on_dead_;  // by pod: how often the operator has decided since it had to go
  std::set<std::string> terminal_seen_;
  std::string state_;                    // status.state at the last check
  std::set<std::string> told_to_leave_;  // pods
  std::unique_ptr<Operator> operator_;
};

}  // namespace lockstep::job
