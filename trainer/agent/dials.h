// Can this pod reach the data addresses of a generation that it is to join? Connects to each of them and hangs up
// again: whoever listens there takes that for a stranger. No thread of its own: the agent's loop polls.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "trainer/agent/fd.h"

namespace lockstep::trainer::agent {

class Dials {
 public:
  struct Outcome {
    std::int64_t generation = 0;
    std::string problem;  // the first address that could not be reached, and why; empty: all were
  };

  // Gives up what was under way. Addresses are numeric, "ip:port" or "[ip]:port".
  void start(std::int64_t generation, std::vector<std::string> addresses);
  void add_polls(std::vector<pollfd>& polls) const;
  // When step() is next of use, apart from what was polled.
  MonotonicTime deadline() const;
  // Looks at all that are under way; what came of start(), once.
  std::optional<Outcome> step(MonotonicTime now);

 private:
  struct Dial {
    std::string address;
    Fd fd;
    MonotonicTime until{};
  };
  // Empty: it is under way, or there already. Else why it cannot be.
  std::string begin(std::string address, MonotonicTime now);
  std::string advance(MonotonicTime now);
  Outcome end(std::string problem);

  std::int64_t generation_ = 0;
  bool active_ = false;
  std::deque<std::string> waiting_;
  std::vector<Dial> under_way_;
};

}  // namespace lockstep::trainer::agent
