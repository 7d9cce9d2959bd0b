// submit, status, explain, logs and delete: the commands for a cluster, over the Api seam.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/cli/cluster_reading.h"
#include "operator/kube/api.h"

namespace lockstep::cli {

// -n, --context, --kubeconfig.
struct ClusterOptions {
  std::string kubeconfig, context, name_space;
};

struct Connection {
  std::unique_ptr<MetricsRegistry> metrics;  // before the api, which counts into it
  std::unique_ptr<kube::Api> api;
  std::string name_space;  // the requested one, else the context's, else "default"
  std::string source;      // for messages: "context 'kind' of /home/a/.kube/config"
};

// Sends nothing. One sentence for the user if there is no kubeconfig.
Result<Connection> connect(const ClusterOptions& options, Clock& clock);

// The surroundings of a command. `out` gets its output.
struct Target {
  kube::Api& api;
  std::string name_space;
  Clock& clock;
  std::FILE* out;
};

// Creates the job or changes it to the given object (server-side apply), and prints which; with `wait` follows it until
// it ends. Returns the command's exit status: 0, or with `wait` the job's.
Result<int> submit(const Target& target, const nlohmann::json& job, bool wait, std::stop_token stop);

struct StatusOptions {
  std::string name;  // "": all jobs of the namespace
  bool watch = false;
  bool json = false;
};
// With a name and `watch`, ends when the job ends and returns its exit status.
Result<int> status(const Target& target, const StatusOptions& options, std::stop_token stop);

// Prints the explanation of a job (explanation.h). Of one whose pods have no nodes also what is short, by this profile.
Status explain(const Target& target, const std::string& name, const ProfileChoice& profile = {});
// The same of a run on this machine: `folder` is that of the run, or its job.json. kNotFound, kInvalid: not one.
Status explain_run(const std::string& folder, Clock& clock, std::FILE* out);

struct JobLogOptions {
  std::string name;
  bool follow = false;
  std::optional<int> rank;
  std::optional<int> tail;
};
// Prints the logs of the job's pods, by slot. With a rank: its lines, from the pod that has the rank by the record of
// the newest generation. With follow also pods that come later, or to which the rank moves, until the job ends.
Status logs(const Target& target, const JobLogOptions& options, std::stop_token stop);

// Deletes jobs by name; tries all, returns the first error.
Status remove_jobs(const Target& target, const std::vector<std::string>& names);

}  // namespace lockstep::cli
