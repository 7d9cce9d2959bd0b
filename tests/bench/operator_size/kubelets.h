// kube-scheduler and the kubelets of the benchmark's cluster. The pods of jobs, once they have no gate, are bound to
// the node that they ask for and run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "operator/local/memory_api.h"

namespace lockstep::bench {

class Kubelets {
 public:
  struct RunningPod {
    std::string name, uid, coordinator, ca_pem;  // the last two from its environment
    std::int64_t incarnation = 0;
  };

  // `objects` outlives this.
  explicit Kubelets(local::MemoryApi& objects);
  ~Kubelets();
  Kubelets(const Kubelets&) = delete;
  Kubelets& operator=(const Kubelets&) = delete;

  // Waits until slots 0 to `slots` - 1 have a pod that runs; false after `seconds`.
  bool wait_for_all(int slots, double seconds);
  // Waits until another pod than that runs in the slot.
  std::optional<RunningPod> wait_for_another(int slot, const std::string& than_uid, double seconds);
  RunningPod pod(int slot) const;

 private:
  void run(std::stop_token stop);
  void see(const kube::Json& pod);

  local::MemoryApi& objects_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, RunningPod> pods_;  // by slot; protected by mutex_
  std::jthread thread_;             // last: it uses all of the above
};

}  // namespace lockstep::bench
