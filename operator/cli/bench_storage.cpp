#include "operator/cli/bench_storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "operator/base/version.h"
#include "operator/cli/bench_result.h"
#include "operator/cli/data_command.h"
#include "operator/cli/result_files.h"
#include "operator/cli/storage_result.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Runs lockstep-data to its end, with its standard output in a file. It is told to end when this process does. Its
// reads have deadlines of their own; its writes have none.
Status run_data(const std::vector<std::string>& words, const fs::path& output) {
  LOCKSTEP_TRY(std::string program, data_program());
  const int fd = ::open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return fail(ErrorCode::kUnavailable, fmt::format("cannot write {}", output.string()));
  std::vector<std::string> all{program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);  // Ctrl-C comes once, as the end of the parent: a second signal ends it without cleaning up
    ::signal(SIGTTOU, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(fd, STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(fd);
  if (pid < 0) return fail(ErrorCode::kExhausted, "no process can be started");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fail(ErrorCode::kNotFound, fmt::format("cannot run {}; install it beside lockstep", program));
  }
  return fail(ErrorCode::kUnavailable, fmt::format("lockstep data {} failed with exit status {}", words.front(),
                                                   WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
}

class StorageBench {
 public:
  // `options` outlive the object.
  explicit StorageBench(const StorageOptions& options)
      : options_(options), root_(options.output), cells_(storage_cells(options)), results_(cells_.size()) {}

  // Reads the results that the folder has.
  Status load() {
    for (size_t i = 0; i < cells_.size(); ++i) {
      const fs::path path = cell_file(cells_[i]);
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      auto stored = parse_storage_result(content(path));
      if (!stored) return not_continued(path, stored.error().message);
      const Status same = same_settings(stored->settings, settings(cells_[i]));
      if (!same) return not_continued(path, same.error().message);
      results_[i] = std::move(*stored);
    }
    return {};
  }

  Status run() {
    std::vector<bool> measured;
    for (const auto& one : results_) measured.push_back(one.has_value());
    if (options_.dry_run) {
      fmt::print("{}", storage_plan(cells_, measured, options_));
      return {};
    }
    for (const char* name : {"cells", "data"}) LOCKSTEP_CHECK_OK(create_folder(root_ / name));
    LOCKSTEP_CHECK_OK(make_data());
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (results_[i]) {
        fmt::print("{}: measured before\n", describe(cells_[i]));
      } else {
        const auto left = std::count_if(results_.begin(), results_.end(), [](const auto& one) { return !one; });
        fmt::print("cell {} of {}, about {} left\n", i + 1, cells_.size(),
                   clock_time(static_cast<double>(left) * options_.runs * options_.seconds));
        LOCKSTEP_CHECK_OK(measure(i));
      }
    }
    return finish();
  }

 private:
  nlohmann::json settings(const StorageCell& cell) const { return settings_of(cell, options_, version_and_commit()); }
  fs::path cell_file(const StorageCell& cell) const { return root_ / "cells" / (name_of(cell) + ".json"); }
  fs::path data(const std::string& form) const { return root_ / data_of(form, options_); }

  // The folder of images from a seed, and its packed form. Each has its name only when it is whole.
  Status make_data() const {
    std::error_code error;
    if (!fs::exists(data("files"), error)) {
      fmt::print("making {} images\n", options_.images);
      LOCKSTEP_CHECK_OK(run_data({"synth", data("files").string(), "--files",
                                  fmt::format("--images={}", options_.images), fmt::format("--size={}", options_.side)},
                                 root_ / "data.log"));
    }
    if (fs::exists(data("records"), error)) return {};
    return run_data({"pack", data("files").string(), data("records").string()}, root_ / "data.log");
  }

  // All runs of a cell; its result is stored when they are done.
  Status measure(size_t number) {
    const StorageCell& cell = cells_[number];
    StorageResult result{.settings = settings(cell), .speeds = {}};
    for (int run = 1; run <= options_.runs; ++run) {
      const fs::path output = root_ / "read.log";
      LOCKSTEP_CHECK_OK(run_data(
          words_of(cell, options_, data(cell.form).string(), (root_ / "kept" / data(cell.form).filename()).string()),
          output));
      LOCKSTEP_TRY(const double speed, parse_read(content(output)));
      fmt::print("{}, run {} of {}: {:.1f} images/s\n", describe(cell), run, options_.runs, speed);
      result.speeds.push_back(speed);
    }
    LOCKSTEP_CHECK_OK(write_file(cell_file(cell), to_json(result).dump(2) + "\n"));
    results_[number] = std::move(result);
    return {};
  }

  Status finish() const {
    std::vector<StorageResult> done;
    for (const auto& one : results_) done.push_back(*one);
    const std::vector<StorageRow> rows = storage_rows(done);
    const std::vector<std::pair<std::string, std::string>> files = {{"results.json", storage_json(rows).dump(2) + "\n"},
                                                                    {"results.csv", storage_csv(rows)},
                                                                    {"storage.svg", storage_svg(rows)}};
    for (const auto& [name, text] : files) LOCKSTEP_CHECK_OK(write_file(root_ / name, text));
    fmt::print("\n{}\n", storage_table(rows));
    for (const auto& [name, text] : files) fmt::print("{}\n", (root_ / name).string());
    return {};
  }

  const StorageOptions& options_;
  const fs::path root_;
  const std::vector<StorageCell> cells_;
  std::vector<std::optional<StorageResult>> results_;  // by cell; empty: not measured
};

}  // namespace

int bench_storage(const StorageOptions& options) {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);  // a child that is forked must not have lines to print
  StorageBench bench(options);
  Status done = bench.load();
  if (done) done = bench.run();
  if (done && std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "lockstep bench storage: {}\n", done ? "standard output takes no more" : done.error().message);
  return 1;
}

}  // namespace lockstep::cli
