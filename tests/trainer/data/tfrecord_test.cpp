#include "trainer/data/tfrecord.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/sanitizer.h"
#include "tests/trainer/data/record_files.h"
#include "trainer/data/crc32c.h"

namespace lockstep::trainer::data {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::bytes_of;
using testing::kGoOn;
using testing::MemoryFile;

std::vector<std::byte> file_of(const std::vector<std::string>& payloads) {
  std::vector<std::byte> bytes;
  for (const auto& payload : payloads) append_record(bytes_of(payload), bytes);
  return bytes;
}

TEST(Crc32c, equals_the_published_values) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);       // the check value of the CRC catalogue
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, the_table_and_the_instruction_agree_on_any_length_and_alignment) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(300);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t count = 0; count < 40; ++count) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, count);
      EXPECT_EQ(crc32c(part), crc32c_by_table(part));
    }
  }
  EXPECT_EQ(crc32c(bytes), crc32c_by_table(bytes));
}

TEST(TfRecord, what_was_appended_is_read) {
  const std::vector<std::string> payloads = {"one", "", std::string(5000, 'x')};
  const MemoryFile file("f", file_of(payloads));
  PatientReader reader(seconds(1));
  const RecordIndex index = index_records(file, reader, kGoOn).value();
  EXPECT_FALSE(index.damage);
  EXPECT_EQ(index.records, (std::vector<Record>{{0, 3}, {19, 0}, {35, 5000}}));
  std::vector<std::byte> payload;
  for (size_t i = 0; i < payloads.size(); ++i) {
    ASSERT_TRUE(read_record(file, index.records[i], reader, kGoOn, payload).ok());
    EXPECT_EQ(payload, bytes_of(payloads[i]));
  }
}

TEST(TfRecord, damage_is_told_with_file_and_offset) {
  const std::vector<std::byte> whole = file_of({"first", "second"});
  PatientReader reader(seconds(1));
  auto damage_of = [&](std::vector<std::byte> bytes) {
    const MemoryFile file("f", std::move(bytes));
    const RecordIndex index = index_records(file, reader, kGoOn).value();
    if (index.damage) {
      EXPECT_EQ(index.damage->code, ErrorCode::kCorrupt);
      return std::to_string(index.records.size()) + " records, " + index.damage->message;
    }
    std::vector<std::byte> payload;
    for (const Record& record : index.records) {
      const Status read = read_record(file, record, reader, kGoOn, payload);
      if (!read) return read.error().message;
    }
    return std::string("none");
  };
  EXPECT_EQ(damage_of(whole), "none");
  auto flipped = [&](size_t at) {
    auto bytes = whole;
    bytes[at] ^= std::byte{4};
    return bytes;
  };
  EXPECT_EQ(damage_of(flipped(22)),
            "1 records, data 'f' at offset 21: the checksum of a record's length does not fit, which hides the rest of "
            "the file");
  EXPECT_EQ(damage_of(flipped(34)), "data 'f' at offset 21: the checksum of a record's bytes does not fit");
}

TEST(TfRecord, a_file_that_is_not_whole_is_an_error_and_no_damage) {
  const std::vector<std::byte> whole = file_of({"first", "second"});
  PatientReader reader(seconds(1));
  auto error_of = [&](size_t bytes) {
    const MemoryFile file("f", {whole.begin(), whole.end() - static_cast<long>(bytes)});
    const auto index = index_records(file, reader, kGoOn);
    EXPECT_FALSE(index.ok());
    if (index.ok()) return std::string();
    EXPECT_EQ(index.error().code, ErrorCode::kInvalid);
    return index.error().message;
  };
  EXPECT_EQ(error_of(1),
            "data 'f' at offset 21: a record of 6 bytes does not end within the file; the file is not whole");
  EXPECT_EQ(error_of(21),
            "data 'f' at offset 21: a record ends inside its header, after 1 bytes; the file is not whole");
}

TEST(TfRecord, a_file_that_is_written_to_is_an_error_and_no_damage) {
  PatientReader reader(seconds(1));
  MemoryFile file("f", file_of({"first", "second"}));
  const RecordIndex index = index_records(file, reader, kGoOn).value();
  file.content[34] ^= std::byte{4};
  file.content[1] ^= std::byte{4};
  std::vector<std::byte> payload;
  EXPECT_EQ(read_record(file, index.records[1], reader, kGoOn, payload).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_record(file, index.records[0], reader, kGoOn, payload).error().message,
            "data 'f' at offset 0: the length of a record is not what it was at the start");
  file.written = true;
  for (const Record& record : index.records) {
    const Status read = read_record(file, record, reader, kGoOn, payload);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(read.error().message, "data 'f' was written to");
  }
  EXPECT_EQ(index_records(file, reader, kGoOn).error().code, ErrorCode::kInvalid);
}

