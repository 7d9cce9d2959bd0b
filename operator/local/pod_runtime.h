// The kubelet of one machine without a cluster. It binds the pods that appear in the MemoryApi and runs each as a
// process. It writes phases, container states and exit codes back, ends deleted pods, and keeps their output.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/local/memory_api.h"
#include "operator/local/pod_process.h"
#include "operator/local/process_handle.h"

namespace lockstep::local {

struct PodRuntimeOptions {
  Machine machine;  // machine.folder must exist; it gets logs/
  // Called with each whole line (without its newline) of a pod's output, on the runtime's thread: do not block.
  std::function<void(const std::string& pod, std::string_view line)> on_line;
};

// A worker that was found by its rank.
struct Worker {
  pid_t pid = -1;
  std::string pod;
};

// The processes of a pod that runs.
struct RunningPod {
  std::string name;
  ProcessHandle agent;
  std::vector<ProcessHandle> workers;  // by local rank; those that the agent runs at the moment
};

// Owns two threads and all processes of the pods. Destruction is stop() without grace.
class PodRuntime {
 public:
  virtual ~PodRuntime() = default;

  // Sends SIGTERM to every pod, SIGKILL to the rest after `grace`, and returns when no process is left. Starts no pod
  // after the call. Idempotent; any thread.
  virtual void stop(Duration grace) = 0;
  // Ends all processes with SIGKILL now, also while another thread is inside stop(). Returns at once; any thread.
  virtual void kill_all() = 0;
  // Sends SIGKILL to the process of that rank (the child of an agent with RANK in its environment). kNotFound: no
  // process has the rank at the moment; kCancelled after stop(). Any thread.
  virtual Result<Worker> kill_worker(int rank) = 0;
  // The pod of that slot of its job (LOCKSTEP_SLOT in its environment). kNotFound: none runs at the moment; kCancelled
  // after stop(). Any thread.
  virtual Result<RunningPod> find_pod(int slot) = 0;
};

// Puts the node `machine.node_name` into the API and starts; takes over read_log of the API. `api` must outlive it.
// From the call on this process adopts orphans. kUnavailable, kExhausted: folders or descriptors cannot be created.
Result<std::unique_ptr<PodRuntime>> start_pod_runtime(MemoryApi& api, const PodRuntimeOptions& options, Clock& clock);

}  // namespace lockstep::local
