// Where the parts of a training say what they are doing, and the link to the agent looks it up: the pulse of the thread
// that trains, and the communicator of the generation.
#pragma once

#include <cstdint>
#include <mutex>

#include "operator/rendezvous/activity.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/pulse.h"

namespace lockstep::trainer {

class ActivityBoard {
 public:
  core::Pulse pulse;

  // The training thread: which communicator is looked at from now on, and its generation; null: none, and the caller
  // may destroy the one of before.
  void use(const comm::Communicator* communicator, std::int64_t generation);

  // Any thread; does not block for long.
  rendezvous::Activity look() const;

 private:
  mutable std::mutex mutex_;  // held while the communicator is looked at, so that nobody destroys it meanwhile
  const comm::Communicator* communicator_ = nullptr;
  std::int64_t generation_ = 0;
};

}  // namespace lockstep::trainer
