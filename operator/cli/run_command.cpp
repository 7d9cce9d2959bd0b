#include "operator/cli/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "operator/api/schema.h"
#include "operator/api/training_job.h"
#include "operator/base/log.h"
#include "operator/cli/job_file.h"
#include "operator/cli/run_session.h"
#include "operator/local/guard.h"
#include "operator/local/mounts.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kExitCommandNotFound = 127;

std::vector<std::string> folders_of_lockstep() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  std::vector<std::string> folders = {self.parent_path().string()};
  const fs::path beside = self.parent_path().parent_path() / "libexec" / "lockstep";
  if (fs::is_directory(beside, error)) folders.push_back(beside.string());
  return folders;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).substr(0, 9) != "LOCKSTEP_") result.emplace_back(*entry);
  }
  return result;
}

// By the device files of NVIDIA's and AMD's drivers.
bool machine_has_gpu() {
  std::error_code error;
  return fs::exists("/dev/nvidiactl", error) || fs::exists("/dev/kfd", error);
}

Result<std::string> make_folder(const RunOptions& options, const std::string& job) {
  std::string path = options.output;
  if (path.empty()) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    path = fmt::format("lockstep-runs/{}-{}", job, stamp);
    // Two runs within a second.
    std::error_code exists;
    for (int i = 2; options.output.empty() && fs::exists(path, exists); ++i) {
      path = fmt::format("lockstep-runs/{}-{}.{}", job, stamp, i);
    }
  }
  std::error_code error;
  fs::create_directories(path, error);
  const fs::path absolute = error ? fs::path() : fs::canonical(path, error);
  if (!error) fs::create_directories(absolute / "checkpoints", error);
  if (error) return fail(ErrorCode::kUnavailable, "cannot create the folder " + path + ": " + error.message());
  return absolute.string();
}

// The commands of the job's pods, so that a missing command or an impossible volume is reported at once.
Status check_start(const json& job, const local::Machine& machine) {
  const json& spec = job["spec"];
  json container = {{"name", "trainer"}};
  for (const char* field : {"command", "args", "env", "envFrom", "workingDir", "volumeMounts"}) {
    if (spec.contains(field)) container[field] = spec[field];
  }
  json pod = {{"metadata", {{"name", "check"}, {"namespace", "default"}, {"uid", "0"}}},
              {"spec", {{"containers", {container}}, {"volumes", spec.value("volumes", json::array())}}}};
  LOCKSTEP_TRY(const local::PodProcess process, local::make_pod_process(pod, machine));
  if (!process.process.mounts.empty()) {
    const Status permitted = local::mounts_permitted();
    if (!permitted) {
      return fail(ErrorCode::kInvalid, fmt::format("the volume mounted at {} is not available: {}",
                                                   process.process.mounts[0].target, permitted.error().message));
    }
  }
  return {};
}

Status check_kills(const RunOptions& options, const json& job) {
  LOCKSTEP_TRY(const auto parsed, api::parse_training_job(job));
  const int ranks = parsed.spec.nodes * api::resolved_procs_per_node(parsed.spec);
  for (const WorkerKill& kill : options.kills) {
    if (kill.rank < ranks) continue;
    return fail(ErrorCode::kInvalid,
                fmt::format("--kill-worker {}@{}: the job has ranks 0 to {}", kill.rank, kill.step, ranks - 1));
  }
  return {};
}

// The faults, the room in the budget that they need, and the ledger for their times and the verdict.
Status plan_chaos(json& job, RunPlan& plan) {
  if (!plan.options.chaos) return {};
  LOCKSTEP_TRY(const auto parsed, api::parse_training_job(job));
  ChaosPlan chaos{.wish = *plan.options.chaos};
  chaos.schedule = chaos_schedule(chaos.wish.seed, chaos.wish.faults, parsed.spec.nodes);
  chaos.max_restarts = raise_budget(job, chaos.schedule);
  LOCKSTEP_TRY(chaos.ledger, ledger_of(job, plan.machine.folder));
  plan.chaos = std::move(chaos);
  return {};
}

}  // namespace

Result<RunPlan> plan_run(json job, const RunOptions& options) {
  LOCKSTEP_CHECK_OK(apply_run_options(job, options));
  std::string problems;
  for (const std::string& problem : problems_of(job)) problems += (problems.empty() ? "" : "\n") + problem;
  if (!problems.empty()) return fail(ErrorCode::kInvalid, problems);
  LOCKSTEP_CHECK_OK(check_kills(options, job));
  RunPlan plan;
  plan.options = options;
  plan.machine.program_folders = folders_of_lockstep();
  plan.machine.environment = own_environment();
  plan.machine.environment.push_back(std::string(rendezvous::kEnvParentDeath) + "=1");
  const auto agent = local::find_program("lockstep-agent", plan.machine.program_folders);
  if (!agent) {
    return fail(ErrorCode::kNotFound,
                "lockstep-agent was found neither beside lockstep nor in PATH: is the "
                "installation whole?");
  }
  plan.machine.agent = *agent;
  LOCKSTEP_CHECK_OK(check_start(job, plan.machine));
  LOCKSTEP_TRY(plan.machine.folder, make_folder(options, job["metadata"]["name"]));
  plan.gpu_note = gpu_note(job, machine_has_gpu());
  LOCKSTEP_TRY(plan.dropped, fit_to_machine(job, plan.machine.folder));
  LOCKSTEP_CHECK_OK(plan_chaos(job, plan));
  plan.job = api::with_defaults(std::move(job));
  return plan;
}

int run_command(const RunOptions& options) {
  auto job = read_valid_job(options.file);
  const auto plan = job ? plan_run(std::move(*job), options) : Result<RunPlan>(job.error());
  if (!plan) {
    fmt::print(stderr, "lockstep run: {}\n", plan.error().message);
    return plan.error().code == ErrorCode::kNotFound && plan.error().message.starts_with("the command")
               ? kExitCommandNotFound
               : 1;
  }
  log::configure(log::Level::kError, log::Format::kText);
  return local::run_guarded([&] { return run_session(*plan).status; });
}

}  // namespace lockstep::cli
