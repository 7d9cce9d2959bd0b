// Numbers of threads to test with.
#pragma once

#include <vector>

namespace lockstep::trainer::testing {

inline std::vector<int> thread_counts() {
  return {1, 2, 3};
}

}  // namespace lockstep::trainer::testing
