#include "trainer/data/image_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "tests/trainer/data/record_files.h"
#include "trainer/data/image_source.h"

namespace lockstep::trainer::data {
namespace {

using testing::content_of;
using testing::kGoOn;
using testing::MemoryFile;

constexpr std::int64_t kFileSide = 8;

// Files by path, with storage that fails when told to.
class FileStorage {
 public:
  // Nine images of three classes.
  FileStorage() {
    for (int i = 0; i < 9; ++i) {
      paths.push_back("photos/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg");
      content[paths.back()] = testing::jpeg(static_cast<std::uint8_t>(20 * i), kFileSide);
    }
  }
  std::vector<FolderImage> images() const {
    std::vector<FolderImage> all;
    for (size_t i = 0; i < paths.size(); ++i) all.push_back({.path = paths[i], .label = i % 3});
    return all;
  }
  OpenFile opener() {
    return [this](const std::string& path) -> Result<std::unique_ptr<DataFile>> {
      ++opens;
      if (opens_hang) released.wait(false);
      if (outages > 0) {
        --outages;
        return fail(ErrorCode::kUnavailable, "cannot read data '" + path + "': Input/output error");
      }
      const auto found = content.find(path);
      if (found == content.end()) return cannot_read_data(path, ENOENT);
      auto file = std::make_unique<MemoryFile>(path, found->second);
      file->modified = modified;
      file->written.store(written_while_read);
      file->outages = read_outages.exchange(0);
      return std::unique_ptr<DataFile>(std::move(file));
    };
  }

  std::vector<std::string> paths;
  std::map<std::string, std::vector<std::byte>> content;
  std::int64_t modified = 5;
  std::atomic<bool> written_while_read{false}, opens_hang{false}, released{false};
  std::atomic<int> opens{0}, outages{0}, read_outages{0};
};

std::shared_ptr<ImageFiles> store_of(FileStorage& storage) {
  auto files = look_at_files(storage.images(), std::chrono::seconds(10), storage.opener()).value();
  return std::make_shared<ImageFiles>(std::move(files), storage.opener());
}

std::shared_ptr<ImageSource> source_in(FileStorage& storage, OnDamage on_damage = OnDamage::kFail,
                                       Duration patience = std::chrono::seconds(10)) {
  const ImageOptions options{
      .height = kFileSide, .width = kFileSide, .classes = 3, .on_damage = on_damage, .seed = 7, .patience = patience};
  return ImageSource::create(store_of(storage), std::make_shared<ImageFiles>(std::vector<ImageFile>(), OpenFile()),
                             options)
      .value();
}

// The error of reading all images once; empty: none.
Error outcome_of(ImageSource& source) {
  const auto batch = source.take(0, source.samples(), kGoOn);
  return batch ? Error{} : batch.error();
}

TEST(ImageFiles, a_file_that_is_not_as_it_was_listed_is_named_and_never_skipped) {
  const std::string path = "photos/1/4.jpg";
  const std::string written =
      "data '" + path + "' was written to since it was opened; a run reads files that stay as they are";
  struct Case {
    const char* what;
    std::function<void(FileStorage&)> change;
    ErrorCode code;
    std::string sentence;  // its beginning
  };
  const std::vector<Case> cases = {
      {"longer", [&](FileStorage& storage) { storage.content[path].push_back({}); }, ErrorCode::kInvalid, written},
      {"shorter", [&](FileStorage& storage) { storage.content[path].pop_back(); }, ErrorCode::kInvalid, written},
      {"empty", [&](FileStorage& storage) { storage.content[path].clear(); }, ErrorCode::kInvalid, written},
      {"newer", [](FileStorage& storage) { ++storage.modified; }, ErrorCode::kInvalid, "data 'photos/"},
      {"changing", [](FileStorage& storage) { storage.written_while_read = true; }, ErrorCode::kInvalid,
       "data 'photos/"},
      {"gone", [&](FileStorage& storage) { storage.content.erase(path); }, ErrorCode::kNotFound,
       "cannot read data '" + path + "': No such file or directory"}};
  for (const Case& one : cases) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      FileStorage storage;
      const auto source = source_in(storage, on_damage);
      one.change(storage);
      const Error error = outcome_of(*source);
      EXPECT_EQ(error.code, one.code) << one.what;
      EXPECT_EQ(error.message.rfind(one.sentence, 0), 0U) << one.what << ": " << error.message;
      EXPECT_TRUE(source->skipped().empty()) << one.what;
    }
  }
}

