// Takes a rank out of a generation that has ended, wherever it is: in a collective, computing, or connecting.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "operator/base/result.h"
#include "operator/base/unique_fd.h"
#include "trainer/comm/communicator.h"

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

  // What raise() calls, after flag() became true, to wake a thread that waits elsewhere. A lock is held, so it must not
  // block. It is called at once if raise() was called before. Empty: nothing. The previous one is never called after
  // the return.
  void on_raise(std::function<void()> wake);

  // For code that computes or connects: true, or readable, when it should end.
  const std::atomic<bool>& flag() const { return flag_; }
  int fd() const { return event_.get(); }

 private:
  explicit Interruption(UniqueFd event) : event_(std::move(event)) {}

  std::atomic<bool> flag_{false};
  const UniqueFd event_;
  std::mutex mutex_;  // held while the communicator is aborted and wake_ runs, so that both still exist
  comm::Communicator* communicator_ = nullptr;
  std::function<void()> wake_;
};

}  // namespace lockstep::trainer::elastic