TEST(TfRecord, short_records_are_indexed_in_long_reads_and_long_ones_are_not_read) {
  PatientReader reader(seconds(1));
  std::vector<std::string> payloads(40000, std::string(100, 'x'));
  const MemoryFile many("f", file_of(payloads));
  EXPECT_EQ(index_records(many, reader, kGoOn).value().records.size(), 40000U);
  EXPECT_LE(many.reads, 6);
  EXPECT_LE(many.bytes_read, many.size() + many.size() / 100);
  payloads.assign(100, std::string(100000, 'x'));
  const MemoryFile large("f", file_of(payloads));
  EXPECT_EQ(index_records(large, reader, kGoOn).value().records.size(), 100U);
  EXPECT_LE(large.reads, 100);
  EXPECT_LE(large.bytes_read, large.size() / 8) << "a run at the start, then headers";
}

TEST(TfRecord, any_damage_is_found_and_the_rest_is_read) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  PatientReader reader(seconds(1));
  for (int round = 0; round < sanitizer::cases(3000); ++round) {
    std::vector<std::string> payloads(1 + random() % 6);
    for (auto& payload : payloads) payload = std::string(random() % 40, static_cast<char>('a' + random() % 26));
    std::vector<std::byte> bytes = file_of(payloads);
    const std::vector<std::byte> whole = bytes;
    for (std::uint64_t i = random() % 4; i > 0; --i) bytes[random() % bytes.size()] ^= static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const bool intact = bytes == whole;
    const MemoryFile file("f", bytes);
    const auto found_index = index_records(file, reader, kGoOn);
    if (!found_index) {  // cut off, unless the length says so with a checksum that fits by chance
      ASSERT_LT(bytes.size(), whole.size()) << found_index.error().message;
      continue;
    }
    const RecordIndex& index = *found_index;
    const RecordIndex again = index_records(file, reader, kGoOn).value();
    ASSERT_EQ(index.records, again.records);
    ASSERT_LE(index.records.size(), payloads.size());
    bool found = index.damage.has_value();
    std::vector<std::byte> payload;
    for (size_t i = 0; i < index.records.size(); ++i) {
      const Status read = read_record(file, index.records[i], reader, kGoOn, payload);
      if (read) {
        ASSERT_EQ(payload, bytes_of(payloads[i]));
        continue;
      }
      found = true;
      ASSERT_EQ(read.error().code, ErrorCode::kCorrupt);
      ASSERT_EQ(read.error().message.rfind("data 'f' at offset " + std::to_string(index.records[i].offset), 0), 0U);
    }
    // A file that ends between two records is a shorter file.
    const bool shorter = bytes.size() < whole.size() && std::equal(bytes.begin(), bytes.end(), whole.begin());
    ASSERT_EQ(found, !intact && !(shorter && !index.damage)) << "round " << round;
  }
}

TEST(TfRecord, any_bytes_are_no_crash) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  PatientReader reader(seconds(1));
  for (int round = 0; round < sanitizer::cases(3000); ++round) {
    // A length with its checksum, then anything.
    std::vector<std::byte> bytes = file_of({""});
    const std::uint64_t length = random() >> random() % 64;
    std::memcpy(bytes.data(), &length, sizeof length);
    const std::uint32_t crc = masked(crc32c(std::span<const std::byte>(bytes).first(8)));
    std::memcpy(bytes.data() + 8, &crc, sizeof crc);
    bytes.resize(12 + random() % 60, static_cast<std::byte>(random()));
    const MemoryFile file("f", bytes);
    const auto index = index_records(file, reader, kGoOn);
    if (!index) continue;
    std::vector<std::byte> payload;
    for (const Record& record : index->records) {
      ASSERT_LE(record.end(), bytes.size());
      static_cast<void>(read_record(file, record, reader, kGoOn, payload));
    }
  }
}

TEST(PatientReader, an_outage_of_the_storage_costs_no_record) {
  const MemoryFile file("f", file_of({"first", "second"}));
  PatientReader reader(seconds(20));
  const RecordIndex index = index_records(file, reader, kGoOn).value();
  file.outages = 3;
  std::vector<std::byte> payload;
  ASSERT_TRUE(read_record(file, index.records[1], reader, kGoOn, payload).ok());
  EXPECT_EQ(payload, bytes_of("second"));
  EXPECT_EQ(file.outages, 0);
}

