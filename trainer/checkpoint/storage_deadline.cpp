#include "trainer/checkpoint/storage_deadline.h"

namespace lockstep::trainer::checkpoint {

Duration storage_deadline(std::uint64_t bytes) {
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(7 * 24);
  const std::uint64_t milliseconds = bytes / (kStorageFloor / 1000);
  return kStorageBase +
         (milliseconds < static_cast<std::uint64_t>(kMost.count()) ? std::chrono::milliseconds(milliseconds) : kMost);
}

}  // namespace lockstep::trainer::checkpoint
