#include "trainer/pack/data_set_writer.h"

#include <gmock/gmock.h>

#include <string_view>

#include "tests/trainer/pack/in_folder.h"

namespace lockstep::trainer::pack {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class Writer : public testing::InFolder {
 protected:
  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
};

TEST_F(Writer, the_records_of_a_split_fill_shards_in_their_order) {
  const auto writer = DataSetWriter::create(out_, 90).value();
  for (const std::string& text : {std::string(80, 'x'), std::string(80, 'y'), std::string("three")}) {
    ASSERT_TRUE(writer->add("train", bytes(text)).ok());
  }
  ASSERT_TRUE(writer->add("test", bytes("held out")).ok());
  ASSERT_TRUE(writer->add("train", bytes("four")).ok());
  ASSERT_TRUE(writer->finish({"cat", "dog"}).ok());
  EXPECT_THAT(files(out_),
              ElementsAre(Key("classes.txt"), Key("test-00000-of-00001.tfrecord"), Key("train-00000-of-00003.tfrecord"),
                          Key("train-00001-of-00003.tfrecord"), Key("train-00002-of-00003.tfrecord")));
  EXPECT_EQ(files(out_)["classes.txt"], "cat\ndog\n");
  EXPECT_EQ(writer->files(), 4U);
  const auto last = testing::payloads(out_ + "/train-00002-of-00003.tfrecord");
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(last[1].data()), last[1].size()), "four");
}

TEST_F(Writer, nothing_has_the_name_before_the_end_and_nothing_is_left_without_it) {
  auto writer = DataSetWriter::create(out_, 100).value();
  ASSERT_TRUE(writer->add("train", bytes(std::string(200, 'x'))).ok());
  EXPECT_THAT(files(folder_), ElementsAre(Key(StartsWith("out.partial-"))));
  writer.reset();
  EXPECT_TRUE(files(folder_).empty());
}

TEST_F(Writer, an_empty_folder_is_filled_and_no_other_is_touched) {
  fs::create_directories(out_);
  ASSERT_TRUE(DataSetWriter::create(out_ + "/", 100).value()->finish({"cat"}).ok());
  EXPECT_THAT(files(out_), ElementsAre(Key("classes.txt")));
  EXPECT_EQ(DataSetWriter::create(out_, 100).error().message,
            "'" + out_ + "' exists and is not an empty folder; choose a name that is free");
  const std::string later = out_ + "-later";
  const auto writer = DataSetWriter::create(later, 100).value();
  testing::write(later + "/file", "of somebody else");
  EXPECT_EQ(writer->finish({"cat"}).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(files(later)["file"], "of somebody else");
}

TEST_F(Writer, a_name_that_no_rename_can_give_is_refused_before_anything_is_written) {
  fs::create_directories(folder_ / "there");
  fs::create_symlink(folder_ / "there", out_);
  EXPECT_EQ(DataSetWriter::create(out_, 100).error().message,
            "'" + out_ + "' is a symbolic link; name the folder itself");
  for (const char* name : {"", ".", "..", "/"}) {
    EXPECT_EQ(DataSetWriter::create(name, 100).error().code, ErrorCode::kInvalid) << name;
  }
  EXPECT_EQ(DataSetWriter::create("/proc", 100).error().message,
            "'/proc' is a mount point; name a folder inside it: '/proc/images'");
}

TEST_F(Writer, a_folder_that_cannot_be_made_is_named) {
  const auto writer = DataSetWriter::create(out_ + "/none/out", 100);
  ASSERT_FALSE(writer.ok());
  EXPECT_THAT(writer.error().message, StartsWith("cannot create the folder '" + out_ + "/none/out.partial-"));
}

}  // namespace
}  // namespace lockstep::trainer::pack
