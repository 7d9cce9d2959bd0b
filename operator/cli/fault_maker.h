// Makes the faults of `lockstep run --chaos`: signals and cut connections, to this run's own processes alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/cli/chaos_schedule.h"
#include "operator/local/pod_runtime.h"

namespace lockstep::cli {

// One thread.
class FaultMaker {
 public:
  // `restart` ends the controller with its coordinator and starts new ones. The runtime must outlive it.
  FaultMaker(local::PodRuntime& runtime, std::function<Status()> restart, Clock& clock);
  // Thaws frozen workers.
  ~FaultMaker();
  FaultMaker(const FaultMaker&) = delete;
  FaultMaker& operator=(const FaultMaker&) = delete;

  // Chaos::Make.
  Result<std::string> make(const Fault& fault);
  // Thaws workers that were frozen long enough; call it often.
  void thaw();

 private:
  struct Frozen {
    local::ProcessHandle process;
    MonotonicTime until{};
  };
  local::PodRuntime& runtime_;
  const std::function<Status()> restart_;
  Clock& clock_;
  std::vector<Frozen> frozen_;
};

}  // namespace lockstep::cli
