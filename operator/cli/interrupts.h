// SIGINT, SIGTERM, SIGHUP and SIGQUIT as calls on a thread of their own.
#pragma once

#include <functional>
#include <memory>

#include "operator/base/result.h"

namespace lockstep::cli {

class Interrupts {
 public:
  virtual ~Interrupts() = default;  // no call is running or starts afterwards
};

// Calls `on_signal(number, how many have come)` for each. The signals must be blocked in every thread of the process.
Result<std::unique_ptr<Interrupts>> watch_interrupts(std::function<void(int number, int count)> on_signal);

}  // namespace lockstep::cli
