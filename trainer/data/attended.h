// Work on storage that may hang: its threads are attended by one that waits with a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "operator/base/result.h"

namespace lockstep::trainer::data {

// How often a thread that waits for the storage asks whether it still answers.
inline constexpr std::chrono::milliseconds kLookEvery{100};

// Calls work(0) to work(count - 1) on up to `threads` threads, in this order, and waits until all have returned.
// Returns the error of the lowest number that failed; later numbers may be left out then. While it waits it calls
// `check`. The first error of `check` is returned at once. Then the threads are left behind, because a thread that
// hangs in the kernel cannot be joined. So `work` owns all that it uses. The end of the process ends them. kExhausted:
// `work` found no memory, or no thread could be started.
Status attend(std::size_t count, int threads, std::function<Status(std::size_t)> work,
              const std::function<Status()>& check);

}  // namespace lockstep::trainer::data
