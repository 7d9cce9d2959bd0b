#include "operator/job/job_controller.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/cache/informer.h"
#include "operator/control/controller.h"
#include "operator/control/own_writes.h"
#include "operator/control/work_queue.h"
#include "operator/job/api_generation_store.h"
#include "operator/job/cluster_feed.h"
#include "operator/job/executor.h"
#include "operator/job/fenced_api.h"
#include "operator/job/located_node.h"
#include "operator/job/reconciler.h"
#include "operator/job/sickness_watch.h"
#include "operator/job/token_authenticator.h"
#include "operator/kube/event_recorder.h"

namespace lockstep::job {
namespace {

constexpr const char* kNodePrefix = "node/";  // of index values; owner_index() has another one

Result<ServiceRecord> parse_service(const api::Json& object) {
  LOCKSTEP_TRY(auto meta, api::parse_meta(object));
  return ServiceRecord{std::move(meta)};
}

api::ObjectKey job_of(const api::ObjectMeta& meta) {
  return {meta.name_space, meta.label(api::kLabelJob)};
}

bool same_for_jobs(const api::Node& a, const api::Node& b) {
  return a.meta.uid == b.meta.uid && a.ready == b.ready && a.out_of_service == b.out_of_service && a.path == b.path &&
         a.sickness == b.sickness && a.death == b.death;
}

// Something happened to a pod that was there. Otherwise it is one of many that come and start.
bool is_loss(const api::Pod* before, const api::Pod* after) {
  if (after == nullptr) return true;
  const bool was_well = before == nullptr || (!before->terminal() && !before->meta.deleted);
  return was_well && (after->terminal() || after->meta.deleted);
}

// A plan that was made for `before` is not the one for `after`.
bool outdates_plan(const api::TrainingJob* before, const api::TrainingJob* after) {
  return before == nullptr || after == nullptr || before->meta.uid != after->meta.uid ||
         before->meta.generation != after->meta.generation || after->meta.deleted != before->meta.deleted;
}

// What of a coordinator's view calls for a decision at once; everything else is about single members.
struct Heard {
  std::int64_t generation = 0;
  rendezvous::Phase phase = rendezvous::Phase::kWaiting;
  bool failed = false;
  bool operator==(const Heard&) const = default;
};

class Impl final : public JobController {
 public:
  Impl(const JobControllerOptions& options, kube::Api& api, MetricsRegistry& metrics, Clock& clock)
      : options_(options),
        api_(api, options.may_write),
        records_(api_),
        token_authenticator_(api),  // a TokenReview is a question: it needs no leader
        queue_(clock, metrics),
        own_writes_(clock),
        sickness_(clock),
        deaths_(clock),
        executor_(clock, metrics, {.most = options.most_bulk_writes, .stuck_after = options.stuck_after},
                  [this](const api::ObjectKey& key) { queue_.add(key); }),
        events_(api_, clock, metrics, {.controller = options.event_source, .instance = options.instance}),
        jobs_(api_, clock, metrics, kube::kTrainingJobs, api::parse_training_job,
              {.reflector = everywhere(""), .index_by = {}},
              [this](const auto& before, const auto& after) { job_changed(before.get(), after.get()); }),
        pods_(api_, clock, metrics, kube::kPods, api::parse_pod,
              {.reflector = everywhere(api::kLabelJobUid, &api::pod_fields()),
               .index_by =
                   [](const api::Pod& pod) {
                     return std::vector{owner_index(pod.meta), kNodePrefix + pod.node_name};
                   }},
              [this](const auto& before, const auto& after) { pod_changed(before.get(), after.get()); }),
        nodes_(
            api_, clock, metrics, kube::kNodes,
            [topology = options.topology, signs = NodeSigns{options.leave_signs, options.dead_signs}](
                const api::Json& object) { return parse_located_node(object, topology, signs); },
            {}, [this](const auto& before, const auto& after) { node_changed(before.get(), after.get()); }),
        services_(
            api_, clock, metrics, kube::kServices, parse_service,
            {.reflector = everywhere(api::kLabelJobUid),
             .index_by = [](const ServiceRecord& service) { return std::vector{owner_index(service.meta)}; }},
            [this](const auto& before, const auto& after) { queue_.add(job_of((after ? after : before)->meta)); }) {
    own_writes_.add_cache(kJobCache, control::view_of(jobs_.store()));
    own_writes_.add_cache(kPodCache, control::view_of(pods_.store()));
    own_writes_.add_cache(kServiceCache, control::view_of(services_.store()));
  }

  ~Impl() override { stop(); }

