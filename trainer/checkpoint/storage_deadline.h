// How long the storage of checkpoints may take, and work on it that ends in time.
//
// A rank that waits for its storage moves nothing, so a watcher cannot tell it from a hung one. Each such wait has a
// deadline that follows from the size of the state. The rank announces it with kTimeToEnd on top (ActivityBoard). Its
// coordinator waits that long, and its peers at least that long.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/base/thread.h"

namespace lockstep::trainer::checkpoint {

inline constexpr std::chrono::seconds kStorageBase{120};                 // the storage may be away for so long
inline constexpr std::uint64_t kStorageFloor = std::uint64_t{16} << 20;  // bytes of state per second, at least
// From an overrun deadline to the end of the process. Peers and the coordinator wait at least so much longer.
inline constexpr std::chrono::seconds kTimeToEnd{30};

// For reading or writing a checkpoint of a state of `bytes`: kStorageBase, and the time of `bytes` at kStorageFloor, a
// week at most.
Duration storage_deadline(std::uint64_t bytes);

// Calls `work`, which returns a Result, on a thread of its own and returns its result. kExhausted: `work` found no
// memory, or no thread could be started; names `what`. kDeadlineExceeded names `what` after `deadline`. Then the thread
// is abandoned and may still use what `work` holds, so the caller ends the process without destroying that
// (std::_Exit).
template <typename Work>
auto in_time(Duration deadline, const std::string& what, Work work) -> decltype(work()) {
  using Outcome = decltype(work());
  const auto exhausted = [what](const std::exception& error) {
    return fail(ErrorCode::kExhausted, fmt::format("{}: {}", what, error.what()));
  };
  std::packaged_task<Outcome()> task([exhausted, work = std::move(work)]() mutable -> Outcome {
    try {
      return work();
    } catch (const std::exception& error) {
      return exhausted(error);
    }
  });
  auto outcome = task.get_future();
  std::thread thread;
  try {
    thread = start_without_signals(std::move(task));
  } catch (const std::system_error& error) {
    return exhausted(error);
  }
  if (outcome.wait_for(deadline) == std::future_status::ready) {
    thread.join();
    return outcome.get();
  }
  thread.detach();
  return fail(ErrorCode::kDeadlineExceeded, fmt::format("{} takes longer than {:.0f} s: is its storage there?", what,
                                                        std::chrono::duration<double>(deadline).count()));
}

}  // namespace lockstep::trainer::checkpoint
