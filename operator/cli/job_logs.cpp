// `lockstep logs`: the pods of a job by slot, one after the other, or all at once while they write.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/cli/cluster_commands.h"
#include "operator/cli/rank_logs.h"
#include "operator/cli/rank_table.h"
#include "operator/job/api_generation_store.h"

namespace lockstep::cli {
namespace {

Result<api::TrainingJob> find_job(const Target& target, const std::string& name) {
  const auto object = target.api.get(kube::kTrainingJobs, target.name_space, name);
  if (object) return api::parse_training_job(*object);
  if (object.error().code != ErrorCode::kNotFound ||
      object.error().message.find("not known to this server") != std::string::npos) {
    return object.error();
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no TrainingJob \"{}\" in namespace {}", name, target.name_space));
}

// Whole lines of several pods onto one stream; those of other ranks left out.
class Lines {
 public:
  Lines(std::FILE* out, std::optional<int> rank) : out_(out), rank_(rank) {}

  // For one pod; `left` keeps the unfinished line between calls.
  void write(std::string& left, std::string_view data) {
    left.append(data);
    const std::lock_guard guard(mutex_);
    size_t start = 0;
    for (size_t end = left.find('\n'); end != std::string::npos; end = left.find('\n', start)) {
      print(std::string_view(left).substr(start, end - start));
      start = end + 1;
    }
    left.erase(0, start);
    if (left.size() > kLongest) flush(left);
    fflush(out_);
  }
  void end(std::string& left) {
    const std::lock_guard guard(mutex_);
    if (!left.empty()) flush(left);
    fflush(out_);
  }

 private:
  static constexpr size_t kLongest = 64 * 1024;

  void flush(std::string& left) {
    print(left);
    left.clear();
  }
  // A line without a rank is the agent's own and belongs to all of its ranks.
  void print(std::string_view line) {
    const auto tagged = parse_tagged(line);
    if (!rank_ || !tagged || tagged->rank == *rank_) fmt::print(out_, "{}\n", line);
  }

  std::FILE* out_;
  const std::optional<int> rank_;
  std::mutex mutex_;
};

bool over(const api::TrainingJob& job) {
  return api::is_true(job.status.conditions, "Succeeded") || api::is_true(job.status.conditions, "Failed");
}

// Returns when the job has ended or was deleted, `until` is requested, or the server refuses the watch.
void watch_until_over(const Target& target, const std::string& name, std::stop_token until) {
  const std::string selector = "metadata.name=" + name;
  bool ended = false;
  while (!ended && !until.stop_requested()) {
    const auto page =
        target.api.list(kube::kTrainingJobs, {.name_space = target.name_space, .field_selector = selector});
    if (!page || page->items.empty()) return;
    const auto job = api::parse_training_job(page->items[0]);
    if (job && over(*job)) return;
    const Status status = target.api.watch(
        kube::kTrainingJobs,
        {.name_space = target.name_space, .field_selector = selector, .resource_version = page->resource_version},
        [&](kube::WatchEvent event) {
          if (event.type == kube::WatchEventType::kBookmark) return true;
          const auto now = api::parse_training_job(event.object);
          ended = event.type == kube::WatchEventType::kDeleted || (now && over(*now));
          return !ended;
        },
        until);
    if (!status && status.error().code != ErrorCode::kGone && status.error().code != ErrorCode::kDeadlineExceeded)
      return;
  }
}

// Reads the logs of a job's pods, each on a thread of its own. With a rank it reads only pods that have, or had, that
// rank. Any thread.
class Readers {
 public:
  using Read = std::function<void(const std::string& pod)>;
  Readers(bool by_rank, Read read) : by_rank_(by_rank), read_(std::move(read)) {}

  // A pod was listed, or has changed.
  void see(const api::Pod& pod) {
    const std::lock_guard guard(mutex_);
    if (pod.phase != "Pending") pods_[place_of(pod)] = {pod.meta.uid, pod.meta.name};
    if (!by_rank_ || place_of(pod) == holder_) start(place_of(pod));
  }
  // The pod that has the rank from now on.
  void hold(const std::optional<rendezvous::Place>& holder) {
    const std::lock_guard guard(mutex_);
    holder_ = holder;
    if (holder_) start(*holder_);
  }
  void join() {
    for (std::jthread& reader : threads_) reader.join();
  }

 private:
  struct Named {
    std::string uid, name;
  };

  void start(const rendezvous::Place& place) {
    const auto pod = pods_.find(place);
    if (pod == pods_.end() || !reading_.insert(pod->second.uid).second) return;
    threads_.emplace_back([this, name = pod->second.name] { read_(name); });
  }

