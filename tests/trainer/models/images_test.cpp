#include "trainer/models/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "tests/trainer/models/image_folder.h"

namespace lockstep::trainer::models {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::atomic<bool> kNever{false};

class Images : public ::testing::Test {
 protected:
  ~Images() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::temp_directory_path() / ("images_test." + std::to_string(::getpid()));
};

TEST_F(Images, files_are_training_or_held_out_by_their_names) {
  const std::string folder = testing::image_folder(folder_, 24, 10);
  Dataset dataset = open_images({.paths = {folder}, .seed = 7}, {}).value();
  EXPECT_EQ(dataset.epoch_samples, 24);
  EXPECT_EQ(dataset.source->held_out(), 10);
  EXPECT_EQ(dataset.description, "1 files, 24 images to train on, 10 held out");
  EXPECT_NE(dataset.fingerprint, 0U);
  const core::Batch batch = dataset.source->take(0, 4, kNever).value();
  EXPECT_EQ(batch.inputs()[0].size(), sizeof(float) * 4 * 32 * 32 * 3);
}

TEST_F(Images, folders_without_files_to_train_on_are_refused) {
  fs::create_directories(folder_);
  const auto empty = open_images({.paths = {folder_.string()}}, {});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message, HasSubstr("there is no file to train on in '" + folder_.string() + "'"));
  const auto missing = open_images({.paths = {(folder_ / "none").string()}}, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr((folder_ / "none").string()));
}

}  // namespace
}  // namespace lockstep::trainer::models
