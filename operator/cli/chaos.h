// When the faults of a schedule strike: each after its step, or right after the previous one. The owner polls it often
// and supplies the function that makes a fault.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/cli/chaos_schedule.h"

namespace lockstep::cli {

// A fault of the schedule that is done.
struct ChaosEvent {
  int number = 0;  // in the schedule, from 1
  Fault fault;
  std::int64_t step = 0;  // the newest committed step
  MonotonicTime when{};   // when it struck
  bool made = false;      // false: it could not be
  std::string what;       // "killed the worker of slot 2 (process 4711, pod few-1f3a-2-0)", or why it could not
};

// The progress of the job.
struct ChaosProgress {
  std::int64_t newest_step = 0;  // highest step ever committed
  std::int64_t commits = 0;      // committed steps, repeated ones each time
  std::int64_t total_steps = 0;  // 0: not known so far
};

// One thread.
class Chaos {
 public:
  // Makes a fault and says what it did. kNotFound: its victim is missing for the moment, retry; any other error: it
  // cannot be made.
  using Make = std::function<Result<std::string>(const Fault&)>;

  Chaos(std::vector<Fault> schedule, Make make, Clock& clock);

  // Makes the faults that are due, and returns what happened. A fault that is not `at_once` waits until the job has
  // made a few steps since the previous one. A gang that never trains between faults tests nothing. It drops a fault
  // whose victim does not appear within ten seconds.
  std::vector<ChaosEvent> look(const ChaosProgress& progress);

  const std::vector<ChaosEvent>& events() const { return events_; }
  // Faults that are still to come.
  size_t left() const { return schedule_.size() - next_; }

 private:
  bool due(const Fault& fault, const ChaosProgress& progress);

  const std::vector<Fault> schedule_;
  const Make make_;
  Clock& clock_;
  size_t next_ = 0;
  std::optional<MonotonicTime> due_;  // when the next one is due, if known
  MonotonicTime last_{};              // when the previous one was done
  std::int64_t last_commits_ = 0;     // committed steps by then
  std::vector<ChaosEvent> events_;
};

}  // namespace lockstep::cli
