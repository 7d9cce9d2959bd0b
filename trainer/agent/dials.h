// Tests whether this pod reaches the data addresses of a generation that it is to join: connects to each of them and
// closes. The listener takes such a connection for a stranger. No thread of its own: the agent's loop polls.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/unique_fd.h"

namespace lockstep::trainer::agent {

class Dials {
 public:
  struct Outcome {
    std::int64_t generation = 0;
    std::string problem;  // the first address that could not be reached, and why; empty: all were
  };

  // Cancels the dials in progress and starts others. Addresses are numeric, "ip:port" or "[ip]:port".
  void start(std::int64_t generation, std::vector<std::string> addresses);
  void add_polls(std::vector<pollfd>& polls) const;
  // The time of the next step() without an event.
  MonotonicTime deadline() const;
  // Advances all dials; returns the result of start() once.
  std::optional<Outcome> step(MonotonicTime now);

 private:
  struct Dial {
    std::string address;
    UniqueFd fd;
    MonotonicTime until{};
  };
  // Empty: it is in progress, or connected. Else the reason.
  std::string begin(std::string address, MonotonicTime now);
  std::string advance(MonotonicTime now);
  Outcome end(std::string problem);

  std::int64_t generation_ = 0;
  bool active_ = false;
  std::deque<std::string> waiting_;
  std::vector<Dial> under_way_;
};

}  // namespace lockstep::trainer::agent
