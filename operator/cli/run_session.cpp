#include "operator/cli/run_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>

#include "operator/api/cause.h"
#include "operator/api/training_job.h"
#include "operator/base/metrics.h"
#include "operator/cli/display.h"
#include "operator/cli/interrupts.h"
#include "operator/cli/rank_logs.h"
#include "operator/cli/run_report.h"
#include "operator/cli/text.h"
#include "operator/job/job_controller.h"
#include "operator/local/memory_api.h"
#include "operator/local/pod_runtime.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr Duration kStopGrace = 3s;  // Ctrl-C: SIGTERM to SIGKILL
constexpr size_t kMostQueuedLines = 10'000;
// An agent reports a process as started while its program is still loading. Only after that, which takes seconds on a
// busy disk, does the process show its environment, and no event says when.
constexpr Duration kLookAgain = 100ms;

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += "  ";
  }
  return result;
}

class Session {
 public:
  explicit Session(const RunPlan& plan) : plan_(plan), api_(clock_), rank_logs_(plan.machine.folder + "/logs") {
    const RunOptions& options = plan.options;
    const DisplayMode mode = options.json     ? DisplayMode::kJson
                             : options.quiet  ? DisplayMode::kQuiet
                             : isatty(1) != 0 ? DisplayMode::kTerminal
                                              : DisplayMode::kLines;
    own_display_ = make_display(mode, stdout, clock_);
    display_ = plan.display != nullptr ? plan.display : own_display_.get();
    tick_ = mode == DisplayMode::kTerminal ? Duration(1s) : Duration(1h);
    kills_.assign(options.kills.begin(), options.kills.end());
  }

  SessionEnd run() {
    started_ = clock_.now();
    if (const Status status = start(); !status) {
      stop_everything(Duration::zero());
      display_->finish();
      fmt::print(stderr, "lockstep run: {}\n", status.error().message);
      return {.status = 1};
    }
    if (plan_.display == nullptr) introduce();
    follow();
    const int signal = signal_.load();
    if (signal != 0) {
      display_->say("stopping: the processes have 3 seconds to end; a second Ctrl-C ends them now");
    }
    stop_everything(signal != 0 ? kStopGrace : Duration(10s));
    print_log_lines();
    display_->finish();
    report();
    if (signal != 0) return {.status = 128 + signal, .signal = signal};
    const int status = exit_status(job_.status);
    return {.status = status == 0 && chaos_ && !chaos_->report(job_.status).good() ? 1 : status};
  }

 private:
  Status start() {
    auto interrupts = watch_interrupts([this](int number, int count) {
      if (count > 1) _exit(128 + number);  // the guard ends all processes
      signal_.store(number);
      nudge();
    });
    if (!interrupts) return interrupts.error();
    interrupts_ = std::move(*interrupts);

    LOCKSTEP_TRY(const auto authority, rendezvous::make_authority());
    LOCKSTEP_TRY(const auto serving, rendezvous::issue_serving_certificate(authority));
    LOCKSTEP_TRY(const json created, api_.create(kube::kTrainingJobs, name_space(), plan_.job));
    LOCKSTEP_TRY(job_, api::parse_training_job(created));

    local::PodRuntimeOptions runtime;
    runtime.machine = plan_.machine;
    runtime.on_line = [this](const std::string&, std::string_view line) {
      rank_logs_.add(line);
      if (plan_.options.logs) queue_line(line);
    };
    LOCKSTEP_TRY(runtime_, local::start_pod_runtime(api_, runtime, clock_));

    LOCKSTEP_CHECK_OK(start_controller({.listen_address = plan_.machine.address,
                                        .certificate_pem = serving.certificate_pem,
                                        .private_key_pem = serving.private_key_pem},
                                       authority.certificate_pem));
    LOCKSTEP_CHECK_OK(start_chaos());
    watch_ = std::jthread([this](std::stop_token stop) { watch_job(stop); });
    return {};
  }

