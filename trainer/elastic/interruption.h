// Takes a rank out of a generation that will not go on, wherever it is: in a collective, computing, or linking.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/fd.h"

namespace lockstep::trainer::elastic {

class Interruption {
 public:
  // kExhausted: no descriptor is left.
  static Result<std::unique_ptr<Interruption>> create();

  // Aborts the communicator in use, sets flag() and makes fd() readable, until clear(). Any thread; does not block.
  void raise();
  // The owner's thread: for what comes next.
  void clear();
  bool raised() const { return flag_.load(); }

  // What raise() aborts from now on, at once where it was raised before; null: nothing, and the caller may destroy the
  // communicator of before.
  void use(comm::Communicator* communicator);

  // For whoever computes or links: true, or readable, when it should end.
  const std::atomic<bool>& flag() const { return flag_; }
  int fd() const { return event_.get(); }

 private:
  explicit Interruption(comm::UniqueFd event) : event_(std::move(event)) {}

  std::atomic<bool> flag_{false};
  const comm::UniqueFd event_;
  std::mutex mutex_;  // held while the communicator is told, so that nobody destroys it meanwhile
  comm::Communicator* communicator_ = nullptr;
};

}  // namespace lockstep::trainer::elastic
