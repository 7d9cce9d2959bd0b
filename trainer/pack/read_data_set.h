// How fast a data set is read and decoded, as a trainer does it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/data/image_cache.h"

namespace lockstep::trainer::pack {

struct ReadOptions {
  std::string data;           // a folder that image models read, or "synthetic"
  std::int64_t side = 224;    // rows and columns that images are resized to
  int threads = 1;            // that read and decode
  double seconds = 5;         // for which batches are taken
  bool in_memory = false;     // files are read once, before
  double latency_ms = 0;      // of each request for a file (data/slow_storage.h)
  double mib_per_second = 0;  // of all requests together; 0: no limit
  data::ImageCacheOptions cache;
  bool second_epoch = false;  // every image is read once, before
};

struct ReadRate {
  std::int64_t images = 0;
  double seconds = 0;  // in which they were taken
  std::string form;    // of the data, for people

  double speed() const { return seconds > 0 ? static_cast<double>(images) / seconds : 0; }
};

// Takes batches of 32 images for the time of the options, one after the other, from a window of four of them. The
// opening of the data, the first window and, if asked for, the first epoch are not timed. kInvalid: options that
// contradict each other. kCancelled: `stop` became true. Other errors are those of the data (data/image_sets.h,
// data/image_source.h).
Result<ReadRate> read_data_set(const ReadOptions& options, Clock& clock, const std::atomic<bool>& stop);

// "result {...}" for tools.
std::string result_line(const ReadRate& rate);

}  // namespace lockstep::trainer::pack
