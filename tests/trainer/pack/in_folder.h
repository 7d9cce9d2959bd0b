// A folder of its own for each test, and what is in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "trainer/data/data_file.h"
#include "trainer/data/jpeg.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::pack::testing {

namespace fs = std::filesystem;

inline std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A JPEG of one colour.
inline std::string jpeg(std::uint8_t shade, std::int64_t height = 16, std::int64_t width = 16) {
  data::Image image{.height = height, .width = width};
  image.pixels.assign(static_cast<std::size_t>(height * width * 3), shade);
  return data::encode_jpeg(image, 90).value();
}

// The payloads of all records of a file.
inline std::vector<std::vector<std::byte>> payloads(const fs::path& path) {
  const std::atomic<bool> go_on{false};
  data::PatientReader reader(std::chrono::seconds(10));
  const auto file = data::open_data_file(path.string()).value();
  const data::RecordIndex index = data::index_records(*file, reader, go_on).value();
  EXPECT_FALSE(index.damage);
  std::vector<std::vector<std::byte>> all;
  for (const data::Record& record : index.records) {
    EXPECT_TRUE(data::read_record(*file, record, reader, go_on, all.emplace_back()).ok());
  }
  return all;
}

class InFolder : public ::testing::Test {
 protected:
  InFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~InFolder() override { fs::remove_all(folder_); }

  // The bytes of each file of a folder, by name.
  static std::map<std::string, std::string> files(const fs::path& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) {
      all[entry.path().filename().string()] = fs::is_regular_file(entry) ? content(entry.path()) : "a folder";
    }
    return all;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("pack_test." + std::to_string(::getpid()));
  const std::string out_ = (folder_ / "out").string();
};

}  // namespace lockstep::trainer::pack::testing
