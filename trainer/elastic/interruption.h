// Takes a rank out of a generation that has ended, wherever it is: in a collective, computing, or connecting.
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
  // To be called by the owner's thread, before it uses the interruption for another generation.
  void clear();
  bool raised() const { return flag_.load(); }

  // The communicator that raise() aborts; at once if raise() was called before. null: none. On return the caller may
  // destroy the previous communicator.
  void use(comm::Communicator* communicator);

  // For code that computes or connects: true, or readable, when it should end.
  const std::atomic<bool>& flag() const { return flag_; }
  int fd() const { return event_.get(); }

 private:
  explicit Interruption(comm::UniqueFd event) : event_(std::move(event)) {}

  std::atomic<bool> flag_{false};
  const comm::UniqueFd event_;
  std::mutex mutex_;  // held while the communicator is aborted, so that it is not destroyed meanwhile
  comm::Communicator* communicator_ = nullptr;
};

}  // namespace lockstep::trainer::elastic
