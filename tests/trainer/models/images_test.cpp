#include "trainer/models/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>

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
  EXPECT_EQ(batch.inputs()[0].size(), size_t{4 * 32 * 32 * 3});
}

TEST_F(Images, photographs_of_any_size_are_resized) {
  const std::string folder = testing::image_folder(folder_, 24, 10, testing::Kind::kPhotographs);
  const ImageShape shape{.pixels = 20, .classes = 10, .first_label = 1, .photographs = true};
  Dataset dataset = open_images({.paths = {folder}, .seed = 7}, shape).value();
  std::set<std::int32_t> classes;
  for (const auto& taken : {dataset.source->take(0, 24, kNever), dataset.source->take_held_out(0, 10, kNever)}) {
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    const auto& inputs = taken->inputs();
    EXPECT_EQ(inputs[0].size(), inputs[1].size() / sizeof(std::int32_t) * 20 * 20 * 3);
    for (size_t at = 0; at < inputs[1].size(); at += sizeof(std::int32_t)) {
      std::int32_t one = -1;
      std::memcpy(&one, inputs[1].data() + at, sizeof one);
      classes.insert(one);
    }
  }
  EXPECT_EQ(*classes.begin(), 0);
  EXPECT_EQ(classes.size(), 10U);
  const auto image = [&](std::int64_t position) {
    const core::Batch batch = dataset.source->take(position, 1, kNever).value();
    return std::vector<std::byte>(batch.inputs()[0].begin(), batch.inputs()[0].end());
  };
  EXPECT_EQ(image(3), image(3));
}

TEST_F(Images, a_folder_of_files_has_its_first_sub_folder_as_class_0) {
  const std::string folder = testing::files_of_images(folder_, 24, testing::Kind::kPhotographs);
  const ImageShape shape{.pixels = 20, .classes = 10, .first_label = 1, .photographs = true};
  Dataset dataset = open_images({.paths = {folder}, .seed = 7}, shape).value();
  EXPECT_EQ(dataset.epoch_samples, 22);
  EXPECT_EQ(dataset.source->held_out(), 2);
  EXPECT_EQ(dataset.description, "images of 10 sub-folders, 22 images to train on, 2 held out");
  EXPECT_NE(dataset.fingerprint, 0U);
  EXPECT_TRUE(dataset.source->take(0, 22, kNever).ok()) << "label 0 is a class, whatever first_label is";
  const auto few = open_images({.paths = {folder}}, {.pixels = 20, .classes = 9, .photographs = true});
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().message,
            "the data in '" + folder + "' has 10 classes, one for each sub-folder, and the model tells 9 apart");
}

TEST_F(Images, synthetic_ones_need_no_files) {
  Dataset dataset = open_images({.paths = {"synthetic"}, .held_out = 8}, {.pixels = 20, .classes = 10}).value();
  EXPECT_EQ(dataset.epoch_samples, 64);
  EXPECT_EQ(dataset.source->held_out(), 8);
  EXPECT_EQ(dataset.description, "64 synthetic images of 20 x 20");
  EXPECT_EQ(dataset.source->take(0, 4, kNever)->inputs()[0].size(), size_t{4 * 20 * 20 * 3});
}

TEST_F(Images, folders_without_files_to_train_on_are_refused) {
  fs::create_directories(folder_);
  const auto empty = open_images({.paths = {folder_.string()}}, {});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message, HasSubstr("there is nothing to train on in '" + folder_.string() + "'"));
  const auto missing = open_images({.paths = {(folder_ / "none").string()}}, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr((folder_ / "none").string()));
  const auto below_a_file = open_images({.paths = {"/dev/null/none"}}, {});
  EXPECT_EQ(below_a_file.error().code, ErrorCode::kInvalid) << "no reason to try again";
}

}  // namespace
}  // namespace lockstep::trainer::models
