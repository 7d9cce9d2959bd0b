// Numbers of threads to test with.
#pragma once

#include <vector>

namespace lockstep::trainer::testing {

// ThreadSanitizer does not see how OpenMP's threads wait for each other, so under it there is only one.
inline std::vector<int> thread_counts() {
#if defined(__SANITIZE_THREAD__)
  return {1};
#else
  return {1, 2, 3};
#endif
}

}  // namespace lockstep::trainer::testing