TEST(PatientReader, an_outage_that_lasts_too_long_is_unavailable) {
  const MemoryFile file("f", file_of({"first"}));
  PatientReader reader(milliseconds(50));
  file.outages = 1000000;
  const auto index = index_records(file, reader, kGoOn);
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(index.error().message, "cannot read data 'f': Input/output error");
}

TEST(PatientReader, abort_ends_the_wait_for_storage) {
  const MemoryFile file("f", file_of({"first"}));
  PatientReader reader(std::chrono::hours(1));
  file.outages = 1000000;
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    while (file.reads == 0) std::this_thread::yield();
    abort.store(true);
    reader.wake();
  });
  EXPECT_EQ(index_records(file, reader, abort).error().code, ErrorCode::kCancelled);
  aborts.join();
}

TEST(PatientReader, an_outage_while_a_file_is_checked_is_waited_for) {
  MemoryFile file("f", file_of({"first"}));
  PatientReader reader(seconds(20));
  const RecordIndex index = index_records(file, reader, kGoOn).value();
  file.content[kRecordHeaderBytes] ^= std::byte{1};
  file.check_outages = 3;
  std::vector<std::byte> payload;
  EXPECT_EQ(read_record(file, index.records[0], reader, kGoOn, payload).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file.check_outages, 0);
}

TEST(PatientReader, a_check_that_hangs_is_storage_that_does_not_answer) {
  MemoryFile file("f", file_of({"first"}));
  PatientReader reader(milliseconds(50));
  const RecordIndex index = index_records(file, reader, kGoOn).value();
  file.content[kRecordHeaderBytes] ^= std::byte{1};
  file.checks_hang = true;
  std::thread reads([&] {
    std::vector<std::byte> payload;
    static_cast<void>(read_record(file, index.records[0], reader, kGoOn, payload));
  });
  const auto latest = std::chrono::steady_clock::now() + seconds(20);
  while (reader.answers().ok() && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  const Status answers = reader.answers();
  EXPECT_EQ(answers.ok() ? "answers" : answers.error().message,
            "checking data 'f' has not ended for 0 s; the storage does not answer");
  file.release();
  reads.join();
}

TEST(TfRecord, files_that_tensorflow_wrote_are_read) {
  const auto folder = testing::real_data();
  if (!folder) GTEST_SKIP() << "LOCKSTEP_TEST_DATA names no folder";
  const auto file = open_data_file(*folder + "/tfrecord/train-00000-of-00008").value();
  PatientReader reader(seconds(1));
  const RecordIndex index = index_records(*file, reader, kGoOn).value();
  EXPECT_FALSE(index.damage);
  EXPECT_EQ(index.records.size(), 64U);
  std::vector<std::byte> payload;
  for (const Record& record : index.records) EXPECT_TRUE(read_record(*file, record, reader, kGoOn, payload).ok());
}

TEST(DataFile, a_file_that_cannot_be_read_is_told_by_name) {
  EXPECT_EQ(open_data_file("/nowhere").error().message, "cannot read data '/nowhere': No such file or directory");
  EXPECT_EQ(open_data_file("/nowhere").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(open_data_file("/dev/null").error().message, "data '/dev/null' is not a regular file");
}

// A file of a folder that ends with the test.
class FileOnDisk : public ::testing::Test {
 protected:
  FileOnDisk() { std::filesystem::create_directories(folder_); }
  ~FileOnDisk() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tfrecord_test." + std::to_string(::getpid()));
  const std::string path_ = folder_ / "data";
};

TEST_F(FileOnDisk, a_pipe_is_refused_without_waiting_for_its_writer) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(open_data_file(path_).error().message, "data '" + path_ + "' is not a regular file");
}

TEST_F(FileOnDisk, a_file_that_shrinks_is_read_again_for_a_while_and_never_damage) {
  std::ofstream(path_) << "0123456789";
  const auto file = open_data_file(path_).value();
  EXPECT_TRUE(file->unchanged().ok());
  std::filesystem::resize_file(path_, 4);
  std::vector<std::byte> to(3);
  PatientReader reader(milliseconds(50));
  const Status read = reader.read(*file, 2, to, kGoOn);
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(read.error().message, "data '" + path_ + "' ends at offset 4; it had 10 bytes when it was opened");
  EXPECT_EQ(file->unchanged().error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace lockstep::trainer::data
