// The memory of a leading operator in a cluster of a given size: nodes, pods of others, and one gang. Measured at each
// stage: nothing, the nodes, the pods, the gang with its agents, a list of everything, storms of events, a lost member.
// The operator is a process of its own. The API server, the kubelets and the agents are scripted, in this process.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "operator/api/quantity.h"
#include "operator/api/training_job.h"
#include "operator/api/yaml_document.h"
#include "operator/kube/json_text.h"
#include "tests/bench/coordinator/scripted_gang.h"
#include "tests/bench/coordinator/served_coordinator.h"
#include "tests/bench/operator_size/cluster_texts.h"
#include "tests/bench/operator_size/kubelets.h"
#include "tests/bench/operator_size/measured_operator.h"
#include "tests/bench/operator_size/scripted_api_server.h"

namespace lockstep::bench {
namespace {

using kube::Json;

constexpr double kStageWithin = 600;  // seconds
constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr auto kTrimsWithin = std::chrono::seconds(65);  // the operator returns free memory once a minute
constexpr double kLimitToPeak = 1.5;

struct Size {
  int nodes = 0, pods = 0, agents = 0;
};

struct Wanted {
  std::string program;
  int storms = 3;
  bool replacement = false, rest = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double mib(std::int64_t kib) {
  return static_cast<double>(kib) / 1024;
}

bool wait_until(const std::function<bool()>& condition) {
  const double end = now() + kStageWithin;
  while (!condition()) {
    if (now() > end) return false;
    std::this_thread::sleep_for(kLookEvery);  // figures of another process, which announces none of them
  }
  return true;
}

// A job of one rank per pod, which has a second container and some settings, as users' jobs have.
Json job_of(const Size& size) {
  const int pods_of_a_node = (size.agents + size.nodes - 1) / size.nodes;
  api::TrainingJobSpec spec;
  spec.image = "registry.example.com/machine-learning/training-image-07:2026.01";
  spec.command = {"python", "-m", "train", "--config=/etc/training/config.yaml"};
  spec.nodes = size.agents;
  spec.gpus_per_node = std::max(1, kGpusOfANode / pods_of_a_node);
  spec.procs_per_node = 1;
  Json object{{"apiVersion", kube::kTrainingJobs.api_version()},
              {"kind", kube::kTrainingJobs.kind},
              {"metadata", {{"name", kJob}, {"namespace", kNamespace}}},
              {"spec", api::to_json(spec)}};
  Json environment = Json::array();
  for (int i = 0; i < 12; ++i) {
    environment.push_back({{"name", fmt::format("SETTING_{:02}", i)}, {"value", "a value of some thirty characters"}});
  }
  object["spec"]["env"] = environment;
  object["spec"]["podTemplate"]["spec"]["containers"] = Json::array(
      {{{"name", "metrics"}, {"image", "registry.example.com/services/metrics:2026.01"}, {"env", environment}}});
  return object;
}

// Waits until the status says that the gang runs, whole, in that generation or a later one; false if the job fails.
bool gang_runs(local::MemoryApi& objects, std::int64_t generation, int agents) {
  kube::WatchOptions jobs;
  jobs.resource_version = "0";
  jobs.timeout_seconds = static_cast<int>(kStageWithin);
  bool runs = false, ended = false;
  const Status watched = objects.watch(kube::kTrainingJobs, jobs,
                                       [&](const kube::WatchEvent& event) {
                                         const auto job = api::parse_training_job(event.object);
                                         runs = job && job->status.state == "Running" &&
                                                job->status.membership_generation >= generation &&
                                                job->status.nodes.ready == agents;
                                         ended = job && job->status.state == "Failed";
                                         return !runs && !ended;
                                       },
                                       {});
  return watched && runs;
}

// One size, from the start of the operator to its end.
class Measurement {
 public:
  Measurement(const Wanted& wanted, const Size& size) : wanted_(wanted), size_(size) {
    folder_ = (std::filesystem::temp_directory_path() / "lockstep-operator-size-XXXXXX").string();
    if (::mkdtemp(folder_.data()) == nullptr) folder_.clear();
  }
  ~Measurement() { std::filesystem::remove_all(folder_); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  // False, with a line on the error output, when a stage does not end.
  bool run() {
    auto started = MeasuredOperator::start(wanted_.program, folder_, server_.url(), server_.ca_pem());
    if (!started) return failed(started.error().message);
    operator_ = std::make_unique<MeasuredOperator>(std::move(*started));
    const bool done = stage("idle", [&] { return wait_until([&] { return leads(); }); }) &&
                      stage("the nodes", [&] { return grow(size_.nodes, 0); }) &&
                      stage("the pods of others", [&] { return grow(size_.nodes, size_.pods - size_.agents); }) &&
                      stage("the gang", [&] { return form(); }) &&
                      stage("everything listed again", [&] { return list_again(); }) && storms();
    return done && (!wanted_.replacement || stage("a member replaced", [&] { return lose(); })) &&
           (!wanted_.rest || stage("a minute later", [] {
             std::this_thread::sleep_for(kTrimsWithin);  // the span that is measured
             return true;
           }));
  }

  double peak_mib() const { return peak_; }
  double now_mib() const { return now_; }
  // The second and later storms add nothing that lasts: this is what they added.
  double growth_mib() const { return growth_; }

 private:
  bool failed(const std::string& why) {
    std::ifstream log(folder_ + "/operator.log");
    std::stringstream text;
    text << log.rdbuf();
    const std::string all = text.str();
    std::cerr << why << "; the end of the operator's log:\n"
              << all.substr(all.size() - std::min<std::size_t>(all.size(), 4000));
    return false;
  }

  bool stage(const char* what, const std::function<bool()>& act) {
    const ProcessFigures figures = operator_->figures();
    if (now_ > 0) figures.forget_peak();
    const double begun = now(), cpu = figures.cpu_seconds();
    if (!act()) return failed(fmt::format("stage '{}' did not end within {} s", what, kStageWithin));
    now_ = mib(figures.resident_kib());
    const double peak = mib(figures.peak_kib());
    peak_ = std::max(peak_, peak);
    std::cout << fmt::format("  {:<24} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}", what, now_, peak, now() - begun,
                             figures.cpu_seconds() - cpu)
              << std::endl;
    return true;
  }

  // A standby is ready, too, and has no such metric.
  bool leads() { return operator_->metric("lockstep_placement_nodes").has_value() && operator_->ready(); }

  // The operator knows of all nodes, twice: as places, and as what jobs ask of them; and of all pods.
  bool knows_all() {
    return wait_until([&] {
      const int pods = server_.pods_of_others() + (gang_ ? size_.agents : 0);
      return operator_->metric("lockstep_placement_nodes") == server_.nodes() &&
             operator_->metric(R"(lockstep_cache_objects{resource="nodes"})") == server_.nodes() &&
             operator_->metric("lockstep_placement_pods") == pods;
    });
  }

  bool grow(int nodes, int pods) {
    server_.resize(nodes, pods);
    return knows_all();
  }

  bool form() {
    if (!objects_.create(kube::kTrainingJobs, kNamespace, job_of(size_))) return false;
    if (!kubelets_.wait_for_all(size_.agents, kStageWithin)) return false;
    std::vector<ScriptedPod> pods;
    for (int slot = 0; slot < size_.agents; ++slot) pods.push_back(with_token(kubelets_.pod(slot)));
    const auto first = kubelets_.pod(0);
    const int port = std::stoi(first.coordinator.substr(first.coordinator.rfind(':') + 1));
    gang_ = std::make_unique<ScriptedGang>(pods, first.ca_pem, port);
    return gang_runs(objects_, 1, size_.agents) && knows_all();
  }

  bool lose() {
    const int victim = size_.agents / 2;
    const auto lost = kubelets_.pod(victim);
    gang_->lose(victim);
    if (!objects_.remove(kube::kPods, kNamespace, lost.name, {.grace_period_seconds = 0})) return false;
    const auto successor = kubelets_.wait_for_another(victim, lost.uid, kStageWithin);
    if (!successor) return false;
    gang_->replace(victim, with_token(*successor));
    return gang_runs(objects_, 2, size_.agents) && knows_all();
  }

  bool list_again() {
    const auto lists = [&] {
      double sum = 0;
      for (const char* resource : {"nodes", "pods"}) {
        sum += operator_->metric(fmt::format(R"(lockstep_lists_total{{resource="{}"}})", resource)).value_or(0);
      }
      return sum;
    };
    const double before = lists();
    server_.forget_history();
    return wait_until([&] { return lists() >= before + 4; }) && knows_all();  // each kind has two readers
  }

  bool storms() {
    double first = 0;
    for (int storm = 0; storm < wanted_.storms; ++storm) {
      const bool done = stage(storm == 0 ? "a storm of events" : "another storm", [&] {
        server_.storm();
        return knows_all();
      });
      if (!done) return false;
      if (storm == 0) first = now_;
    }
    if (wanted_.storms > 0) growth_ = now_ - first;
    return true;
  }

  ScriptedPod with_token(const Kubelets::RunningPod& pod) {
    return {pod.name, pod.uid, objects_.issue_token({kNamespace, pod.name, pod.uid}), pod.incarnation};
  }

  const Wanted wanted_;
  const Size size_;
  std::string folder_;
  double now_ = 0, peak_ = 0, growth_ = 0;
  local::MemoryApi objects_;
  ScriptedApiServer server_{objects_};
  Kubelets kubelets_{objects_};
  std::unique_ptr<MeasuredOperator> operator_;
  std::unique_ptr<ScriptedGang> gang_;  // ends first
};

// resources.limits.memory of the chart's values.
Result<double> limit_of(const std::string& values) {
  std::ifstream in(values);
  std::stringstream text;
  text << in.rdbuf();
  LOCKSTEP_TRY(const api::YamlDocument document, api::parse_yaml(text.str()));
  const std::string limit = kube::text_at(document.json, {"resources", "limits", "memory"});
  LOCKSTEP_TRY(const api::Quantity bytes, api::Quantity::parse(limit));
  return static_cast<double>(bytes.ceil()) / (1 << 20);
}

// Of "NODES/PODS/AGENTS"; none if it is not, or the agents' pods would not fit.
std::optional<Size> parse_size(const std::string& text) {
  std::istringstream in(text);
  Size size;
  char first = 0, second = 0;
  if (!(in >> size.nodes >> first >> size.pods >> second >> size.agents) || first != '/' || second != '/') return {};
  const bool fits = size.agents <= size.pods && size.agents <= kGpusOfANode * size.nodes;
  if (in.peek() != std::char_traits<char>::eof() || size.nodes < 1 || size.agents < 1 || !fits) return {};
  return size;
}

int run(int argc, char** argv) {
  CLI::App app("Memory of a leading operator in clusters of several sizes, in MiB");
  Wanted wanted;
  std::vector<std::string> sizes{"10000/10000/4096"};
  std::string values;
  double most_mib = 0, most_growth = 0, margin = 1;
  app.add_option("--operator", wanted.program, "the program lockstep-operator")->required()->check(CLI::ExistingFile);
  app.add_option("--sizes", sizes,
                 "NODES/PODS/AGENTS, one after the other; the agents' pods are among PODS (default 10000/10000/4096)");
  app.add_option("--most-mib", most_mib, "fail where the peak is above (default: no bound)");
  app.add_option("--limit-of", values, "take the bound from resources.limits.memory of this file");
  app.add_option("--margin", margin, "fail where the peak times this is above the bound (default 1)");
  app.add_option("--most-growth-mib", most_growth,
                 "fail where storms of events after the first add more (default: no bound)");
  app.add_option("--storms", wanted.storms, "storms of events (default 3)")->check(CLI::NonNegativeNumber);
  app.add_flag("--replacement", wanted.replacement, "also measure until the successor of a deleted pod has joined");
  app.add_flag("--rest", wanted.rest, "also measure a minute later, when the operator has returned free memory");
  CLI11_PARSE(app, argc, argv);
  if (!values.empty()) {
    const auto limit = limit_of(values);
    if (!limit) {
      std::cerr << values << ": resources.limits.memory: " << limit.error().message << "\n";
      return 2;
    }
    most_mib = *limit;
  }
  raise_descriptors();
  int status = 0;
  std::string table = fmt::format("\n{:>8} {:>8} {:>8} {:>9} {:>9} {:>11}\n", "nodes", "pods", "agents",
                                  wanted.rest ? "at rest" : "at the end", "peak", "peak x 1.5");
  for (const std::string& text : sizes) {
    const auto parsed = parse_size(text);
    if (!parsed) {
      std::cerr << fmt::format(
          "--sizes {}: must be NODES/PODS/AGENTS, with at most as many agents as pods and {} GPUs a node\n", text,
          kGpusOfANode);
      return 2;
    }
    const Size size = *parsed;
    std::cout << fmt::format("{} nodes, {} pods, {} of them with agents\n  {:<24} {:>8} {:>8} {:>8} {:>8}\n",
                             size.nodes, size.pods, size.agents, "after", "MiB", "peak MiB", "s", "CPU s");
    Measurement measurement(wanted, size);
    if (!measurement.run()) return 1;
    table +=
        fmt::format("{:>8} {:>8} {:>8} {:>9.0f} {:>9.0f} {:>11.0f}\n", size.nodes, size.pods, size.agents,
                    measurement.now_mib(), measurement.peak_mib(), std::ceil(measurement.peak_mib() * kLimitToPeak));
    if (most_mib > 0 && measurement.peak_mib() * margin > most_mib) {
      std::cout << fmt::format("FAILED: the peak of {:.1f} MiB, times {}, is above {} MiB\n", measurement.peak_mib(),
                               margin, most_mib);
      status = 1;
    }
    if (most_growth > 0 && measurement.growth_mib() > most_growth) {
      std::cout << fmt::format("FAILED: equal storms of events added {:.1f} MiB, more than {}\n",
                               measurement.growth_mib(), most_growth);
      status = 1;
    }
  }
  std::cout << table << std::flush;
  return status;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::run(argc, argv);
}
