// Waits that pace what the controller does, measured on a wall clock that somebody may set back.
#pragma once

#include "operator/base/clock.h"

namespace lockstep::job {

// What is left of `wait` after `since`. Nothing when `since` lies in the future: the clock was set back, and nobody
// waits until it has caught up.
inline Duration time_left(WallTime now, WallTime since, Duration wait) {
  const Duration age = now - since;
  return age < Duration::zero() || age >= wait ? Duration::zero() : wait - age;
}

}  // namespace lockstep::job
