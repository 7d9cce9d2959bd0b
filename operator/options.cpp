#include "operator/options.h"

#include <iostream>
#include <map>
#include <tuple>

#include <CLI/CLI.hpp>

#include "operator/base/number.h"
#include "operator/base/version.h"

namespace lockstep {
namespace {

// "host:port", ":port" or "[v6]:port"; false if there is no port.
bool split_address(const std::string& text, std::string& host, int& port) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  const auto number = parse_number<int>(std::string_view(text).substr(colon + 1), 0, 65535);
  if (!number) return false;
  std::string name = text.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (!name.empty()) host = name;
  port = *number;
  return true;
}

// Refuses any other word. Without the description, which would list the numbers of the enum in --help.
template <typename Enum>
CLI::Validator one_of(const std::map<std::string, Enum>& words) {
  return CLI::CheckedTransformer(words).description("");
}

}  // namespace

std::optional<int> parse_options(int argc, char** argv, OperatorOptions& options) {
  CLI::App app{"Runs TrainingJobs (lockstep.dev/v1alpha1) on a Kubernetes cluster."};
  std::string metrics_address;
  app.set_version_flag("--version", "lockstep-operator " + version_and_commit());
  app.add_option("--kubeconfig", options.kubeconfig,
                 "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the service account of the pod)");
  app.add_option("--namespace", options.name_space, "namespace of the operator's own Lease, Secret and Service")
      ->envname("POD_NAMESPACE")
      ->capture_default_str();
  app.add_option("--watch-namespace", options.watch_namespace, "run only the jobs of this namespace (default: all)");
  app.add_option("--metrics-address", metrics_address,
                 "host:port of /metrics, /healthz and /readyz; port 0 picks a free one")
      ->default_str("0.0.0.0:8080")
      ->check([&](const std::string& text) {
        return split_address(text, options.metrics_host, options.metrics_port) ? "" : "must be host:port";
      });
  app.add_option("--coordinator-port", options.coordinator_port,
                 "port of the coordinator, for agents; 0 picks a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option(
      "--coordinator-advertise-address", options.advertise_address,
      "ip[:port] that pods dial, for an operator outside of the cluster (default: Service lockstep-coordinator)");
  app.add_option("--pod-ip", options.pod_ip, "own address in the cluster, for the Service's EndpointSlice")
      ->envname("POD_IP");
  app.add_option("--agent-image", options.agent_image, "image that contains /lockstep-agent: the operator's own")
      ->envname("LOCKSTEP_AGENT_IMAGE")
      ->required();
  // One that may be given again and again.
  const auto add_repeated = [&app](const char* name, std::vector<std::string>& values, const char* type,
                                   const char* text) {
    app.add_option(name, values, text)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  std::vector<std::string> levels, avoided, left, dead;
  add_repeated("--topology-level", levels, "NAME=LABEL",
               "network level above the node, as NAME=LABEL of nodes; repeat it, outermost first. Ranks follow the "
               "domains of the pods (default: no level, ranks follow slots)");
  add_repeated("--avoid-nodes", avoided, "SIGN",
               "sign that a node is sick, which then gets no more pods: condition:TYPE=STATUS, taint:KEY[=VALUE], "
               "label:KEY[=VALUE], or preset:NAME (nvsentinel, eks, hyperpod, aks, gke, gke-scheduled, autoscalers); "
               "repeat it");
  add_repeated(
      "--leave-nodes", left, "SIGN",
      "sign, as of --avoid-nodes, that a node is about to fail; it gets no more pods, and members of jobs leave "
      "it after a step (if a spare, minNodes others or a successor's node is there); repeat it");
  add_repeated("--dead-nodes", dead, "SIGN",
               "sign, as of --avoid-nodes, that a node counts as lost: it gets no more pods, and those of jobs are "
               "replaced at once; repeat it");
  app.add_option("--leave-unhealthy-devices", options.leave_unhealthy_devices,
                 "members leave as with --leave-nodes if the kubelet reports a device of their pod as Unhealthy")
      ->capture_default_str();
  app.add_option("--placement-backend", options.placement_backend,
                 "places the pods of jobs without scheduling.backend; values: lockstep (this operator, as gangs), "
                 "none (kube-scheduler, pod by pod), auto (lockstep if it may list nodes and the pods of all "
                 "namespaces, else none)")
      ->transform(one_of<job::DefaultBackend>({{"auto", job::DefaultBackend::kAuto},
                                               {"lockstep", job::DefaultBackend::kLockstep},
                                               {"none", job::DefaultBackend::kNone}}))
      ->type_name("WORD")
      ->default_str("auto");
  app.add_option("--workers", options.workers, "concurrent reconciles")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--leader-elect", options.leader_elect, "act only while holding the Lease lockstep-operator")
      ->capture_default_str();
  app.add_option("--leader-elect-lease-duration", options.lease_seconds,
                 "seconds until a standby takes over from a silent leader")
      ->check(CLI::Range(3, 3600))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "text or json")
      ->transform(one_of<log::Format>({{"text", log::Format::kText}, {"json", log::Format::kJson}}))
      ->type_name("WORD")
      ->default_str("text");
  app.add_option("--log-level", options.log_level, "debug, info, warn or error")
      ->transform(one_of<log::Level>({{"debug", log::Level::kDebug},
                                      {"info", log::Level::kInfo},
                                      {"warn", log::Level::kWarn},
                                      {"error", log::Level::kError}}))
      ->type_name("WORD")
      ->default_str("info");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }
  for (const auto& [flag, values, signs] : {std::tuple("--leave-nodes", &left, &options.leave_signs),
                                            std::tuple("--dead-nodes", &dead, &options.dead_signs)}) {
    auto read = placement::SickSigns::of_flags(*values);
    if (!read) {
      std::cerr << flag << ": " << read.error().message << "\n";
      return 2;
    }
    *signs = *std::move(read);
    avoided.insert(avoided.end(), values->begin(), values->end());
  }
  auto signs = placement::SickSigns::of_flags(avoided);
  if (!signs) {
    std::cerr << "--avoid-nodes: " << signs.error().message << "\n";
    return 2;
  }
  options.sick_signs = *std::move(signs);
  for (const std::string& level : levels) {
    auto read = placement::level_of_flag(level);
    if (!read) {
      std::cerr << "--topology-level " << level << ": " << read.error().message << "\n";
      return 2;
    }
    options.topology.levels.push_back(*std::move(read));
  }
  if (levels.empty()) return std::nullopt;
  options.topology.name = "--topology-level";
  if (const Status fine = placement::check(options.topology); !fine) {
    std::cerr << fine.error().message << "\n";
    return 2;
  }
  return std::nullopt;
}

}  // namespace lockstep
