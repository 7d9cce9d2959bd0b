#include "trainer/pack/make_data_set.h"

#include <gmock/gmock.h>

#include <set>
#include <utility>

#include "tests/trainer/data/record_files.h"
#include "tests/trainer/pack/in_folder.h"
#include "trainer/data/example.h"
#include "trainer/data/image_sets.h"
#include "trainer/pack/synthetic_image.h"

namespace lockstep::trainer::pack {
namespace {

using ::testing::HasSubstr;
using testing::jpeg;

namespace fs = std::filesystem;

const std::atomic<bool> kGoOn{false};

class MakeDataSet : public testing::InFolder {
 protected:
  // Three classes with twelve images; returns what is in them.
  std::multiset<std::pair<std::string, std::int64_t>> photos() const {
    std::multiset<std::pair<std::string, std::int64_t>> all;
    const char* classes[] = {"cat", "dog", "zebra fish"};
    for (int i = 0; i < 12; ++i) {
      const std::string bytes = jpeg(static_cast<std::uint8_t>(20 * i));
      const char* ending = i < 4 ? ".jpg" : i < 8 ? ".JPEG" : ".jpeg";
      testing::write(folder_ / "photos" / classes[i % 3] / (std::to_string(i) + ending), bytes);
      all.emplace(bytes, i % 3);
    }
    return all;
  }
  Common common(int test_percent) const { return {.out = out_, .test_percent = test_percent}; }
  PackOptions pack(int test_percent = 25) const {
    return {.common = common(test_percent), .folder = (folder_ / "photos").string()};
  }
  // The images of the files whose names begin with `split`, with their labels.
  std::multiset<std::pair<std::string, std::int64_t>> read_back(const std::string& split) const {
    std::multiset<std::pair<std::string, std::int64_t>> all;
    for (const auto& [name, bytes] : files(out_)) {
      if (!name.starts_with(split)) continue;
      for (const auto& payload : testing::payloads(out_ + "/" + name)) {
        const auto example = data::parse_image_example(payload).value();
        all.emplace(example.encoded, example.label);
      }
    }
    return all;
  }
  data::DataFiles opened(const std::string& split) const {
    data::DataFiles all;
    for (const auto& [name, bytes] : files(out_)) {
      if (name.starts_with(split)) all.push_back(data::open_data_file(out_ + "/" + name).value());
    }
    return all;
  }
};

TEST_F(MakeDataSet, packed_images_return_byte_for_byte_with_their_labels) {
  const auto expected = photos();
  testing::write(folder_ / "photos" / "dog" / "notes.txt", "not an image");
  testing::write(folder_ / "photos" / "dog" / ".hidden.jpg", "not an image");
  const Made made = pack_images(pack(), kGoOn).value();
  EXPECT_EQ(made.training, 9);
  EXPECT_EQ(made.held_out, 3);
  EXPECT_EQ(made.classes, 3U);
  EXPECT_EQ(made.files, 2U);
  EXPECT_EQ(made.left_out, 1U);
  EXPECT_EQ(made.least, made.most);
  auto returned = read_back("train");
  EXPECT_EQ(returned.size(), 9U);
  returned.merge(read_back("test"));
  EXPECT_TRUE(returned == expected);
  EXPECT_EQ(files(out_)["classes.txt"], "cat\ndog\nzebra fish\n");
  EXPECT_THAT(files(out_)["train-00000-of-00001.tfrecord"], HasSubstr("zebra fish"));
}

TEST_F(MakeDataSet, packed_images_are_samples_of_the_trainer) {
  photos();
  ASSERT_TRUE(pack_images(pack(), kGoOn).ok());
  const auto source =
      data::testing::source_of_records(opened("train"), opened("test"), {.height = 16, .width = 16, .classes = 3})
          .value();
  EXPECT_EQ(source->samples(), 9);
  EXPECT_EQ(source->held_out(), 3);
  EXPECT_TRUE(source->take(0, 9, kGoOn).ok());
}

TEST_F(MakeDataSet, a_folder_itself_has_the_samples_of_its_packed_form) {
  for (int i = 0; i < 47; ++i) {
    const std::string name = std::to_string(i * 7919 % 100) + ".jpg";
    testing::write(folder_ / "photos" / ("class-" + std::to_string(i % 3)) / name,
                   jpeg(static_cast<std::uint8_t>(5 * i)));
  }
  ASSERT_TRUE(pack_images({.common = {.out = out_}, .folder = (folder_ / "photos").string()}, kGoOn).ok());
  const auto source_of = [](const std::string& folder) {
    const data::ImageSets sets = data::open_image_sets({.paths = {folder}}).value();
    const data::ImageOptions options{.height = 16, .width = 16, .classes = 3, .seed = 3};
    return data::ImageSource::create(sets.training, sets.held_out, options).value();
  };
  const auto plain = source_of((folder_ / "photos").string()), packed = source_of(out_);
  ASSERT_EQ(plain->samples(), 43);
  ASSERT_EQ(plain->held_out(), 4);
  const auto content_of = [](const Result<core::Batch>& batch) { return data::testing::content_of(batch.value()); };
  EXPECT_TRUE(content_of(plain->take_held_out(0, 4, kGoOn)) == content_of(packed->take_held_out(0, 4, kGoOn)));
  for (std::int64_t position = 0; position < 130; position += 10) {
    EXPECT_TRUE(content_of(plain->take(position, 10, kGoOn)) == content_of(packed->take(position, 10, kGoOn)))
        << position;
  }
}

TEST_F(MakeDataSet, an_image_may_be_as_large_as_the_trainer_reads) {
  const auto of_width = [](std::int64_t width) {
    const data::Image image{.height = 1, .width = width, .pixels = std::vector<std::uint8_t>(3 * width)};
    return data::encode_jpeg(image, 90).value();
  };
  testing::write(folder_ / "photos" / "a" / "0.jpg", of_width(data::kLargestPhotograph.width));
  EXPECT_TRUE(pack_images(pack(0), kGoOn).ok());
  fs::remove_all(out_);
  testing::write(folder_ / "photos" / "a" / "1.jpg", of_width(data::kLargestPhotograph.width + 1));
  EXPECT_FALSE(pack_images(pack(0), kGoOn).ok());
}

TEST_F(MakeDataSet, no_image_need_be_held_out) {
  photos();
  ASSERT_TRUE(pack_images(pack(0), kGoOn).ok());
  EXPECT_EQ(read_back("train").size(), 12U);
  EXPECT_EQ(read_back("test").size(), 0U);
}

TEST_F(MakeDataSet, a_wrong_folder_or_file_is_named_and_nothing_is_left) {
  auto refused = [&] {
    const auto made = pack_images(pack(), kGoOn);
    EXPECT_FALSE(made.ok());
    for (const auto& [name, bytes] : files(folder_)) EXPECT_FALSE(name.starts_with("out")) << name;
    return made.ok() ? std::string() : made.error().message;
  };
  const std::string folder = (folder_ / "photos").string();
  EXPECT_EQ(refused(), "cannot read data '" + folder + "': No such file or directory");
  testing::write(folder + "/a.jpg", jpeg(1));
  EXPECT_EQ(refused(),
            "the folder '" + folder + "' has no sub-folders; each sub-folder is a class, with .jpg or .jpeg files");
  testing::write(folder + "/cat/a.txt", "");
  EXPECT_EQ(refused(), "the folder '" + folder + "/cat' has no .jpg or .jpeg file; each sub-folder is a class");
  testing::write(folder + "/cat/a.jpg", jpeg(1).substr(0, jpeg(1).size() - 4));
  EXPECT_EQ(refused(), "'" + folder + "/cat/a.jpg': the JPEG cannot be decoded: Premature end of JPEG file");
  testing::write(folder + "/cat/a.jpg", "\x89PNG");
  EXPECT_THAT(refused(), HasSubstr("'" + folder + "/cat/a.jpg': the JPEG cannot be decoded: Not a JPEG file"));
}

TEST_F(MakeDataSet, a_stop_leaves_nothing) {
  photos();
  const std::atomic<bool> stop{true};
  EXPECT_EQ(pack_images(pack(), stop).error().message, "stopped; '" + out_ + "' was not created");
  EXPECT_EQ(synthesize_images({.common = common(10), .images = 5, .side = 16}, stop).error().code,
            ErrorCode::kCancelled);
  EXPECT_EQ(files(folder_).size(), 1U) << "the photos";
}

TEST_F(MakeDataSet, synthetic_files_are_a_pure_function_of_the_seed) {
  std::map<std::string, std::string> made[3];
  const std::uint64_t seeds[] = {1, 1, 2};
  for (int i = 0; i < 3; ++i) {
    Common with = common(20);
    with.seed = seeds[i];
    ASSERT_TRUE(synthesize_images({.common = with, .images = 20, .side = 40, .classes = 4}, kGoOn).ok());
    made[i] = files(out_);
    fs::remove_all(out_);
  }
  EXPECT_EQ(made[0].size(), 3U);
  EXPECT_TRUE(made[0] == made[1]);
  EXPECT_FALSE(made[0] == made[2]);
}

TEST_F(MakeDataSet, synthetic_files_pack_to_the_images_of_synthetic_records) {
  SynthOptions options{.common = common(20), .images = 20, .side = 40, .classes = 4};
  ASSERT_TRUE(synthesize_images(options, kGoOn).ok());
  auto records = read_back("t");
  fs::remove_all(out_);
  options.common.out = (folder_ / "photos").string();
  options.common.files = true;
  const Made made = synthesize_images(options, kGoOn).value();
  EXPECT_EQ(made.files, 20U);
  EXPECT_TRUE(fs::exists(folder_ / "photos/class-00003/000000007.jpg"));
  ASSERT_TRUE(pack_images(pack(), kGoOn).ok());
  EXPECT_TRUE(read_back("t") == records);
}

TEST_F(MakeDataSet, synthetic_images_have_the_size_and_all_classes) {
  const Made made = synthesize_images({.common = common(20), .images = 20, .side = 40, .classes = 4}, kGoOn).value();
  EXPECT_EQ(made.training, 16);
  const auto source =
      data::testing::source_of_records(opened("train"), opened("test"), {.height = 40, .width = 40, .classes = 4})
          .value();
  EXPECT_TRUE(source->take(0, 16, kGoOn).ok());
  auto all = read_back("t");
  std::map<std::int64_t, int> labels;
  for (const auto& [bytes, label] : all) ++labels[label];
  EXPECT_EQ(labels, (std::map<std::int64_t, int>{{0, 5}, {1, 5}, {2, 5}, {3, 5}}));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 20U) << "no image twice";
}

// As a photograph at this size and quality: neither flat nor noise.
TEST(SyntheticImage, has_the_bytes_of_a_photograph) {
  std::size_t bytes = 0;
  for (std::uint64_t number = 0; number < 8; ++number) {
    bytes += data::encode_jpeg(synthetic_image(1, number, static_cast<std::int64_t>(number % 4), 224), 90)->size();
  }
  EXPECT_GT(bytes / 8, 15000U);
  EXPECT_LT(bytes / 8, 60000U);
}

TEST(SyntheticImage, has_the_pixels_that_it_always_had) {
  const data::Image image = synthetic_image(7, 3, 2, 64);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) sum = sum * 31 + image.pixels[i];
  EXPECT_EQ(sum, 17611073861369921556U);
}

}  // namespace
}  // namespace lockstep::trainer::pack
