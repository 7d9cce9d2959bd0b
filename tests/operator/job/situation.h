// Builds snapshots for tests of decide(): a job, its pods, what the coordinator says, the time.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "operator/job/decide.h"
#include "operator/job/job_status.h"
#include "operator/job/pod_policy.h"

namespace lockstep::job {

inline const WallTime kStart{std::chrono::seconds(1'700'000'000)};

// A job with its world. Functions return pods and status to be changed in place; snapshot() freezes a copy.
struct Situation {
  api::TrainingJob job;
  std::vector<api::Pod> pods;
  std::vector<api::Node> nodes;
  std::map<std::string, Sickness> sick_pods;
  std::map<std::string, std::string> dead_nodes;
  bool service = true;
  std::optional<rendezvous::JobView> view;
  std::optional<CreateProblem> problem;
  std::optional<Placing> placing;
  std::optional<WallTime> last_write;
  bool settling = false, reconnecting = false;
  Duration progress_every = kProgressEvery;
  WallTime now = kStart;

  explicit Situation(int slots = 2, int procs = 1) {
    job.meta.name = "a";
    job.meta.name_space = "default";
    job.meta.uid = "abcd-1";
    job.meta.generation = 1;
    job.meta.created = kStart;
    job.spec.image = "image";
    job.spec.command = {"train"};
    job.spec.nodes = slots;
    job.spec.procs_per_node = procs;
  }

  api::Pod& pod(int slot, std::int64_t incarnation = 1, const std::string& phase = "Running") {
    api::Pod pod;
    pod.meta.name = fmt::format("a-abcd-{}-{}", slot, incarnation);
    pod.meta.name_space = "default";
    pod.meta.uid = fmt::format("uid-{}-{}", slot, incarnation);
    pod.meta.labels = {{api::kLabelSlot, std::to_string(slot)}, {api::kLabelIncarnation, std::to_string(incarnation)}};
    pod.phase = phase;
    pod.node_name = fmt::format("node-{}", slot);
    pod.scheduled = true;
    pod.scheduled_at = now;
    pod.ready = phase == "Running";
    pods.push_back(pod);
    return pods.back();
  }

  // As the scheduler does, at `now`.
  void place(api::Pod& pod) { pod.scheduled_at = now; }

  api::Node& node(int number, bool ready) {
    api::Node node;
    node.meta.name = fmt::format("node-{}", number);
    node.ready = ready;
    nodes.push_back(node);
    return nodes.back();
  }

  rendezvous::JobView& see(rendezvous::Phase phase, std::int64_t generation) {
    if (!view) view.emplace();
    view->phase = phase;
    view->generation = generation;
    view->failure.reset();
    return *view;
  }

  rendezvous::Failure& broken(std::int64_t generation, api::Cause cause, int slot, std::optional<int> exit_code = {}) {
    see(rendezvous::Phase::kBroken, generation);
    view->failure.emplace();
    view->failure->generation = generation;
    view->failure->cause = cause;
    view->failure->slot = slot;
    view->failure->rank = slot;
    view->failure->exit_code = exit_code;
    view->failure->message = std::string(api::name_of(cause)) + " of slot " + std::to_string(slot);
    view->failure->time = now - std::chrono::seconds(10);
    return *view->failure;
  }

  // A job of which every pod runs and whose generation is up; its status is what decide() made of that.
  Situation& running(std::int64_t generation = 1) {
    see(rendezvous::Phase::kWaiting, 0);
    accept();
    for (int slot = 0; slot < job.spec.nodes; ++slot) pod(slot);
    see(rendezvous::Phase::kUp, generation);
    accept();
    connect();
    return *this;
  }

  void connect() {
    view->members.clear();
    for (const auto& pod : pods) {
      const auto identity = identity_of(pod.meta);
      view->members.push_back({identity->slot, identity->incarnation, true, true, true});
    }
    // A view lists them by slot.
    std::sort(view->members.begin(), view->members.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  }

  Snapshot snapshot() const {
    Snapshot snapshot;
    snapshot.job = std::make_shared<api::TrainingJob>(job);
    for (const auto& pod : pods) snapshot.pods.push_back(std::make_shared<api::Pod>(pod));
    for (const auto& node : nodes) snapshot.nodes[node.meta.name] = std::make_shared<api::Node>(node);
    snapshot.sick_pods = sick_pods;
    snapshot.dead_nodes = dead_nodes;
    snapshot.service_present = service;
    snapshot.view = view;
    snapshot.create_problem = problem;
    snapshot.placing = placing;
    snapshot.last_status_write = last_write;
    snapshot.settling = settling;
    snapshot.reconnecting = reconnecting;
    snapshot.progress_every = progress_every;
    snapshot.now = now;
    if (view && view->failure) snapshot.failure_age = std::max<Duration>(now - view->failure->time, Duration::zero());
    return snapshot;
  }

  Plan plan() const { return decide(snapshot()); }

  // Decides, and stores the status as the API server would.
  Plan accept() {
    Plan plan = this->plan();
    if (plan.status) job.status = *plan.status;
    return plan;
  }

  const api::Condition* condition(const std::string& type) const {
    return api::find_condition(job.status.conditions, type);
  }
  std::string reason(const std::string& type) const {
    return condition(type) == nullptr ? "" : condition(type)->reason;
  }
  bool is(const std::string& type) const { return api::is_true(job.status.conditions, type); }
};

// Three pods that train, and some that are held ready; all are connected.
struct TrainingThree : Situation {
  explicit TrainingThree(int spares) : Situation(3) {
    job.spec.spares = spares;
    see(rendezvous::Phase::kWaiting, 0);
    accept();
    for (int slot = 0; slot < 3 + spares; ++slot) pod(slot);
    see(rendezvous::Phase::kUp, 1).world_size = 3;
    connect();
    for (auto& member : view->members) member.in_gang = member.up = member.slot < 3;
    accept();
  }
  void shrinks_to(int fewest) {
    job.spec.elastic.emplace();
    job.spec.elastic->min_nodes = fewest;
  }
};

}  // namespace lockstep::job
