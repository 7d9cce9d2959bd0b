// When the faults of a schedule come: each after its step, or on the heels of the one before. Whoever owns it looks at
// it often; what a fault is made with is given.
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

// A fault of the schedule that has had its turn.
struct ChaosEvent {
  int number = 0;  // in the schedule, from 1
  Fault fault;
  std::int64_t step = 0;  // the newest that was committed
  MonotonicTime when{};   // it was made
  bool made = false;      // false: it could not be
  std::string what;       // "killed the worker of slot 2 (process 4711, pod few-1f3a-2-0)", or why not
};

// How far the job is.
struct ChaosProgress {
  std::int64_t newest_step = 0;  // highest that was ever committed
  std::int64_t commits = 0;      // steps that were committed, those that were done again as often as they were
  std::int64_t total_steps = 0;  // 0: not known yet
};

// One thread.
class Chaos {
 public:
  // Makes a fault and says what it did. kNotFound: its victim is not there just now, try again; any other error: it
  // cannot be made.
  using Make = std::function<Result<std::string>(const Fault&)>;

  Chaos(std::vector<Fault> schedule, Make make, Clock& clock);

  // Makes what is due, and returns what happened. A fault that does not come at once waits until the job has made a few
  // steps since the one before: a gang that never comes together again shows nothing. A fault whose victim does not
  // come within ten seconds is left out.
  std::vector<ChaosEvent> look(const ChaosProgress& progress);

  const std::vector<ChaosEvent>& events() const { return events_; }
  // Faults that have not had their turn.
  size_t left() const { return schedule_.size() - next_; }

 private:
  bool due(const Fault& fault, const ChaosProgress& progress);

  const std::vector<Fault> schedule_;
  const Make make_;
  Clock& clock_;
  size_t next_ = 0;
  std::optional<MonotonicTime> due_;  // when the next one is, once that is known
  MonotonicTime last_{};              // the one before had its turn
  std::int64_t last_commits_ = 0;     // until then
  std::vector<ChaosEvent> events_;
};

}  // namespace lockstep::cli
