// `lockstep logs`: the pods of a job by slot, one after the other, or all at once while they write.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/cli/cluster_commands.h"
#include "operator/cli/rank_logs.h"

namespace lockstep::cli {
namespace {

int slot_of(const api::Pod& pod) {
  return std::atoi(pod.meta.label(api::kLabelSlot).c_str());
}

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
  // What has no rank in front is the agent's own and belongs to all of its ranks.
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

// Returns when the job is finished or gone, `until` is asked for, or the server cannot be watched any more.
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

}  // namespace

Status logs(const Target& target, const JobLogOptions& options, std::stop_token stop) {
  LOCKSTEP_TRY(const api::TrainingJob job, find_job(target, options.name));
  const int procs = std::max(1, api::resolved_procs_per_node(job.spec));
  if (options.rank && (*options.rank < 0 || *options.rank >= procs * job.spec.nodes)) {
    return fail(ErrorCode::kInvalid, fmt::format("{} has ranks 0 to {}, so not {}", options.name,
                                                 procs * job.spec.nodes - 1, *options.rank));
  }
  const std::string selector = std::string(api::kLabelJobUid) + "=" + job.meta.uid;
  const auto wanted = [&](const api::Pod& pod) { return !options.rank || slot_of(pod) == *options.rank / procs; };
  LOCKSTEP_TRY(const auto page,
               target.api.list(kube::kPods, {.name_space = target.name_space, .label_selector = selector, .limit = 0}));
  std::vector<api::Pod> pods;
  for (const auto& object : page.items) {
    LOCKSTEP_TRY(api::Pod pod, api::parse_pod(object));
    if (wanted(pod)) pods.push_back(std::move(pod));
  }
  std::sort(pods.begin(), pods.end(), [](const auto& a, const auto& b) { return slot_of(a) < slot_of(b); });
  if (pods.empty() && (over(job) || !options.follow)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} has no pods{}", options.name, over(job) ? " any more (spec.cleanPodPolicy)" : " yet"));
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

  // A reader per pod, started once the pod runs, for those that come later too; until the job is over.
  std::stop_source over_source;
  const std::stop_callback on_stop(stop, [&] { over_source.request_stop(); });
  std::jthread job_watch([&](std::stop_token until) {
    watch_until_over(target, options.name, until);
    over_source.request_stop();
  });
  std::vector<std::jthread> readers;
  std::set<std::string> reading;
  const auto look_at = [&](const nlohmann::json& object) {
    const auto pod = api::parse_pod(object);
    if (!pod || !wanted(*pod) || pod->phase == "Pending" || !reading.insert(pod->meta.uid).second) return;
    readers.emplace_back([&read, &stop, name = pod->meta.name] { (void)read(name, stop); });
  };
  Status status;
  while (!over_source.stop_requested()) {
    const auto now =
        target.api.list(kube::kPods, {.name_space = target.name_space, .label_selector = selector, .limit = 0});
    if (!now) {
      status = now.error();
      break;
    }
    for (const auto& object : now->items) look_at(object);
    std::string version = now->resource_version;
    Status watched;
    while (watched.ok() && !over_source.stop_requested()) {
      watched = target.api.watch(
          kube::kPods, {.name_space = target.name_space, .label_selector = selector, .resource_version = version},
          [&](kube::WatchEvent event) {
            version = event.object["metadata"].value("resourceVersion", version);
            if (event.type == kube::WatchEventType::kAdded || event.type == kube::WatchEventType::kModified) {
              look_at(event.object);
            }
            return true;
          },
          over_source.get_token());
    }
    if (!watched && watched.error().code != ErrorCode::kGone && watched.error().code != ErrorCode::kDeadlineExceeded &&
        watched.error().code != ErrorCode::kCancelled) {
      status = watched;
      break;
    }
  }
  for (std::jthread& reader : readers) reader.join();
  job_watch.request_stop();
  return status;
}

}  // namespace lockstep::cli