TEST(ImageFiles, damage_is_fatal_or_skipped_as_asked_and_named_by_path) {
  const std::map<std::string, std::vector<std::byte>> damage = {
      {"empty", {}}, {"no JPEG", testing::bytes_of("\x89PNG")}, {"half of it", [] {
                                                                   auto half = testing::jpeg(9, kFileSide);
                                                                   half.resize(half.size() / 2);
                                                                   return half;
                                                                 }()}};
  for (const auto& [what, bytes] : damage) {
    FileStorage storage;
    storage.content["photos/1/4.jpg"] = bytes;
    const std::string sentence = "data 'photos/1/4.jpg': the JPEG cannot be decoded: ";
    const Error error = outcome_of(*source_in(storage));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << what;
    EXPECT_EQ(error.message.rfind(sentence, 0), 0U) << error.message;
    const auto skips = source_in(storage, OnDamage::kSkip);
    EXPECT_EQ(outcome_of(*skips).message, "") << what;
    EXPECT_EQ(outcome_of(*skips).message, "") << "a second epoch";
    ASSERT_EQ(skips->skipped().size(), 1U) << what;
    EXPECT_EQ(skips->skipped()[0].file, "photos/1/4.jpg");
    EXPECT_EQ(skips->skipped()[0].offset, 0U);
    EXPECT_EQ(skips->skipped()[0].why.rfind(sentence, 0), 0U);
  }
}

TEST(ImageFiles, other_files_or_another_order_have_another_fingerprint) {
  FileStorage storage;
  const std::uint64_t one = store_of(storage)->fingerprint();
  EXPECT_EQ(store_of(storage)->fingerprint(), one);
  FileStorage longer;
  longer.content[longer.paths[3]].push_back({});
  EXPECT_NE(store_of(longer)->fingerprint(), one);
  FileStorage swapped;
  std::swap(swapped.paths[0], swapped.paths[3]);
  EXPECT_NE(store_of(swapped)->fingerprint(), one);
  FileStorage renamed;
  renamed.content["photos/0/0b.jpg"] = renamed.content[renamed.paths[0]];
  renamed.paths[0] = "photos/0/0b.jpg";
  EXPECT_NE(store_of(renamed)->fingerprint(), one);
  FileStorage fewer;
  fewer.paths.pop_back();
  EXPECT_NE(store_of(fewer)->fingerprint(), one);
  FileStorage moved;
  for (std::string& path : moved.paths) {
    moved.content["/elsewhere/" + path] = moved.content[path];
    path = "/elsewhere/" + path;
  }
  EXPECT_EQ(store_of(moved)->fingerprint(), one);
}

TEST(ImageFiles, an_outage_of_the_storage_costs_no_sample) {
  FileStorage steady, flaky;
  const auto expected = content_of(source_in(steady)->take(0, 9, kGoOn).value());
  const auto source = source_in(flaky, OnDamage::kSkip);
  flaky.outages = 2;
  flaky.read_outages = 1;
  EXPECT_EQ(content_of(source->take(0, 9, kGoOn).value()), expected);
  EXPECT_EQ(flaky.outages + flaky.read_outages, 0);
  EXPECT_TRUE(source->skipped().empty());
  const auto impatient = source_in(flaky, OnDamage::kSkip, std::chrono::milliseconds(1));
  flaky.outages = 1000000;
  EXPECT_EQ(impatient->take(0, 9, kGoOn).error().code, ErrorCode::kUnavailable);
}

TEST(ImageFiles, abort_ends_a_take_that_waits_for_storage) {
  FileStorage dead;
  const auto source = source_in(dead);
  const int before = dead.opens;
  dead.outages = 1000000;
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    while (dead.opens == before) std::this_thread::yield();
    abort.store(true);
    source->wake();
  });
  EXPECT_EQ(source->take(0, 1, abort).error().code, ErrorCode::kCancelled);
  aborts.join();
}

TEST(ImageFiles, an_opening_that_hangs_ends_the_look_with_the_path) {
  // The thread that hangs is left behind, and owns what it uses.
  const auto hanging = std::make_shared<FileStorage>();
  hanging->opens_hang = true;
  const OpenFile open = [hanging, opens = hanging->opener()](const std::string& path) { return opens(path); };
  const auto looked = look_at_files({{.path = hanging->paths[0]}}, std::chrono::milliseconds(30), open);
  ASSERT_FALSE(looked.ok());
  EXPECT_EQ(looked.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(looked.error().message, "opening data 'photos/0/0.jpg' has not ended for 0 s; the storage does not answer");
  hanging->released = true;
  hanging->released.notify_all();
}

TEST(ImageFiles, a_file_that_is_too_large_is_refused_before_it_takes_memory) {
  struct Large final : DataFile {
    const std::string& path() const override { return name; }
    FileState state() const override { return {.size = kMaxImageBytes + 1}; }
    Status read(std::uint64_t, std::span<std::byte>) const override { return fail(ErrorCode::kInvalid, "was read"); }
    Status unchanged() const override { return {}; }
    const std::string name = "photos/0/0.jpg";
  };
  const auto looked = look_at_files({{.path = "photos/0/0.jpg"}}, std::chrono::seconds(10),
                                    [](const std::string&) -> Result<std::unique_ptr<DataFile>> {
                                      return std::unique_ptr<DataFile>(std::make_unique<Large>());
                                    });
  ASSERT_FALSE(looked.ok());
  EXPECT_EQ(looked.error().message, "the image 'photos/0/0.jpg' of 256 MiB is larger than 256 MiB");
}

}  // namespace
}  // namespace lockstep::trainer::data
