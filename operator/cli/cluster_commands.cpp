#include "operator/cli/cluster_commands.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "operator/cli/display.h"
#include "operator/cli/explanation.h"
#include "operator/cli/placement_commands.h"
#include "operator/cli/rank_table.h"
#include "operator/cli/run_report.h"
#include "operator/cli/text.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

double seconds_since(const std::optional<WallTime>& time, Clock& clock) {
  return time ? std::chrono::duration<double>(clock.wall_now() - *time).count() : 0;
}

bool finished(const api::TrainingJob& job) {
  return api::is_true(job.status.conditions, "Succeeded") || api::is_true(job.status.conditions, "Failed");
}

DisplayedState displayed_state_of(const api::TrainingJob& job, Clock& clock) {
  DisplayedState now;
  now.state = job.status.state.empty() ? "Pending" : job.status.state;
  now.ready = job.status.nodes.summary;
  now.restarts = job.status.restarts.total;
  now.elapsed_seconds = seconds_since(job.meta.created, clock);
  if (const auto& progress = job.status.progress) {
    now.step = progress->step;
    now.total_steps = progress->total_steps;
    now.loss = std::strtod(progress->loss.c_str(), nullptr);
    now.samples_per_second = std::strtod(progress->samples_per_second.c_str(), nullptr);
    now.eta_seconds = static_cast<double>(progress->eta_seconds);
  }
  for (const api::Condition& condition : job.status.conditions) {
    if (condition.status == "False" && !condition.message.empty() && condition.type == "Running")
      now.note = condition.message;
  }
  return now;
}

std::vector<std::string> row_of(const api::TrainingJob& job, Clock& clock) {
  const auto& status = job.status;
  const auto progress = status.progress.value_or(api::ProgressStatus{});
  const std::string step = progress.step == 0          ? "-"
                           : progress.total_steps == 0 ? std::to_string(progress.step)
                                                       : fmt::format("{}/{}", progress.step, progress.total_steps);
  const auto dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  return {job.meta.name,
          status.state.empty() ? "Pending" : status.state,
          dash(status.nodes.summary),
          step,
          dash(progress.loss),
          dash(progress.samples_per_second),
          std::to_string(status.restarts.total),
          age(seconds_since(job.meta.created, clock))};
}

const std::vector<std::string> kHeading = {"NAME", "STATE", "READY", "STEP", "LOSS", "SAMPLES/S", "RESTARTS", "AGE"};

void print_details(const Target& target, const api::TrainingJob& job) {
  fmt::print(target.out, "{}\n", table({kHeading, row_of(job, target.clock)}));
  std::vector<std::vector<std::string>> conditions = {{"CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"}};
  for (const api::Condition& condition : job.status.conditions) {
    conditions.push_back({condition.type, condition.status, condition.reason,
                          condition.last_transition ? age(seconds_since(condition.last_transition, target.clock)) : "-",
                          printable(condition.message)});
  }
  if (conditions.size() > 1) fmt::print(target.out, "{}", table(conditions));
  if (const std::string attempts = attempts_table(job.status.attempts); !attempts.empty()) {
    fmt::print(target.out, "\n{}", attempts);
  }
  if (const std::string ranks = ranks_in_words(target, job); !ranks.empty()) fmt::print(target.out, "\n{}", ranks);
}

Result<api::TrainingJob> get_job(const Target& target, const std::string& name) {
  auto object = target.api.get(kube::kTrainingJobs, target.name_space, name);
  if (!object && object.error().code == ErrorCode::kNotFound &&
      object.error().message.find("not known to this server") == std::string::npos) {
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no TrainingJob \"{}\" in namespace {}", name, target.name_space));
  }
  if (!object) return object.error();
  return api::parse_training_job(*object);
}

