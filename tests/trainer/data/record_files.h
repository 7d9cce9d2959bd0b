// Files of records in memory, with storage that fails when told to, and the folder of real data sets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/data/data_file.h"
#include "trainer/data/image_records.h"
#include "trainer/data/image_source.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::data::testing {

inline const std::atomic<bool> kGoOn{false};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class MemoryFile final : public DataFile {
 public:
  MemoryFile(std::string path, std::vector<std::byte> bytes) : content(std::move(bytes)), path_(std::move(path)) {}
  const std::string& path() const override { return path_; }
  FileState state() const override { return {.size = content.size(), .modified = modified}; }
  Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    ++reads;
    if (hangs) hung.wait(false);
    if (outages > 0) {
      --outages;
      return fail(ErrorCode::kUnavailable, "cannot read data '" + path_ + "': Input/output error");
    }
    if (offset + to.size() > content.size()) return fail(ErrorCode::kUnavailable, "read beyond the end");
    bytes_read += to.size();
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return {};
  }

  Status unchanged() const override {
    if (checks_hang) hung.wait(false);
    if (check_outages > 0) {
      --check_outages;
      return fail(ErrorCode::kUnavailable, "cannot read data '" + path_ + "': Input/output error");
    }
    if (!written) return {};
    return fail(ErrorCode::kInvalid, "data '" + path_ + "' was written to");
  }

  // Ends the calls that hang.
  void release() {
    hangs = checks_hang = false;
    hung = true;
    hung.notify_all();
  }

  std::atomic<bool> hangs{false};             // reads that begin do not end
  std::atomic<bool> checks_hang{false};       // whether it is unchanged
  mutable std::atomic<int> check_outages{0};  // such checks that fail
  mutable std::atomic<bool> hung{false};
  std::vector<std::byte> content;
  std::atomic<bool> written{false};  // since it was opened
  std::int64_t modified = 0;
  mutable std::atomic<int> outages{0};  // reads that fail
  mutable std::atomic<int> reads{0};
  mutable std::atomic<size_t> bytes_read{0};  // that were read

 private:
  const std::string path_;
};

// Of pixels as they are: 0 to 255.
inline constexpr ChannelStatistics kPlain{.mean = {0, 0, 0}, .deviation = {1 / 255.0, 1 / 255.0, 1 / 255.0}};

// The bytes of a batch.
inline std::vector<std::byte> content_of(const core::Batch& batch) {
  std::vector<std::byte> all;
  for (const auto& input : batch.inputs()) all.insert(all.end(), input.begin(), input.end());
  return all;
}

// A JPEG of one colour.
inline std::vector<std::byte> jpeg(std::uint8_t shade, std::int64_t side) {
  Image image{.height = side, .width = side};
  image.pixels.assign(static_cast<size_t>(side * side * 3), shade);
  return bytes_of(encode_jpeg(image, 100).value());
}

// A source of images in TFRecords. Errors are those of ImageRecords::index() and ImageSource::create().
inline Result<std::shared_ptr<ImageSource>> source_of_records(DataFiles training, DataFiles held_out,
                                                              const ImageOptions& options, int threads = 1) {
  const IndexOptions how{.on_damage = options.on_damage, .patience = options.patience, .threads = threads};
  LOCKSTEP_TRY(auto trained, ImageRecords::index(std::move(training), how));
  LOCKSTEP_TRY(auto kept, ImageRecords::index(std::move(held_out), how));
  return ImageSource::create(std::move(trained), std::move(kept), options);
}

// A number that differs between runs, to be printed with a failure; LOCKSTEP_SEED repeats a run.
inline std::uint64_t fresh_seed() {
  if (const char* given = std::getenv("LOCKSTEP_SEED")) return std::strtoull(given, nullptr, 10);
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// The folder of real data sets, if LOCKSTEP_TEST_DATA names it.
inline std::optional<std::string> real_data() {
  const char* folder = std::getenv("LOCKSTEP_TEST_DATA");
  if (folder == nullptr) return std::nullopt;
  return folder;
}

}  // namespace lockstep::trainer::data::testing