  Status start(MetricsRegistry& metrics, Clock& clock) {
    auto& authenticator = options_.authenticator != nullptr ? *options_.authenticator : token_authenticator_;
    const auto make = options_.make_coordinator ? options_.make_coordinator : rendezvous::start_coordinator;
    LOCKSTEP_TRY(coordinator_, make(options_.coordinator, records_, authenticator, clock,
                                    [this](const std::string& name_space, const std::string& name) {
                                      view_changed({name_space, name});
                                    }));
    if (options_.placement) prepare_placement(metrics, clock);
    ReconcilerOptions reconciling;
    if (placement_) reconciling.placement = &*placement_;
    reconciling.sickness = &sickness_;
    reconciling.deaths = &deaths_;
    reconciling.agent = agent_settings(options_.advertise_address, options_.coordinator_ca_pem);
    const Caches caches{&jobs_.store(), &pods_.store(), &nodes_.store(), &services_.store()};
    reconciler_.emplace(api_, caches, *coordinator_, own_writes_, executor_, clock, metrics, reconciling,
                        [this](const api::TrainingJob& job, const EventToSend& event) { send(job, event); });
    std::vector<const cache::Synced*> caches_to_fill{&jobs_, &pods_, &nodes_, &services_};
    if (feed_) caches_to_fill.push_back(&*feed_);
    controller_.emplace(
        queue_, own_writes_, std::move(caches_to_fill), clock, metrics,
        control::ControllerOptions{
            .workers = options_.workers, .resync = options_.resync_every, .stuck_after = options_.stuck_after},
        [this](const api::ObjectKey& key) { return reconciler_->reconcile(key); }, [this] { return all_keys(); });
    jobs_.start();
    pods_.start();
    nodes_.start();
    services_.start();
    if (feed_) {
      feed_->start();
      desk_->start();
    }
    controller_->start();
    return {};
  }

  void stop() override {
    if (controller_) controller_->stop();
    executor_.stop();
    if (feed_) {
      feed_->stop();
      desk_->stop();
    }
    jobs_.stop();
    pods_.stop();
    nodes_.stop();
    services_.stop();
    events_.stop();
  }

  std::string advertise_address() const override {
    const std::lock_guard guard(access_mutex_);
    return advertised_;
  }
  Status change_access(const std::string& advertise_address, const std::string& ca_pem,
                       const rendezvous::KeyPair& serving) override {
    LOCKSTEP_CHECK_OK(coordinator_->use_certificate(serving));
    reconciler_->set_agent(agent_settings(advertise_address, ca_pem));
    return {};
  }
  bool synced() const override { return controller_ && controller_->caches_synced(); }
  bool healthy() const override { return executor_.healthy() && (!controller_ || controller_->healthy()); }
  const rendezvous::Coordinator& coordinator() const override { return *coordinator_; }

 private:
  cache::ReflectorOptions everywhere(const std::string& label_selector, const JsonPaths* fields = nullptr) const {
    cache::ReflectorOptions options;
    options.name_space = options_.watch_namespace;
    options.label_selector = label_selector;
    options.fields = fields;
    return options;
  }

  void prepare_placement(MetricsRegistry& metrics, Clock& clock) {
    if (options_.placement->unavailable.empty()) {
      feed_.emplace(api_, clock, metrics, options_.topology, options_.sick_signs, [this] { desk_->cluster_changed(); });
      desk_.emplace(
          *feed_, clock, metrics,
          [this] {
            std::set<std::string> uids;
            for (const auto& job : jobs_.store().list()) uids.insert(job->meta.uid);
            return uids;
          },
          [this](const api::ObjectKey& key) { queue_.add(key); });
    }
    placement_.emplace(desk_ ? &*desk_ : nullptr, api_, clock, options_.topology, *options_.placement);
  }

  void job_changed(const api::TrainingJob* before, const api::TrainingJob* after) {
    const auto key = (after != nullptr ? after : before)->meta.key();
    if (outdates_plan(before, after)) executor_.interrupt(key);
    if (after == nullptr) {
      const std::lock_guard guard(mutex_);
      heard_.erase(key);
    }
    queue_.add(key);
  }

  // A pod keeps its node, once it has one. After a watch that was cut, `after` may be another pod of the same name.
  void note_device(const api::Pod* before, const api::Pod* after) {
    if (!options_.leave_unhealthy_devices) return;
    const auto is_sick = [](const api::Pod* pod) { return pod != nullptr && !pod->unhealthy_device.empty(); };
    const bool same = before != nullptr && after != nullptr && before->meta.uid == after->meta.uid;
    if (is_sick(before) && !(same && is_sick(after))) sickness_.note(before->node_name, before->meta.uid, false);
    if (is_sick(after)) sickness_.note(after->node_name, after->meta.uid, true);
  }

  void pod_changed(const api::Pod* before, const api::Pod* after) {
    note_device(before, after);
    const auto key = job_of((after != nullptr ? after : before)->meta);
    if (is_loss(before, after)) {
      queue_.add(key);
    } else {
      queue_.add_soon(key);
    }
  }