// Calls `on_job` with the job and after each change until it returns false; restarts watches that end.
Status follow_jobs(const Target& target, const std::string& name,
                   const std::function<bool(const api::TrainingJob&, bool deleted)>& on_job, std::stop_token stop) {
  const std::string selector = name.empty() ? "" : "metadata.name=" + name;
  while (!stop.stop_requested()) {
    LOCKSTEP_TRY(auto page,
                 target.api.list(kube::kTrainingJobs, {.name_space = target.name_space, .field_selector = selector}));
    for (const json& object : page.items) {
      LOCKSTEP_TRY(const auto job, api::parse_training_job(object));
      if (!on_job(job, false)) return {};
    }
    std::string version = page.resource_version;
    Status status;
    bool more = true;
    while (status.ok() && more && !stop.stop_requested()) {
      status = target.api.watch(
          kube::kTrainingJobs,
          {.name_space = target.name_space, .field_selector = selector, .resource_version = version},
          [&](kube::WatchEvent event) {
            version = event.object["metadata"].value("resourceVersion", version);
            if (event.type == kube::WatchEventType::kBookmark) return true;
            const auto job = api::parse_training_job(event.object);
            more = !job || on_job(*job, event.type == kube::WatchEventType::kDeleted);
            return more;
          },
          stop);
    }
    if (!more) return {};
    if (!status && status.error().code != ErrorCode::kGone && status.error().code != ErrorCode::kDeadlineExceeded) {
      return status;
    }
  }
  return fail(ErrorCode::kCancelled, "stopped");
}

// Prints a line per change until the job ends; its exit status.
Result<int> follow_one(const Target& target, const std::string& name, std::stop_token stop) {
  const bool terminal = isatty(fileno(target.out)) != 0;
  const auto display = make_display(terminal ? DisplayMode::kTerminal : DisplayMode::kLines, target.out, target.clock,
                                    std::chrono::seconds(0));
  std::optional<int> result;
  LOCKSTEP_CHECK_OK(follow_jobs(
      target, name,
      [&](const api::TrainingJob& job, bool deleted) {
        display->update(displayed_state_of(job, target.clock));
        if (deleted) {
          display->finish();
          fmt::print(target.out, "{} was deleted\n", name);
          result = 1;
        } else if (finished(job)) {
          display->finish();
          const double seconds =
              job.status.completion_time && job.meta.created
                  ? std::chrono::duration<double>(*job.status.completion_time - *job.meta.created).count()
                  : 0;
          fmt::print(target.out, "{}\n", verdict(job, seconds));
          result = exit_status(job.status);
        }
        return !result;
      },
      stop));
  return result.value_or(0);
}

}  // namespace

Result<Connection> connect(const ClusterOptions& options, Clock& clock) {
  const kube::Environment environment = kube::process_environment();
  LOCKSTEP_TRY(const kube::ClusterAccess access,
               kube::find_access({options.kubeconfig, options.context}, environment, clock));
  Connection connection;
  connection.source = access.source;
  connection.metrics = std::make_unique<MetricsRegistry>();
  connection.name_space = !options.name_space.empty() ? options.name_space
                          : access.name_space.empty() ? "default"
                                                      : access.name_space;
  LOCKSTEP_TRY(connection.api, kube::make_http_api(access, environment, clock, *connection.metrics));
  return connection;
}

Result<int> submit(const Target& target, const json& job, bool wait, std::stop_token stop) {
  json object = job;
  object["metadata"]["namespace"] = target.name_space;
  const std::string name = object["metadata"]["name"];
  const auto before = target.api.get(kube::kTrainingJobs, target.name_space, name);
  if (!before && before.error().code != ErrorCode::kNotFound) return before.error();
  const kube::WriteOptions options{.strict = true, .field_manager = "lockstep"};
  LOCKSTEP_TRY(const json after, before ? target.api.patch(kube::kTrainingJobs, target.name_space, name,
                                                           kube::PatchType::kApply, object, "", options)
                                        : target.api.create(kube::kTrainingJobs, target.name_space, object, options));
  const bool same =
      before && (*before)["metadata"].value("resourceVersion", "") == after["metadata"].value("resourceVersion", "-");
  fmt::print(target.out, "trainingjob.lockstep.dev/{} {}\n", name,
             !before ? "created"
             : same  ? "unchanged"
                     : "configured");
  fflush(target.out);
  if (!wait) return 0;
  return follow_one(target, name, stop);
}