  Status start_controller(const rendezvous::CoordinatorOptions& coordinator, const std::string& authority) {
    job::JobControllerOptions options;
    options.watch_namespace = name_space();
    options.agent_image = "lockstep";
    options.coordinator_ca_pem = authority;
    options.coordinator = coordinator;
    options.event_source = "lockstep-run";
    options.workers = 1;
    options.most_bulk_writes = 4;  // the server is this process
    options.make_coordinator = [this](const rendezvous::CoordinatorOptions& how, rendezvous::GenerationStore& store,
                                      rendezvous::MemberAuthenticator& authenticator, Clock& clock,
                                      rendezvous::OnViewChange on_change) {
      return rendezvous::start_coordinator(how, store, authenticator, clock,
                                           [this, on_change](const std::string& space, const std::string& name) {
                                             on_change(space, name);
                                             nudge();
                                           });
    };
    LOCKSTEP_TRY(controller_, job::start_job_controller(options, api_, metrics_, clock_));
    controller_options_ = options;
    return {};
  }

  Status start_chaos() {
    if (!plan_.chaos) return {};
    LOCKSTEP_TRY(chaos_, ChaosRun::start(
                             *plan_.chaos, *runtime_, [this] { return restart_controller(); }, clock_));
    tick_ = ChaosRun::kTick;
    return {};
  }

  // As when an operator dies and another leads: a later term, at the address that the agents know.
  Status restart_controller() {
    const std::string address = controller_->coordinator().address();
    controller_->stop();
    controller_.reset();
    controller_options_.coordinator.port = std::stoi(address.substr(address.rfind(':') + 1));
    controller_options_.coordinator.term += 1;
    LOCKSTEP_TRY(controller_, job::start_job_controller(controller_options_, api_, metrics_, clock_));
    return {};
  }

  std::string name_space() const { return plan_.job["metadata"].value("namespace", "default"); }

  // --- other threads ---

  void nudge() {
    const std::lock_guard guard(mutex_);
    news_ = true;
    changed_.notify_all();
  }

  void queue_line(std::string_view line) {
    const std::lock_guard guard(mutex_);
    if (lines_.size() >= kMostQueuedLines) {
      lines_.pop_front();
      ++lost_lines_;
    }
    lines_.push_back(printable(line));
    news_ = true;
    changed_.notify_all();
  }

  void watch_job(std::stop_token stop) {
    std::string version = job_.meta.resource_version;
    Status status;
    while (status.ok() && !stop.stop_requested()) {
      status = api_.watch(
          kube::kTrainingJobs, {.name_space = name_space(), .resource_version = version},
          [&](kube::WatchEvent event) {
            version = event.object["metadata"]["resourceVersion"];
            if (event.type == kube::WatchEventType::kBookmark) return true;
            auto job = api::parse_training_job(event.object);
            const std::lock_guard guard(mutex_);
            if (event.type == kube::WatchEventType::kDeleted) gone_ = true;
            if (job) newest_ = std::move(*job);
            news_ = true;
            changed_.notify_all();
            return true;
          },
          stop);
    }
  }

  // --- the main thread ---

  void introduce() {
    const api::TrainingJobSpec& spec = job_.spec;
    const int processes = api::resolved_procs_per_node(spec) * spec.nodes;
    display_->say(fmt::format("{}: {} worker{} on this machine; logs and checkpoints in {}", job_.meta.name, processes,
                              processes == 1 ? "" : "s", plan_.machine.folder));
    if (!plan_.dropped.empty()) {
      display_->say(fmt::format("not applied by lockstep run: {}", fmt::join(plan_.dropped, ", ")));
    }
    if (!plan_.gpu_note.empty()) display_->say(plan_.gpu_note);
    for (const WorkerKill& kill : kills_) {
      display_->say(fmt::format("the process of rank {} will be killed at step {}, as asked", kill.rank, kill.step));
    }
    if (chaos_) display_->say(chaos_->introduction());
  }

