// Storage that answers later than it could: decorators of the seam to files, to measure what a store costs.
#pragma once

#include <cstdint>
#include <memory>

#include "operator/base/clock.h"
#include "trainer/data/data_file.h"

namespace lockstep::trainer::data {

struct StorageFigures {
  Duration latency{0};          // of each request: to open a file, or to read from it
  double bytes_per_second = 0;  // of all requests together; 0: no limit
};

// When the store answers. The bytes of requests pass one after the other, in the order of the calls; their latencies
// pass side by side. One thread at a time.
class AnswerTimes {
 public:
  explicit AnswerTimes(const StorageFigures& figures) : figures_(figures) {}
  // To a request for `bytes` (0: an opening) that is sent at `now`, which never goes back.
  MonotonicTime next(MonotonicTime now, std::uint64_t bytes);

 private:
  const StorageFigures figures_;
  MonotonicTime free_{};  // when the last byte that was asked for has passed
};

// Any number of threads. `clock` outlives it and what it opened.
class SlowStorage {
 public:
  SlowStorage(const StorageFigures& figures, Clock& clock);
  // Opens files as `open` does. All files together are opened and read at the pace of the figures. Before begin()
  // nothing is slowed.
  OpenFile over(OpenFile open) const;
  void begin();

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

// As `open`, for files that are read once, as a whole, and stay in memory. kExhausted: they would have more than
// `most_bytes` together; the sentence names the file that does not fit.
OpenFile in_memory(OpenFile open, std::uint64_t most_bytes);

}  // namespace lockstep::trainer::data
