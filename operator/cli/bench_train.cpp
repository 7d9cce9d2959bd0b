#include "operator/cli/bench_train.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/cpus.h"
#include "operator/base/log.h"
#include "operator/base/version.h"
#include "operator/cli/bench_display.h"
#include "operator/cli/bench_estimate.h"
#include "operator/cli/bench_plot.h"
#include "operator/cli/bench_result.h"
#include "operator/cli/bench_trace.h"
#include "operator/cli/result_files.h"
#include "operator/cli/run_command.h"
#include "operator/cli/text.h"
#include "operator/local/guard.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Steps kProbe{.warmup = 2, .timed = 4};
constexpr int kExitContradiction = 2;

// What ended a run before its end: a signal, which the user wants, or a failure.
struct Halt {
  int signal = 0;  // 0: a failure
  Error error;
};
template <typename T>
using Halting = std::variant<T, Halt>;

// A folder that is removed with this object. The guard owns it, because its child ends at once on a second signal.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "lockstep-bench-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }  // empty: it could not be made

 private:
  fs::path path_;
};

// Why a run failed, in the words of the program if it had any.
std::string reason_of(const fs::path& folder) {
  constexpr std::string_view kProgram = "lockstep-trainer: ";
  std::istringstream log(content(folder / "logs" / "rank-0.log"));
  std::string reason;
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with(kProgram)) reason = printable(line.substr(kProgram.size()));
  }
  return reason;
}

class Bench {
 public:
  // `scratch` is an empty folder for what is not kept. Both outlive the object.
  Bench(const BenchOptions& options, const fs::path& scratch)
      : options_(options),
        scratch_(scratch),
        root_(options.output),
        cells_(cells_of(options)),
        results_(cells_.size()) {}

  // Reads the results that the folder has.
  Status load() {
    for (size_t i = 0; i < cells_.size(); ++i) {
      const fs::path path = cell_file(cells_[i]);
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      auto stored = parse_cell(content(path));
      if (stored) {
        const Status same = same_settings(stored->settings, settings(cells_[i]));
        if (!same) return not_continued(path, same.error().message);
        results_[i] = std::move(*stored);
      } else {
        return not_continued(path, stored.error().message);
      }
    }
    return {};
  }