  // On the coordinator's thread.
  void view_changed(const api::ObjectKey& key) {
    const auto job = jobs_.store().get(key);
    const auto view = job ? coordinator_->view(job->meta.uid) : std::nullopt;
    if (!view) return queue_.add(key);
    const Heard heard{view->generation, view->phase, view->failure.has_value()};
    bool news = false;
    {
      const std::lock_guard guard(mutex_);
      Heard& last = heard_[key];
      news = heard != last;
      last = heard;
    }
    if (!news) return queue_.add_soon(key);
    if (heard.failed) executor_.interrupt(key);
    queue_.add(key);
  }

  // Of pods that dial `wanted`: an address, one without a port, or "" for where the coordinator listens.
  AgentSettings agent_settings(const std::string& wanted, const std::string& ca_pem) {
    const auto own = coordinator_->address();
    const bool has_port = wanted.find(':') != std::string::npos && !wanted.ends_with(']');
    AgentSettings agent;
    agent.image = options_.agent_image;
    agent.coordinator_address = wanted.empty() ? own : has_port ? wanted : wanted + own.substr(own.rfind(':'));
    agent.coordinator_ca_pem = ca_pem;
    agent.trusts = rendezvous::fingerprints(ca_pem);
    const std::lock_guard guard(access_mutex_);
    advertised_ = agent.coordinator_address;
    return agent;
  }

  void node_changed(const api::Node* before, const api::Node* after) {
    if (before != nullptr && after != nullptr && same_for_jobs(*before, *after)) return;
    const auto& name = (after != nullptr ? after : before)->meta.name;
    sickness_.note(name, kNodePrefix + name, after != nullptr && !after->sickness.empty());
    deaths_.note(name, name, after != nullptr && !after->death.empty());
    for (const auto& pod : pods_.store().by_index(kNodePrefix + name)) queue_.add(job_of(pod->meta));
  }

  std::vector<api::ObjectKey> all_keys() const {
    std::vector<api::ObjectKey> keys;
    for (const auto& job : jobs_.store().list()) keys.push_back(job->meta.key());
    return keys;
  }

  void send(const api::TrainingJob& job, const EventToSend& event) {
    events_.record(
        {kube::kTrainingJobs.api_version(), kube::kTrainingJobs.kind, job.meta.name_space, job.meta.name, job.meta.uid},
        event.warning ? "Warning" : "Normal", event.reason, event.action, event.note);
  }

  const JobControllerOptions options_;
  mutable std::mutex access_mutex_;
  std::string advertised_;  // protected by access_mutex_
  FencedApi api_;
  ApiGenerationStore records_;
  TokenAuthenticator token_authenticator_;
  control::WorkQueue queue_;
  control::OwnWrites own_writes_;
  SicknessWatch sickness_;
  SicknessWatch deaths_;  // of nodes with a sign that they count as lost
  Executor executor_;
  kube::EventRecorder events_;
  cache::Informer<api::TrainingJob> jobs_;
  cache::Informer<api::Pod> pods_;
  cache::Informer<api::Node> nodes_;
  cache::Informer<ServiceRecord> services_;
  std::mutex mutex_;
  std::map<api::ObjectKey, Heard> heard_;  // of jobs that the coordinator spoke of; protected by mutex_
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::optional<ClusterFeed> feed_;
  std::optional<PlacementDesk> desk_;
  std::optional<JobPlacement> placement_;
  std::optional<Reconciler> reconciler_;
  std::optional<control::Controller> controller_;  // last: its threads use all of the above
};

Error explain(const Error& error, const kube::Resource& resource) {
  if (error.code == ErrorCode::kNotFound && resource == kube::kTrainingJobs) {
    return fail(ErrorCode::kNotFound,
                "the CRD trainingjobs.lockstep.dev is not installed; apply manifests/crd.yaml or install the chart");
  }
  if (error.code == ErrorCode::kForbidden) {
    return fail(ErrorCode::kForbidden, "no permission to list " + resource.plural + ": " + error.message +
                                           "; the chart's ClusterRole has the rules that are needed");
  }
  return error.in("listing " + resource.plural);
}

}  // namespace

Status check_access(kube::Api& api, const std::string& watch_namespace) {
  for (const auto* resource : {&kube::kTrainingJobs, &kube::kPods, &kube::kNodes, &kube::kServices}) {
    kube::ListOptions options;
    options.name_space = resource->namespaced ? watch_namespace : "";
    options.limit = 1;
    if (auto page = api.list(*resource, options); !page) return explain(page.error(), *resource);
  }
  return {};
}

Result<std::unique_ptr<JobController>> start_job_controller(const JobControllerOptions& options, kube::Api& api,
                                                            MetricsRegistry& metrics, Clock& clock) {
  auto controller = std::make_unique<Impl>(options, api, metrics, clock);
  LOCKSTEP_CHECK_OK(controller->start(metrics, clock));
  return std::unique_ptr<JobController>(std::move(controller));
}

}  // namespace lockstep::job
