// The deadline of lockstep-trainer-hasty, so that a test of storage that hangs takes a second instead of two minutes.
#include "trainer/checkpoint/storage_deadline.h"

namespace lockstep::trainer::checkpoint {

Duration storage_deadline(std::uint64_t) {
  return std::chrono::seconds(1);
}

}  // namespace lockstep::trainer::checkpoint
