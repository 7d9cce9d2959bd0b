#include "trainer/data/image_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/data/record_files.h"

namespace lockstep::trainer::data::image_cache_test {
namespace {

namespace fs = std::filesystem;
using testing::kGoOn;

constexpr std::size_t kImages = 20;
constexpr std::size_t kImageBytes = 1000;

// Images of 1,000 bytes, each of its number.
class Storage final : public ImageStore {
 public:
  std::size_t count() const override { return kImages; }
  std::uint64_t fingerprint() const override { return 5; }
  std::uint64_t version() const override { return version_; }
  std::vector<std::int64_t> blocks(std::uint64_t) const override { return {kImages}; }
  Status read(std::size_t number, PatientReader&, const std::atomic<bool>&, StoredImage& to) const override {
    ++reads;
    if (damaged == number) return fail(ErrorCode::kCorrupt, where(number));
    to.example.encoded.assign(kImageBytes, static_cast<char>(number));
    to.example.label = label_of(number);
    return {};
  }
  const std::string& path(std::size_t) const override { return path_; }
  std::uint64_t offset(std::size_t number) const override { return number; }
  std::string where(std::size_t number) const override { return "image " + std::to_string(number); }
  static std::int64_t label_of(std::size_t number) { return static_cast<std::int64_t>(number) - 3; }

  std::uint64_t version_ = 7;
  std::size_t damaged = kImages;
  mutable std::atomic<int> reads{0};

 private:
  const std::string path_ = "images";
};

class ImageCacheTest : public ::testing::Test {
 protected:
  ImageCacheTest() {
    std::string name = (fs::temp_directory_path() / "image-cache-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ImageCacheTest() override { fs::remove_all(folder_); }

  std::shared_ptr<ImageCache> cache(const ImageCacheOptions& options) const {
    auto made = ImageCache::over(storage_, options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.value_or(nullptr);
  }
  // With room for `images` of them. A file has a header of 48 bytes.
  std::shared_ptr<ImageCache> cache_in_folder(std::uint64_t images = kImages) const {
    return cache({.folder = folder_, .folder_bytes = images * (kImageBytes + 48)});
  }
  // Reads all images; each must be what the storage has.
  void read_all(const ImageCache& cache) const {
    StoredImage to;
    for (std::size_t number = 0; number < kImages; ++number) {
      const Status read = cache.read(number, reader_, kGoOn, to);
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_EQ(to.example.encoded, std::string(kImageBytes, static_cast<char>(number)));
      EXPECT_EQ(to.example.label, Storage::label_of(number));
    }
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.path().filename() != "used") all.push_back(entry.path());
    }
    return all;
  }

  const std::shared_ptr<Storage> storage_ = std::make_shared<Storage>();
  std::string folder_;
  mutable PatientReader reader_{std::chrono::seconds(5)};
};

TEST_F(ImageCacheTest, keeps_in_memory_what_fits_and_the_rest_in_the_folder) {
  struct Case {
    std::uint64_t memory_images, folder_images;
    CacheReads second;  // of the second epoch
  };
  for (const Case& one :
       {Case{0, 20, {.folder = 20}}, Case{30, 0, {.memory = 20}}, Case{5, 9, {.memory = 5, .folder = 9, .storage = 6}},
        Case{5, 0, {.memory = 5, .storage = 15}}}) {
    fs::remove_all(folder_);
    const auto tiers = cache({.memory_bytes = one.memory_images * (sizeof(ImageExample) + kImageBytes),
                              .folder = one.folder_images > 0 ? folder_ : "",
                              .folder_bytes = one.folder_images * (kImageBytes + 48)});
    ASSERT_TRUE(tiers);
    read_all(*tiers);
    EXPECT_EQ(tiers->reads(), (CacheReads{.storage = kImages}));
    storage_->reads = 0;
    read_all(*tiers);
    CacheReads all = one.second;
    all.storage += kImages;
    EXPECT_EQ(tiers->reads(), all);
    EXPECT_EQ(storage_->reads, static_cast<int>(one.second.storage));
  }
}

TEST_F(ImageCacheTest, later_processes_read_what_earlier_ones_left_in_the_folder) {
  read_all(*cache_in_folder());
  storage_->reads = 0;
  read_all(*cache_in_folder());
  EXPECT_EQ(storage_->reads, 0);
}

TEST_F(ImageCacheTest, what_the_folder_has_comes_into_a_later_processs_memory) {
  read_all(*cache_in_folder());
  const auto tiers = cache({.memory_bytes = 1 << 20, .folder = folder_, .folder_bytes = 1 << 20});
  read_all(*tiers);
  read_all(*tiers);
  EXPECT_EQ(tiers->reads(), (CacheReads{.memory = kImages, .folder = kImages}));
}

TEST_F(ImageCacheTest, its_bytes_are_those_of_all_that_share_the_folder) {
  read_all(*cache_in_folder(12));
  read_all(*cache_in_folder(12));
  EXPECT_EQ(files().size(), 12U);
  read_all(*cache_in_folder(15));
  EXPECT_EQ(files().size(), 15U);
}

TEST_F(ImageCacheTest, of_another_version_of_the_data_is_not_used) {
  read_all(*cache_in_folder(2 * kImages));
  storage_->version_ = 8;
  storage_->reads = 0;
  read_all(*cache_in_folder(2 * kImages));
  EXPECT_EQ(storage_->reads, static_cast<int>(kImages));
}

TEST_F(ImageCacheTest, a_file_with_a_wrong_byte_is_read_from_storage_and_rewritten) {
  read_all(*cache_in_folder());
  for (const fs::path& path : files()) {
    const auto size = fs::file_size(path);
    for (const auto at : {std::uintmax_t{0}, std::uintmax_t{9}, std::uintmax_t{17}, std::uintmax_t{24},
                          std::uintmax_t{33}, std::uintmax_t{41}, std::uintmax_t{48}, size - 1}) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char had = static_cast<char>(file.get());
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(had ^ 1));
      file.close();
      storage_->reads = 0;
      read_all(*cache_in_folder());
      EXPECT_EQ(storage_->reads, 1) << path << " at " << at;
    }
  }
}

TEST_F(ImageCacheTest, a_shortened_or_lengthened_file_is_read_from_storage) {
  read_all(*cache_in_folder());
  const auto all = files();
  fs::resize_file(all[0], 0);
  fs::resize_file(all[1], 40);
  fs::resize_file(all[2], 500);
  fs::resize_file(all[3], 5000);
  storage_->reads = 0;
  read_all(*cache_in_folder());
  EXPECT_EQ(storage_->reads, 4);
}

TEST_F(ImageCacheTest, damage_of_the_storage_is_told_and_not_kept) {
  storage_->damaged = 4;
  const auto tiers = cache({.memory_bytes = 1 << 20, .folder = folder_, .folder_bytes = 1 << 20});
  StoredImage to;
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(tiers->read(4, reader_, kGoOn, to).error().code, ErrorCode::kCorrupt);
  }
  EXPECT_EQ(tiers->reads(), CacheReads{});
}

