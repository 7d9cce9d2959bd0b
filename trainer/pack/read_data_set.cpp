#include "trainer/pack/read_data_set.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "trainer/data/image_sets.h"
#include "trainer/data/image_source.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/slow_storage.h"
#include "trainer/data/synthetic_images.h"

namespace lockstep::trainer::pack {

namespace {

constexpr std::int64_t kRows = 32, kWindow = 4;                  // of a batch; batches
constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;     // of int32
constexpr std::uint64_t kMostInMemory = std::uint64_t{4} << 30;  // bytes

struct Opened {
  std::unique_ptr<core::SampleSource> source;
  std::string form;
  std::int64_t images = 0;  // of an epoch
};

Opened open_synthetic(const ReadOptions& options) {
  return {.source = std::make_unique<data::SyntheticImages>(data::SyntheticOptions{.pixels = options.side}),
          .form = "synthetic images",
          .images = data::SyntheticImages::kImages};
}

// `slow` outlives the call.
Result<Opened> open_files(const ReadOptions& options, const data::SlowStorage& slow) {
  data::OpenFile open = data::open_data_file;
  if (options.in_memory) open = data::in_memory(open, kMostInMemory);
  if (options.latency_ms > 0 || options.mib_per_second > 0) open = slow.over(open);
  LOCKSTEP_TRY(const auto sets,
               data::open_image_sets({.paths = {options.data}, .threads = options.threads, .open = open}));
  std::shared_ptr<const data::ImageStore> training = sets.training;
  if (options.cache.any()) {
    LOCKSTEP_TRY(training, data::ImageCache::over(sets.training, options.cache));
  }
  LOCKSTEP_TRY(auto images, data::ImageSource::create(training, sets.held_out,
                                                      {.height = options.side,
                                                       .width = options.side,
                                                       .classes = kMostClasses,
                                                       .statistics = data::kImageNetStatistics,
                                                       .augmentation = data::kPhotographs}));
  LOCKSTEP_TRY(auto prefetcher, data::Prefetcher::start(images, {.threads = options.threads, .batches = kWindow}));
  return Opened{.source = std::move(prefetcher), .form = sets.form, .images = images->samples()};
}

Status check(const ReadOptions& options) {
  const bool files = options.in_memory || options.latency_ms > 0 || options.mib_per_second > 0 || options.threads > 1 ||
                     options.cache.any();
  if (options.data != "synthetic" || !files) return {};
  return fail(ErrorCode::kInvalid,
              "synthetic images have no files; leave out --threads, --in-memory, --latency-ms, --bandwidth-mib and "
              "--cache-...");
}

}  // namespace

Result<ReadRate> read_data_set(const ReadOptions& options, Clock& clock, const std::atomic<bool>& stop) {
  LOCKSTEP_CHECK_OK(check(options));
  data::SlowStorage slow(
      {.latency = std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(options.latency_ms)),
       .bytes_per_second = options.mib_per_second * (1 << 20)},
      clock);
  Opened opened = open_synthetic(options);
  if (options.data != "synthetic") {
    LOCKSTEP_TRY(opened, open_files(options, slow));
  }
  slow.begin();
  opened.source->aim({.end = 1, .rows = kRows});
  ReadRate rate{.form = opened.form};
  const std::int64_t untimed = kWindow + (options.second_epoch ? (opened.images + kRows - 1) / kRows : 0);  // batches
  MonotonicTime began{};
  for (std::int64_t batch = 0;; ++batch) {
    if (batch == untimed) began = clock.now();
    if (stop.load()) return fail(ErrorCode::kCancelled, "stopped");
    LOCKSTEP_TRY(const core::Batch taken, opened.source->take(batch * kRows, kRows, stop));
    if (batch < untimed) continue;
    rate.images += kRows;
    rate.seconds = std::chrono::duration<double>(clock.now() - began).count();
    if (rate.seconds >= options.seconds) return rate;
  }
}

std::string result_line(const ReadRate& rate) {
  return fmt::format("result {{\"images\":{},\"seconds\":{:.6g},\"images_per_second\":{:.6g}}}", rate.images,
                     rate.seconds, rate.speed());
}

}  // namespace lockstep::trainer::pack