  // Until the job has ended or a signal came.
  void follow() {
    bool kill_due = false;  // a worker is due, and its process was not found
    while (signal_.load() == 0) {
      bool gone = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kill_due ? kLookAgain : tick_, [this] { return news_; });
        news_ = false;
        if (newest_) job_ = std::move(*newest_);
        newest_.reset();
        gone = gone_;
      }
      print_log_lines();
      if (chaos_ && !finished()) disturb();
      if (!controller_) return;  // it could not be restarted
      const auto view = controller_->coordinator().view(job_.meta.uid);
      if (view) note_loss(view->progress);
      kill_due = view && view->phase == rendezvous::Phase::kUp && !kill_if_due(view->progress);
      tell_attempts();
      show(view);
      if (gone || finished()) return;
    }
  }

  bool finished() const {
    return api::is_true(job_.status.conditions, "Succeeded") || api::is_true(job_.status.conditions, "Failed");
  }

  void note_loss(const rendezvous::Progress& progress) {
    if (progress.step > 0 && (curve_.training.empty() || curve_.training.back().step != progress.step)) {
      curve_.training.push_back({progress.step, progress.loss});
    }
  }

  // Kills one of the workers that are due; false: its process was not found.
  bool kill_if_due(const rendezvous::Progress& progress) {
    for (auto kill = kills_.begin(); kill != kills_.end();) {
      if (progress.step < kill->step) {
        ++kill;
        continue;
      }
      const auto worker = runtime_->kill_worker(kill->rank);
      if (!worker) return false;
      display_->say(fmt::format("killed rank {} (process {}, pod {}) at step {}, as asked", kill->rank, worker->pid,
                                worker->pod, progress.step));
      kill = kills_.erase(kill);
      return true;  // the next one once the job runs again
    }
    return true;
  }

  void disturb() {
    for (const std::string& sentence : chaos_->look()) display_->say(sentence);
  }

  // Prints each new failure once: those are the last entries of the list, as many as there were restarts since.
  void tell_attempts() {
    const auto& attempts = job_.status.attempts;
    const int ended = job_.status.restarts.total + (api::is_true(job_.status.conditions, "Failed") ? 1 : 0);
    const auto fresh =
        std::min<std::ptrdiff_t>(std::max(0, ended - told_), static_cast<std::ptrdiff_t>(attempts.size()));
    told_ = std::max(told_, ended);
    for (auto attempt = attempts.end() - fresh; attempt != attempts.end(); ++attempt) {
      if (attempt->cause == api::Cause::kCompleted) continue;
      if (job_.status.restarts.total > 0) curve_.restarts.push_back(attempt->step);
      display_->say(
          fmt::format("generation {} ended: {}{}: {}", attempt->generation, attempt->cause.text(),
                      attempt->first_failing_rank < 0 ? "" : fmt::format(", rank {}", attempt->first_failing_rank),
                      printable(attempt->message)));
    }
  }

  void show(const std::optional<rendezvous::JobView>& view) {
    DisplayedState now;
    now.state = job_.status.state.empty() ? "Pending" : job_.status.state;
    now.ready = job_.status.nodes.summary;
    now.restarts = job_.status.restarts.total;
    now.elapsed_seconds = seconds();
    if (view) {
      now.step = view->progress.step;
      now.total_steps = view->progress.total_steps;
      now.loss = view->progress.loss;
      now.samples_per_second = view->progress.samples_per_second;
      now.eta_seconds = view->progress.eta_seconds;
      now.note = view->message;
    }
    display_->update(now);
  }

  void print_log_lines() {
    std::deque<std::string> lines;
    size_t lost = 0;
    {
      const std::lock_guard guard(mutex_);
      lines.swap(lines_);
      std::swap(lost, lost_lines_);
    }
    if (lost > 0) display_->say(fmt::format("({} lines were too fast for this terminal; the files have them)", lost));
    for (const std::string& line : lines) display_->log_line(line);
  }

  void stop_everything(Duration grace) {
    watch_.request_stop();
    if (watch_.joinable()) watch_.join();
    if (chaos_) chaos_->end();  // frozen workers can end after this
    if (controller_) controller_->stop();
    if (runtime_) runtime_->stop(grace);
    controller_.reset();
    runtime_.reset();
    interrupts_.reset();
  }

  double seconds() const { return std::chrono::duration<double>(clock_.now() - started_).count(); }

  void report() {
    const std::string& folder = plan_.machine.folder;
    if (const auto stored = api_.get(kube::kTrainingJobs, name_space(), job_.meta.name)) {
      if (auto job = api::parse_training_job(*stored)) job_ = std::move(*job);
    }
    std::ofstream(folder + "/job.json") << api::to_json(job_).dump(2) << "\n";
    LossCurve curve = curve_;
    LossCurve measured;
    read_metrics(folder + "/metrics.jsonl", measured);
    if (!measured.training.empty()) curve.training = measured.training;
    curve.held_out = rank_logs_.held_out();
    curve.title = job_.meta.name;
    if (!curve.training.empty()) std::ofstream(folder + "/loss.svg") << draw_svg(curve);
    if (plan_.display != nullptr) return;
    const auto chaos = chaos_ ? std::optional(chaos_->report(job_.status)) : std::nullopt;
    if (plan_.options.json) {
      json result = {{"result",
                      {{"job", api::to_json(job_)},
                       {"folder", folder},
                       {"seconds", seconds()},
                       {"exitStatus", exit_status(job_.status)}}}};
      if (chaos) result["result"]["chaos"] = chaos_json(*chaos);
      fmt::print("{}\n", result.dump());
      return;
    }
    const std::string words = verdict(job_, seconds());
    if (plan_.options.quiet) {
      if (exit_status(job_.status) != 0) fmt::print(stderr, "lockstep run: {}\n", words);
      if (chaos && !chaos->good()) fmt::print(stderr, "{}", chaos_text(*chaos));
      return;
    }
    const int columns = std::clamp(terminal_columns(stdout) - 14, 20, 72);
    if (const std::string drawn = draw_for_terminal(curve, columns, 10, !locale_is_utf8()); !drawn.empty()) {
      fmt::print("\nloss\n{}", drawn);
    }
    if (curve.held_out.size() > 1) {
      const LossPoint &first = curve.held_out.front(), &last = curve.held_out.back();
      fmt::print("\nheld-out loss {:.4f} at step {}, {:.4f} at step {}\n", first.loss, first.step, last.loss,
                 last.step);
    }
    if (!rank_logs_.sample().empty()) fmt::print("\nsample\n{}\n", indented(printable(rank_logs_.sample())));
    if (const std::string attempts = attempts_table(job_.status.attempts); !attempts.empty())
      fmt::print("\n{}", attempts);
    for (const WorkerKill& kill : kills_) {
      fmt::print("\nrank {} was not killed: the job ended before step {}\n", kill.rank, kill.step);
    }
    if (chaos) fmt::print("\n{}", chaos_text(*chaos));
    fmt::print("\n{}\n\n", words);
    std::vector<std::vector<std::string>> where = {{"logs", folder + "/logs"}};
    if (!job_.spec.checkpoint.path.empty()) where.push_back({"checkpoints", job_.spec.checkpoint.path});
    if (!curve.training.empty()) where.push_back({"loss curve", folder + "/loss.svg"});
    if (chaos) where.push_back({"ledgers", plan_.chaos->ledger});
    if (!measured.training.empty()) where.push_back({"every step", folder + "/metrics.jsonl"});
    where.push_back({"status", folder + "/job.json"});
    fmt::print("{}", table(where));
  }

  const RunPlan& plan_;
  SystemClock& clock_ = SystemClock::instance();
  MetricsRegistry metrics_;
  local::MemoryApi api_;
  RankLogs rank_logs_;  // used by the runtime's thread while there is a runtime
  std::unique_ptr<Display> own_display_;
  Display* display_ = nullptr;  // its own, or the plan's
  std::unique_ptr<Interrupts> interrupts_;
  std::unique_ptr<local::PodRuntime> runtime_;
  std::unique_ptr<job::JobController> controller_;  // null if it could not be restarted
  job::JobControllerOptions controller_options_;
  std::jthread watch_;
  Duration tick_{};
  MonotonicTime started_{};
  std::atomic<int> signal_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;  // these protected by mutex_
  bool gone_ = false;
  std::optional<api::TrainingJob> newest_;
  std::deque<std::string> lines_;
  size_t lost_lines_ = 0;

  // Used by the main thread alone.
  api::TrainingJob job_;
  std::deque<WorkerKill> kills_;
  std::unique_ptr<ChaosRun> chaos_;  // null: no chaos
  LossCurve curve_;
  int told_ = 0;  // failures that were printed
};

}  // namespace

SessionEnd run_session(const RunPlan& plan) {
  return Session(plan).run();
}

}  // namespace lockstep::cli