Result<int> status(const Target& target, const StatusOptions& options, std::stop_token stop) {
  if (!options.name.empty()) {
    LOCKSTEP_TRY(const auto job, get_job(target, options.name));
    if (options.json) {
      fmt::print(target.out, "{}\n", api::to_json(job).dump(2));
    } else if (!options.watch) {
      print_details(target, job);
    }
    if (options.watch) return follow_one(target, options.name, stop);
    return 0;
  }
  kube::ListOptions list{.name_space = target.name_space};
  std::vector<std::vector<std::string>> rows = {kHeading};
  json items = json::array();
  do {
    LOCKSTEP_TRY(auto page, target.api.list(kube::kTrainingJobs, list));
    for (json& object : page.items) {
      LOCKSTEP_TRY(const auto job, api::parse_training_job(object));
      rows.push_back(row_of(job, target.clock));
      items.push_back(std::move(object));
    }
    list.continue_token = page.continue_token;
  } while (!list.continue_token.empty());
  if (options.json) {
    fmt::print(target.out, "{}\n", json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}}.dump(2));
  } else if (rows.size() == 1) {
    fmt::print(target.out, "there are no TrainingJobs in namespace {}\n", target.name_space);
  } else {
    fmt::print(target.out, "{}", table(rows));
  }
  if (!options.watch) return 0;
  fflush(target.out);
  LOCKSTEP_CHECK_OK(follow_jobs(
      target, "",
      [&](const api::TrainingJob& job, bool deleted) {
        auto row = row_of(job, target.clock);
        if (deleted) row[1] = "Deleted";
        fmt::print(target.out, "{}\n", fmt::join(row, "  "));
        fflush(target.out);
        return true;
      },
      stop));
  return 0;
}

Status explain(const Target& target, const std::string& name, const ProfileChoice& profile) {
  LOCKSTEP_TRY(const auto job, get_job(target, name));
  fmt::print(target.out, "{}", explanation(job, target.clock.wall_now()));
  if (waits_for_nodes(job)) {
    const auto shortage = shortage_of(target, job, profile);
    // Not everyone may list nodes and all pods; the rest is worth something without it.
    if (!shortage) fmt::print(target.out, "\nWhat is free is not shown: {}\n", shortage.error().message);
    if (shortage && !shortage->empty()) fmt::print(target.out, "\n{}", *shortage);
  }
  if (const std::string ranks = ranks_in_words(target, job); !ranks.empty()) fmt::print(target.out, "\n{}", ranks);
  return {};
}

Status explain_run(const std::string& folder, Clock& clock, std::FILE* out) {
  std::error_code error;
  const std::string path = std::filesystem::is_directory(folder, error) ? folder + "/job.json" : folder;
  std::ifstream file(path);
  if (!file) {
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no {}: it is written at the end of a run, and --output says where", path));
  }
  const json object = json::parse(file, nullptr, false);
  auto job = object.is_object() ? api::parse_training_job(object)
                                : Result<api::TrainingJob>(fail(ErrorCode::kInvalid, "it is not a JSON object"));
  if (!job) return fail(ErrorCode::kInvalid, fmt::format("{} is not the job of a run: {}", path, job.error().message));
  fmt::print(out, "{}", explanation(*job, clock.wall_now()));
  return {};
}

Status remove_jobs(const Target& target, const std::vector<std::string>& names) {
  Status first;
  for (const std::string& name : names) {
    Status status = target.api.remove(kube::kTrainingJobs, target.name_space, name);
    if (status.ok()) {
      fmt::print(target.out, "trainingjob.lockstep.dev/{} deleted\n", name);
      continue;
    }
    if (status.error().code == ErrorCode::kNotFound) {
      // Distinguishes a missing job from a missing CRD.
      if (const auto job = get_job(target, name); !job) status = job.error();
    }
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace lockstep::cli