  const bool by_rank_;
  const Read read_;
  std::mutex mutex_;
  std::map<rendezvous::Place, Named> pods_;  // that have started
  std::optional<rendezvous::Place> holder_;
  std::set<std::string> reading_;  // by uid
  std::vector<std::jthread> threads_;
};

// The pod that has the rank now; empty: it is not in the newest generation, or there is none.
Result<std::optional<rendezvous::Place>> holder_of(const Target& target, const api::TrainingJob& job, int rank) {
  LOCKSTEP_TRY(const auto ranks, ranks_of(target, job));
  if (ranks.slot_of(rank) < 0) return std::optional<rendezvous::Place>();
  return std::optional(ranks.places()[static_cast<std::size_t>(rank / ranks.procs())]);
}

bool over_for_watch(const Status& status) {
  return !status && status.error().code != ErrorCode::kGone && status.error().code != ErrorCode::kDeadlineExceeded &&
         status.error().code != ErrorCode::kCancelled;
}

// Lists what `options` select, then watches it, and calls `on_object` for everything that is there or changes,
// until `until` is asked for. A watch that ends is taken up again.
Status follow_objects(const Target& target, const kube::Resource& resource, const kube::ListOptions& options,
                      const std::function<void(const nlohmann::json&)>& on_object, const std::stop_token& until) {
  while (!until.stop_requested()) {
    LOCKSTEP_TRY(const auto now, target.api.list(resource, options));
    for (const auto& object : now.items) on_object(object);
    std::string version = now.resource_version;
    Status watched;
    while (watched.ok() && !until.stop_requested()) {
      watched = target.api.watch(
          resource,
          {.name_space = options.name_space,
           .label_selector = options.label_selector,
           .field_selector = options.field_selector,
           .resource_version = version},
          [&](kube::WatchEvent event) {
            version = event.object["metadata"].value("resourceVersion", version);
            if (event.type == kube::WatchEventType::kAdded || event.type == kube::WatchEventType::kModified) {
              on_object(event.object);
            }
            return true;
          },
          until);
    }
    if (over_for_watch(watched)) return watched;
  }
  return {};
}

}  // namespace

Status logs(const Target& target, const JobLogOptions& options, std::stop_token stop) {
  LOCKSTEP_TRY(const api::TrainingJob job, find_job(target, options.name));
  const int ranks = std::max(1, api::resolved_procs_per_node(job.spec)) * job.spec.nodes;
  if (options.rank && (*options.rank < 0 || *options.rank >= ranks)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} has ranks 0 to {}, so not {}", options.name, ranks - 1, *options.rank));
  }
  std::optional<rendezvous::Place> holder;
  if (options.rank) {
    LOCKSTEP_TRY(holder, holder_of(target, job, *options.rank));
    if (!holder && (over(job) || !options.follow)) {
      return fail(ErrorCode::kNotFound, fmt::format("no pod of {} has rank {} now", options.name, *options.rank));
    }
  }
  const kube::ListOptions of_job{.name_space = target.name_space,
                                 .label_selector = std::string(api::kLabelJobUid) + "=" + job.meta.uid,
                                 .limit = 0};
  LOCKSTEP_TRY(const auto page, target.api.list(kube::kPods, of_job));
  std::vector<api::Pod> pods;
  for (const auto& object : page.items) {
    LOCKSTEP_TRY(api::Pod pod, api::parse_pod(object));
    if (!options.rank || place_of(pod) == holder) pods.push_back(std::move(pod));
  }
  std::sort(pods.begin(), pods.end(), [](const auto& a, const auto& b) { return place_of(a).slot < place_of(b).slot; });
  if (pods.empty() && (over(job) || !options.follow)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} has no pods{}", options.name, over(job) ? " left (spec.cleanPodPolicy)" : " yet"));
  }

  Lines lines(target.out, options.rank);
  const auto read = [&](const std::string& pod, std::stop_token until) {
    std::string left;
    const Status status = target.api.read_log(
        target.name_space, pod, {.container = "trainer", .follow = options.follow, .tail_lines = options.tail},
        [&](std::string_view data) {
          lines.write(left, data);
          return true;
        },
        std::move(until));
    lines.end(left);
    return status;
  };
  if (!options.follow) {
    for (const api::Pod& pod : pods) {
      const Status status = read(pod.meta.name, stop);
      if (!status && pod.phase != "Pending") return status;
    }
    return {};
  }

  // One reader per pod, started once the pod runs, also for pods that come later; until the job ends.
  std::stop_source over_source;
  const std::stop_callback on_stop(stop, [&] { over_source.request_stop(); });
  Readers readers(options.rank.has_value(), [&](const std::string& pod) { (void)read(pod, stop); });
  readers.hold(holder);
  std::jthread job_watch([&](std::stop_token until) {
    watch_until_over(target, options.name, until);
    over_source.request_stop();
  });
  // The rank may move to another pod with each generation.
  Status rank_followed;
  std::jthread rank_watch;
  if (options.rank) {
    rank_watch = std::jthread([&] {
      rank_followed = follow_objects(
          target, kube::kConfigMaps,
          {.name_space = target.name_space, .field_selector = "metadata.name=" + job::record_name(options.name)},
          [&](const nlohmann::json&) {
            if (const auto now = holder_of(target, job, *options.rank); now && *now) readers.hold(*now);
          },
          over_source.get_token());
      if (!rank_followed) over_source.request_stop();
    });
  }
  const Status followed = follow_objects(
      target, kube::kPods, of_job,
      [&](const nlohmann::json& object) {
        if (const auto pod = api::parse_pod(object)) readers.see(*pod);
      },
      over_source.get_token());
  over_source.request_stop();
  if (rank_watch.joinable()) rank_watch.join();
  readers.join();
  job_watch.request_stop();
  return followed ? rank_followed : followed;
}

}  // namespace lockstep::cli
