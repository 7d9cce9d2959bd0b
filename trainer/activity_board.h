// The activity of a training, for the link to the agent to read: the pulse of the training thread, and the communicator
// of the generation.
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

  // The training thread: the board reads this communicator from here on, and names its generation. null: none. On
  // return the caller may destroy the previous one.
  void use(const comm::Communicator* communicator, std::int64_t generation);

  // Any thread; does not block for long.
  rendezvous::Activity look() const;

 private:
  mutable std::mutex mutex_;  // held while the communicator is read, so that it is not destroyed meanwhile
  const comm::Communicator* communicator_ = nullptr;
  std::int64_t generation_ = 0;
};

}  // namespace lockstep::trainer