TEST_F(ImageCacheTest, a_folder_that_stops_taking_files_costs_no_read) {
  const auto tiers = cache_in_folder();
  fs::remove_all(folder_ + "/lockstep-images");
  read_all(*tiers);
  read_all(*tiers);
  EXPECT_EQ(tiers->reads(), (CacheReads{.storage = 2 * kImages}));
}

TEST_F(ImageCacheTest, a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  std::ofstream(folder_ + "/file") << "x";
  const auto made = ImageCache::over(storage_, {.folder = folder_ + "/file", .folder_bytes = 1});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid) << made.error().message;
  EXPECT_NE(made.error().message.find(folder_ + "/file"), std::string::npos) << made.error().message;
}

TEST_F(ImageCacheTest, threads_that_read_the_same_images_keep_each_once) {
  const auto tiers = cache({.memory_bytes = 7 * (sizeof(ImageExample) + kImageBytes),
                            .folder = folder_,
                            .folder_bytes = kImages * (kImageBytes + 48) * 4});  // claims may overlap
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { read_all(*tiers); });
  for (std::thread& thread : threads) thread.join();
  storage_->reads = 0;
  read_all(*tiers);
  EXPECT_EQ(storage_->reads, 0);
  EXPECT_GE(files().size(), kImages - 7);
  std::uint64_t used = 0, sum = 0;
  std::ifstream(folder_ + "/lockstep-images/used", std::ios::binary).read(reinterpret_cast<char*>(&used), sizeof used);
  for (const fs::path& file : files()) sum += fs::file_size(file);
  EXPECT_EQ(used, sum);
}

// The stores' own part of it.
TEST(ImageVersion, differs_when_a_file_was_written_to_though_its_records_lie_as_before) {
  const auto version_of = [](std::int64_t modified) {
    std::vector<std::byte> bytes;
    const auto payload = to_payload({.encoded = "jpeg", .label = 1});
    append_record(payload, bytes);
    auto file = std::make_unique<testing::MemoryFile>("train-0", bytes);
    file->modified = modified;
    DataFiles files;
    files.push_back(std::move(file));
    const auto store = ImageRecords::index(std::move(files), {}).value();
    return std::pair(store->fingerprint(), store->version());
  };
  EXPECT_EQ(version_of(1), version_of(1));
  EXPECT_EQ(version_of(1).first, version_of(2).first);
  EXPECT_NE(version_of(1).second, version_of(2).second);
}

}  // namespace
}  // namespace lockstep::trainer::data::image_cache_test
