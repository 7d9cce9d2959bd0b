#include "trainer/pack/read_data_set.h"

#include <gmock/gmock.h>

#include "tests/trainer/pack/in_folder.h"

namespace lockstep::trainer::pack {
namespace {

// A clock on which each look takes a second.
class LookingClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(std::chrono::seconds(looks_++)); }
  WallTime wall_now() const override { return {}; }
  bool wait_until(std::unique_lock<std::mutex>&, std::condition_variable&, MonotonicTime) override { return false; }

 private:
  mutable std::atomic<int> looks_{5};
};

class ReadDataSet : public testing::InFolder {};

TEST_F(ReadDataSet, counts_the_batches_after_the_window_until_the_time_is_over) {
  for (int i = 0; i < 20; ++i) {
    testing::write(folder_ / "photos" / (i % 2 == 0 ? "cat" : "dog") / (std::to_string(i) + ".jpg"),
                   testing::jpeg(static_cast<std::uint8_t>(i)));
  }
  const std::atomic<bool> go_on{false};
  LookingClock clock;
  ReadOptions options{.data = (folder_ / "photos").string(), .side = 16, .threads = 2, .seconds = 3};
  const ReadRate rate = read_data_set(options, clock, go_on).value();
  EXPECT_EQ(rate.images, 3 * 32);
  EXPECT_EQ(rate.seconds, 3);
  EXPECT_EQ(rate.speed(), 32);
  EXPECT_EQ(rate.form, "images of 2 sub-folders");
  EXPECT_EQ(result_line(rate), "result {\"images\":96,\"seconds\":3,\"images_per_second\":32}");
  options.in_memory = true;
  EXPECT_EQ(read_data_set(options, clock, go_on)->images, 3 * 32);
}

TEST_F(ReadDataSet, the_second_epoch_of_a_slow_store_reads_what_the_first_one_kept) {
  for (int i = 0; i < 70; ++i) {
    testing::write(folder_ / "photos" / (i % 2 == 0 ? "cat" : "dog") / (std::to_string(i) + ".jpg"),
                   testing::jpeg(static_cast<std::uint8_t>(i)));
  }
  const std::atomic<bool> go_on{false};
  LookingClock clock;
  const ReadOptions options{.data = (folder_ / "photos").string(),
                            .side = 16,
                            .seconds = 1,
                            .cache = {.folder = (folder_ / "kept").string(), .folder_bytes = 1 << 20},
                            .second_epoch = true};
  EXPECT_EQ(read_data_set(options, clock, go_on)->images, 32);
  size_t kept = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "kept")) {
    kept += entry.is_regular_file() && entry.path().filename() != "used" ? 1 : 0;
  }
  EXPECT_EQ(kept, 63U) << "all images to train on";
}

TEST_F(ReadDataSet, synthetic_images_need_no_folder_and_a_stop_ends_it) {
  LookingClock clock;
  std::atomic<bool> stop{false};
  const ReadOptions options{.data = "synthetic", .side = 16, .seconds = 2};
  const ReadRate rate = read_data_set(options, clock, stop).value();
  EXPECT_EQ(rate.images, 2 * 32);
  EXPECT_EQ(rate.form, "synthetic images");
  stop = true;
  EXPECT_EQ(read_data_set(options, clock, stop).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::trainer::pack
