// The cost of a gang of thousands for the coordinator. Scripted agents over TLS on the loopback form a gang, lose a
// member, re-form it, and find the coordinator's successor. The coordinator is a process of its own.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <thread>
#include <vector>

#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_timing.h"
#include "tests/bench/coordinator/scripted_gang.h"
#include "tests/bench/coordinator/served_coordinator.h"
#include "tests/bench/process_figures.h"

namespace lockstep::bench {
namespace {

constexpr int kUp = static_cast<int>(rendezvous::Phase::kUp);
constexpr double kFormWithin = 120;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A folder with the certificates, removed at the end.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "lockstep-coordinator-bench-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
    const auto authority = rendezvous::make_authority();
    const auto serving = rendezvous::issue_serving_certificate(*authority);
    ca_ = authority->certificate_pem;
    std::ofstream(path_ + "/serving.pem") << serving->certificate_pem;
    std::ofstream(path_ + "/key.pem") << serving->private_key_pem;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  const std::string& ca() const { return ca_; }

 private:
  std::string path_, ca_;
};

struct Figures {
  double form = -1, reform = -1, back = -1;  // seconds
  double us_per_heartbeat = -1;
  double heartbeats_per_second = 0;
  std::int64_t peak_kib = 0, idle_kib = 0;
  std::int64_t generation_after_restart = 0;
};

ScriptedPod scripted_pod(int slot, std::int64_t incarnation) {
  const std::string name = pod_of(slot, incarnation);
  return {name, name, name, incarnation};
}

// Waits until the gang is up in at least that generation with this many members connected; returns the time that it
// took.
std::optional<double> up(ServedCoordinator& coordinator, std::int64_t generation, int members,
                         const std::function<void(const ServedCoordinator::View&)>& seen = {}) {
  const double begun = now();
  ServedCoordinator::View view;
  while (now() - begun < kFormWithin) {
    if (!coordinator.read(view, 1)) continue;
    if (seen) seen(view);
    if (view.phase == kUp && view.generation >= generation && view.connected == members) return now() - begun;
  }
  std::cerr << fmt::format("phase {}, generation {}, {} of {} connected after {} s: {}\n", view.phase, view.generation,
                           view.connected, members, kFormWithin, view.message);
  return std::nullopt;
}

std::optional<Figures> measure(int members, double seconds) {
  Figures figures;
  const Folder folder;
  auto started = ServedCoordinator::start(folder.path(), 0, 1, members);
  const auto started_at = std::chrono::steady_clock::now();
  if (!started) {
    std::cerr << started.error().message << "\n";
    return std::nullopt;
  }
  ServedCoordinator coordinator = std::move(*started);
  std::vector<ScriptedPod> pods;
  for (int slot = 0; slot < members; ++slot) pods.push_back(scripted_pod(slot, 1));
  ScriptedGang gang(pods, folder.ca(), coordinator.port());
  const auto formed = up(coordinator, 1, members);
  if (!formed) return std::nullopt;
  figures.form = *formed;

  const double cpu = coordinator.figures().cpu_seconds();
  const std::int64_t beats = gang.heartbeats();
  const double begun = now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // the span that is measured
  const double said = static_cast<double>(gang.heartbeats() - beats);
  figures.us_per_heartbeat = (coordinator.figures().cpu_seconds() - cpu) * 1e6 / said;
  figures.heartbeats_per_second = said / (now() - begun);
  figures.idle_kib = coordinator.figures().resident_kib();

  // A new coordinator evicts no member for that long, and sends no event when that time ends.
  std::this_thread::sleep_until(started_at + rendezvous::CoordinatorTiming().no_eviction_for);
  const int victim = members / 2;
  bool replaced = false;
  gang.lose(victim);
  coordinator.replace_pod(victim);
  const auto reformed = up(coordinator, 2, members, [&](const ServedCoordinator::View& view) {
    if (view.replaced == victim && !replaced) {
      replaced = true;
      gang.replace(victim, scripted_pod(victim, 2));
    }
  });
  if (!reformed) return std::nullopt;
  figures.reform = *reformed;
  figures.peak_kib = coordinator.figures().peak_kib();

  const int port = coordinator.port();
  coordinator.kill();
  auto next = ServedCoordinator::start(folder.path(), port, 2, members);
  if (!next) {
    std::cerr << next.error().message << "\n";
    return std::nullopt;
  }
  coordinator = std::move(*next);
  std::int64_t highest = 0;
  const auto back = up(coordinator, 1, members,
                       [&](const ServedCoordinator::View& view) { highest = std::max(highest, view.generation); });
  if (!back) return std::nullopt;
  figures.back = *back;
  figures.generation_after_restart = highest;
  figures.peak_kib = std::max(figures.peak_kib, coordinator.figures().peak_kib());
  return figures;
}

int run(int argc, char** argv) {
  CLI::App app("Cost of a large gang for its coordinator");
  std::vector<int> sizes{100, 4096};
  double seconds = 10;
  double most_mib = 0;
  app.add_option("--members", sizes, "sizes of the gang, one after the other (default 100 4096)");
  app.add_option("--seconds", seconds, "how long heartbeats are counted (default 10)");
  app.add_option("--most-mib", most_mib, "fail where the coordinator's peak RSS is above (default: no bound)");
  CLI11_PARSE(app, argc, argv);
  raise_descriptors();
  std::cout << fmt::format("{:>8} {:>9} {:>9} {:>9} {:>12} {:>13} {:>9} {:>9}\n", "members", "form s", "reform s",
                           "back s", "heartbeats/s", "us/heartbeat", "idle MiB", "peak MiB");
  std::optional<double> first;
  int status = 0;
  for (const int members : sizes) {
    const auto figures = measure(members, seconds);
    if (!figures) return 1;
    std::cout << fmt::format("{:>8} {:>9.2f} {:>9.2f} {:>9.2f} {:>12.0f} {:>13.1f} {:>9.1f} {:>9.1f}", members,
                             figures->form, figures->reform, figures->back, figures->heartbeats_per_second,
                             figures->us_per_heartbeat, static_cast<double>(figures->idle_kib) / 1024,
                             static_cast<double>(figures->peak_kib) / 1024);
    if (first) std::cout << fmt::format("   {:.2f}x of the first per heartbeat", figures->us_per_heartbeat / *first);
    std::cout << std::endl;
    if (!first) first = figures->us_per_heartbeat;
    if (figures->generation_after_restart != 2) {
      std::cout << fmt::format("FAILED: after the restart the generation is {}, not 2\n",
                               figures->generation_after_restart);
      status = 1;
    }
    if (most_mib > 0 && static_cast<double>(figures->peak_kib) / 1024 > most_mib) {
      std::cout << fmt::format("FAILED: more than {} MiB\n", most_mib);
      status = 1;
    }
  }
  return status;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "serve") {
    lockstep::bench::raise_descriptors();
    return lockstep::bench::serve(argv[2], std::stoi(argv[3]), std::stoll(argv[4]), std::stoi(argv[5]));
  }
  return lockstep::bench::run(argc, argv);
}
