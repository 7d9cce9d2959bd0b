#include "trainer/data/image_sets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/trainer/data/record_files.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/image_source.h"

namespace lockstep::trainer::data {
namespace {

namespace fs = std::filesystem;
using testing::kGoOn;

constexpr std::int64_t kSideInFolder = 8;

class ImageSetsTest : public ::testing::Test {
 protected:
  ImageSetsTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ImageSetsTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }
  // The sentence with which folders below this one are refused.
  std::string refused(const std::vector<std::string>& names) const {
    ImageSetOptions options;
    for (const std::string& name : names) options.paths.push_back((folder_ / name).string());
    const auto opened = open_image_sets(options);
    return opened ? "opened" : opened.error().message;
  }
  std::shared_ptr<ImageSource> source_below(const std::string& name, std::uint64_t seed) const {
    const ImageSets sets = open_image_sets({.paths = {(folder_ / name).string()}}).value();
    return ImageSource::create(sets.training, sets.held_out,
                               {.height = kSideInFolder,
                                .width = kSideInFolder,
                                .classes = sets.classes,
                                .statistics = testing::kPlain,
                                .augmentation = {.padding = 0},
                                .seed = seed})
        .value();
  }

  const fs::path folder_ = fs::temp_directory_path() / ("image_sets_test." + std::to_string(::getpid()));
};

// (shade, class) of each row.
std::vector<std::pair<int, int>> rows_of(const core::Batch& batch) {
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(batch.inputs()[0].data());
  const auto* classes = reinterpret_cast<const std::int32_t*>(batch.inputs()[1].data());
  std::vector<std::pair<int, int>> rows;
  for (size_t row = 0; row < batch.inputs()[1].size() / sizeof(std::int32_t); ++row) {
    rows.emplace_back(pixels[row * kSideInFolder * kSideInFolder * 3], classes[row]);
  }
  return rows;
}

// Random folders, each of which is written twice: its files in the order of names, and in another order.
TEST_F(ImageSetsTest, order_is_of_names_alone_and_each_epoch_has_each_image_once) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 6; ++round) {
    const int classes = 1 + static_cast<int>(random() % 5);
    std::vector<std::pair<std::string, int>> files;  // name and shade
    std::multiset<std::pair<int, int>> expected;
    for (int label = 0; label < classes; ++label) {
      const int images = 1 + static_cast<int>(random() % 12);
      for (int i = 0; i < images; ++i) {
        const int shade = static_cast<int>(files.size()) * 3;
        files.emplace_back("class-" + std::to_string(label) + "/" + std::to_string(i) + ".JPG", shade);
        expected.emplace(shade, label);
      }
    }
    const auto write_all = [&](const std::string& folder) {
      for (const auto& [name, shade] : files) {
        write(folder + "/" + name, testing::jpeg(static_cast<std::uint8_t>(shade), kSideInFolder));
      }
    };
    write_all("sorted");
    std::shuffle(files.begin(), files.end(), random);
    write_all("shuffled");
    const auto one = source_below("sorted", seed), other = source_below("shuffled", seed);
    EXPECT_EQ(one->fingerprint(), other->fingerprint());
    EXPECT_EQ(one->held_out(), static_cast<std::int64_t>(files.size() / 10));
    ASSERT_EQ(one->samples() + one->held_out(), static_cast<std::int64_t>(files.size()));
    std::vector<std::pair<int, int>> held_out;
    if (one->held_out() > 0) held_out = rows_of(one->take_held_out(0, one->held_out(), kGoOn).value());
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const auto rows = rows_of(one->take(epoch * one->samples(), one->samples(), kGoOn).value());
      EXPECT_EQ(rows, rows_of(other->take(epoch * one->samples(), one->samples(), kGoOn).value()));
      std::multiset<std::pair<int, int>> all(rows.begin(), rows.end());
      all.insert(held_out.begin(), held_out.end());
      EXPECT_EQ(all, expected) << "epoch " << epoch;
    }
    fs::remove_all(folder_ / "sorted");
    fs::remove_all(folder_ / "shuffled");
  }
}

TEST_F(ImageSetsTest, what_cannot_be_read_is_refused_with_its_name) {
  const std::string here = folder_.string();
  const auto image = testing::jpeg(1, kSideInFolder);
  fs::create_directories(folder_ / "empty");
  write("hidden/.cat/1.jpg", image);
  write("classless/1.jpg", image);
  write("bare/cat/1.jpg", image);
  write("bare/dog/notes.txt", image);
  write("pipe/cat/1.jpg", image);
  ASSERT_EQ(::mkfifo((folder_ / "pipe/cat/2.jpg").c_str(), 0600), 0);
  write("folder/cat/1.jpg/2.jpg", image);
  write("large/cat/1.jpg", image);
  fs::resize_file(folder_ / "large/cat/1.jpg", kMaxImageBytes + 1);
  write("good/cat/1.jpg", image);
  fs::create_directories(folder_ / "loop/cat");
  fs::create_symlink("loop", folder_ / "loop/cat/loop");
  fs::create_symlink("dog", folder_ / "loop/dog");
  const auto nothing = [&](const std::string& name) {
    return "there is nothing to train on in '" + here + "/" + name +
           "'; a folder has TFRecords, whose names begin with 'train' (held-out ones: 'test' or 'validation'), or a "
           "sub-folder of JPEGs for each class";
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"none"}, "cannot read data '" + here + "/none': No such file or directory"},
      {{"empty"}, nothing("empty")},
      {{"hidden"}, nothing("hidden")},
      {{"classless"}, nothing("classless")},
      {{"bare"}, "the folder '" + here + "/bare/dog' has no .jpg or .jpeg file; each sub-folder is a class"},
      {{"pipe"}, "data '" + here + "/pipe/cat/2.jpg' is not a regular file"},
      {{"folder"}, "data '" + here + "/folder/cat/1.jpg' is not a regular file"},
      {{"large"}, "the image '" + here + "/large/cat/1.jpg' of 256 MiB is larger than 256 MiB"},
      {{"loop"}, "cannot read data '" + here + "/loop/dog': Too many levels of symbolic links"},
      {{"good", "bare"},
       "'" + here +
           "/good' is a folder of images, which is read alone; give no other folder of data, or pack each with "
           "lockstep data pack"},
      {{"good"}, "opened"}};
  for (const auto& [names, sentence] : cases) EXPECT_EQ(refused(names), sentence);
}

TEST_F(ImageSetsTest, a_class_may_be_named_as_records_are) {
  for (const char* name : {"photos/train/1.jpg", "photos/test/2.jpeg", "photos/validation/3.jpg"}) {
    write(name, testing::jpeg(1, kSideInFolder));
  }
  const ImageSets sets = open_image_sets({.paths = {(folder_ / "photos").string()}}).value();
  EXPECT_EQ(sets.classes, 3);
  EXPECT_EQ(sets.training->count(), 3U);
  EXPECT_EQ(sets.form, "images of 3 sub-folders");
}

}  // namespace
}  // namespace lockstep::trainer::data