  int run() {
    const Halting<std::vector<BenchEstimate>> estimates = probe();
    if (const Halt* halt = std::get_if<Halt>(&estimates)) return end(*halt);
    const auto& expected = std::get<std::vector<BenchEstimate>>(estimates);
    if (options_.dry_run) {
      fmt::print("{}", dry_run_table(cells_, expected, measured()));
      return 0;
    }
    if (const Status made = make_folders(); !made) return end({.error = made.error()});
    std::vector<double> seconds;  // of the cells that are left
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!results_[i]) seconds.push_back(expected[i].seconds);
    }
    size_t done = 0;
    const MonotonicTime began = clock_.now();
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (results_[i]) {
        fmt::print("{}: measured before\n", describe(cells_[i]));
        continue;
      }
      fmt::print("cell {} of {}, about {} left\n", i + 1, cells_.size(),
                 clock_time(remaining_seconds(seconds, done, seconds_since(began))));
      if (const auto halt = measure(i)) return end(*halt);
      ++done;
    }
    return finish();
  }

 private:
  Status make_folders() const {
    std::vector<fs::path> folders = {root_ / "cells"};
    if (options_.trace) folders.push_back(root_ / "traces");
    for (const fs::path& folder : folders) LOCKSTEP_CHECK_OK(create_folder(folder));
    return {};
  }

  json settings(const Cell& cell) const { return settings_of(cell, options_, version_and_commit()); }
  fs::path cell_file(const Cell& cell) const { return root_ / "cells" / (name_of(cell) + ".json"); }
  double seconds_since(MonotonicTime then) const { return std::chrono::duration<double>(clock_.now() - then).count(); }

  std::vector<bool> measured() const {
    std::vector<bool> result;
    for (const auto& one : results_) result.push_back(one.has_value());
    return result;
  }

  // Runs one job to its end, and returns what its rank 0 measured.
  Halting<RunResult> run_job(const Cell& cell, const Steps& steps, const fs::path& folder, Display& display) const {
    RunOptions how;
    how.output = folder.string();
    how.logs = true;
    auto plan = plan_run(job_of(cell, options_, steps), how);
    if (!plan) return Halt{.error = plan.error()};
    plan->display = &display;
    const auto [status, signal] = run_session(*plan);
    if (signal != 0) return Halt{.signal = signal, .error = {}};
    const std::string reason = reason_of(folder);
    if (status != 0) {
      return Halt{.error = {ErrorCode::kUnavailable, fmt::format("{} failed with exit status {}{}{}", describe(cell),
                                                                 status, reason.empty() ? "" : ": ", reason)}};
    }
    auto result = parse_run(content(folder / "logs" / "rank-0.log"));
    if (!result) return Halt{.error = result.error().in(describe(cell))};
    return std::move(*result);
  }

  // A few steps of each model on one worker: what it needs, and that the trainer accepts it.
  Halting<std::vector<BenchEstimate>> probe() const {
    std::vector<BenchProbe> probes;
    std::vector<BenchEstimate> estimates(cells_.size());
    const auto silent = make_bench_display(nullptr, clock_);
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (results_[i]) continue;
      const Cell one{cells_[i].model, cells_[i].data, 1};
      auto known = std::find_if(probes.begin(), probes.end(), [&](const BenchProbe& made) {
        return made.model == one.model && made.data == one.data;
      });
      if (known == probes.end()) {
        const MonotonicTime began = clock_.now();
        const auto run = run_job(one, kProbe, scratch_ / name_of(one), *silent);
        if (const Halt* halt = std::get_if<Halt>(&run)) return *halt;
        const RunResult& found = std::get<RunResult>(run);
        const double step = found.speed > 0 ? static_cast<double>(options_.batch_size) / found.speed : 0;
        const double steps = step * static_cast<double>(kProbe.warmup + kProbe.timed);
        known = probes.insert(probes.end(), {.model = one.model,
                                             .data = one.data,
                                             .start_seconds = std::max(0.0, seconds_since(began) - steps),
                                             .step_seconds = step,
                                             .memory_bytes = found.memory_bytes});
      }
      estimates[i] = estimate(cells_[i], options_, *known, usable_cpus());
    }
    return estimates;
  }

  // All runs of a cell; its result is stored when they are done.
  std::optional<Halt> measure(size_t number) {
    const Cell& cell = cells_[number];
    const fs::path folder = root_ / "runs" / name_of(cell);
    std::error_code error;
    fs::remove_all(folder, error);  // of a cell that was not finished
    CellResult result{.settings = settings(cell), .runs = {}};
    for (int run = 1; run <= options_.runs; ++run) {
      fmt::print("{}, run {} of {}\n", describe(cell), run, options_.runs);
      const auto display = make_bench_display(stdout, clock_);
      auto measured = run_job(cell, {options_.warmup_steps, options_.steps}, folder / std::to_string(run), *display);
      display->finish();
      if (const Halt* halt = std::get_if<Halt>(&measured)) {
        if (halt->signal != 0) fs::remove_all(folder, error);
        return *halt;
      }
      result.runs.push_back(std::get<RunResult>(std::move(measured)));
    }
    if (const Status written = write_file(cell_file(cell), to_json(result).dump(2) + "\n"); !written) {
      return Halt{.error = written.error()};
    }
    results_[number] = std::move(result);
    return std::nullopt;
  }

  std::vector<BenchRow> rows() const {
    std::vector<CellResult> done;
    for (const auto& one : results_) {
      if (one) done.push_back(*one);
    }
    return rows_of(done);
  }

  int end(const Halt& halt) const {
    const auto done = std::count_if(results_.begin(), results_.end(), [](const auto& one) { return one.has_value(); });
    if (halt.signal == 0) fmt::print(stderr, "lockstep bench train: {}\n", halt.error.message);
    if (options_.dry_run) return halt.signal == 0 ? 1 : 128 + halt.signal;
    if (halt.signal != 0 || done > 0) {
      fmt::print("{} of {} cells are measured; the same command continues with the rest\n", done, cells_.size());
    }
    return halt.signal == 0 ? 1 : 128 + halt.signal;
  }

  int finish() const {
    const std::vector<BenchRow> all = rows();
    std::vector<std::pair<std::string, std::string>> files = {{"results.json", bench_json(all).dump(2) + "\n"},
                                                              {"results.csv", bench_csv(all)},
                                                              {"scaling.svg", scaling_svg(all)}};
    for (size_t i = 0; options_.trace && i < cells_.size(); ++i) {
      const std::string name = name_of(cells_[i]);
      const fs::path metrics = root_ / "runs" / name / "1" / "metrics.jsonl";
      const std::string lines = content(metrics);
      if (lines.empty()) {
        fmt::print(stderr, "lockstep bench train: no trace of {}: {} is gone\n", describe(cells_[i]), metrics.string());
      } else {
        files.emplace_back("traces/" + name + ".json", chrome_trace(lines, describe(cells_[i])));
      }
    }
    for (const auto& [name, text] : files) {
      if (const Status written = write_file(root_ / name, text); !written) return end({.error = written.error()});
    }
    fmt::print("\n{}\n", bench_table(all));
    for (const auto& [name, text] : files) fmt::print("{}\n", (root_ / name).string());
    return 0;
  }

  const BenchOptions& options_;
  const fs::path& scratch_;
  const fs::path root_;
  SystemClock& clock_ = SystemClock::instance();
  const std::vector<Cell> cells_;
  std::vector<std::optional<CellResult>> results_;  // by cell; empty: not measured
};

}  // namespace

int bench_train(const BenchOptions& options) {
  const auto refuse = [](const Error& error, int status) {
    fmt::print(stderr, "lockstep bench train: {}\n", error.message);
    return status;
  };
  if (const Status fine = check_bench(options); !fine) {
    return refuse(fine.error(), fine.error().code == ErrorCode::kNotFound ? 1 : kExitContradiction);
  }
  const Scratch scratch;
  if (scratch.path().empty()) {
    return refuse(fail(ErrorCode::kUnavailable, "no temporary folder can be created (see TMPDIR)"), 1);
  }
  Bench bench(options, scratch.path());
  if (const Status loaded = bench.load(); !loaded) return refuse(loaded.error(), 1);
  log::configure(log::Level::kError, log::Format::kText);
  const Error unwritten =
      fail(ErrorCode::kUnavailable, "standard output takes no more: is it full? The results are in the files");
  return local::run_guarded([&] {
    try {
      const int status = bench.run();
      const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
      return written || status != 0 ? status : refuse(unwritten, 1);
    } catch (const std::system_error&) {  // of fmt::print()
      return refuse(unwritten, 1);
    }
  });
}

}  // namespace lockstep::cli
