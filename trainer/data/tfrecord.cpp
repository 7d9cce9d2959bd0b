#include "trainer/data/tfrecord.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "trainer/data/crc32c.h"

namespace lockstep::trainer::data {

namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums are read as they lie");

Error wrong(ErrorCode code, const DataFile& file, std::uint64_t offset, const std::string& what) {
  return fail(code, fmt::format("data '{}' at offset {}: {}", file.path(), offset, what));
}

// A file that is shorter than its records say: a copy that did not end.
Error cut_off(const DataFile& file, std::uint64_t offset, const std::string& what) {
  return wrong(ErrorCode::kInvalid, file, offset, what + "; the file is not whole");
}

// Bytes that do not fit their checksum. They are damage only if nobody wrote to the file.
Error damaged(const DataFile& file, std::uint64_t offset, PatientReader& reader, const std::atomic<bool>& abort,
              const std::string& what) {
  LOCKSTEP_CHECK_OK(reader.unchanged(file, abort));
  return wrong(ErrorCode::kCorrupt, file, offset, what);
}

template <typename Number>
Number number_at(std::span<const std::byte> bytes, size_t offset) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// Of the checksum that follows the first `count` bytes.
bool checksum_fits(std::span<const std::byte> bytes, size_t count) {
  return masked(crc32c(bytes.first(count))) == number_at<std::uint32_t>(bytes, count);
}

constexpr std::uint64_t kRunBytes = std::uint64_t{1} << 20;  // of one read of short records
constexpr std::uint64_t kShortRecord = std::uint64_t{64}
                                       << 10;  // between longer ones a read of their headers is cheaper

// The headers of a file in order, read in long runs where many of them are near.
class Headers {
 public:
  Headers(const DataFile& file, PatientReader& reader, const std::atomic<bool>& abort)
      : file_(file), reader_(reader), abort_(abort) {}

  // The header at `offset`, which lies within the file. Valid until the next call.
  Result<std::span<const std::byte>> at(std::uint64_t offset) {
    if (offset < begin_ || offset + kRecordHeaderBytes > begin_ + run_.size()) {
      const std::uint64_t jump = offset - last_;
      run_.resize(jump <= kShortRecord ? std::min(kRunBytes, file_.size() - offset) : kRecordHeaderBytes);
      begin_ = offset;
      LOCKSTEP_CHECK_OK(reader_.read(file_, offset, run_, abort_));
    }
    last_ = offset;
    return std::span<const std::byte>(run_).subspan(offset - begin_, kRecordHeaderBytes);
  }

 private:
  const DataFile& file_;
  PatientReader& reader_;
  const std::atomic<bool>& abort_;
  std::uint64_t begin_ = 0;  // of run_
  std::uint64_t last_ = 0;   // header
  std::vector<std::byte> run_;
};

void append_number(auto number, std::vector<std::byte>& to) {
  std::array<std::byte, sizeof number> bytes;
  std::memcpy(bytes.data(), &number, sizeof number);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

Result<RecordIndex> index_records(const DataFile& file, PatientReader& reader, const std::atomic<bool>& abort) {
  RecordIndex index;
  Headers headers(file, reader, abort);
  Record record;
  while (record.offset < file.size()) {
    const std::uint64_t left = file.size() - record.offset;
    if (left < kRecordHeaderBytes + kRecordFooterBytes) {
      return cut_off(file, record.offset, fmt::format("a record ends inside its header, after {} bytes", left));
    }
    LOCKSTEP_TRY(const auto header, headers.at(record.offset));
    if (!checksum_fits(header, sizeof record.bytes)) {
      Error why = damaged(file, record.offset, reader, abort,
                          "the checksum of a record's length does not fit, which hides the rest of the file");
      if (why.code != ErrorCode::kCorrupt) return why;
      index.damage = std::move(why);
      break;
    }
    record.bytes = number_at<std::uint64_t>(header, 0);
    if (record.bytes > kMaxRecordBytes) {
      return wrong(ErrorCode::kInvalid, file, record.offset,
                   fmt::format("a record of {} bytes is longer than {}", record.bytes, kMaxRecordBytes));
    }
    if (record.bytes > left - kRecordHeaderBytes - kRecordFooterBytes) {
      return cut_off(file, record.offset,
                     fmt::format("a record of {} bytes does not end within the file", record.bytes));
    }
    index.records.push_back(record);
    record.offset = record.end();
  }
  return index;
}

Status read_record(const DataFile& file, const Record& record, PatientReader& reader, const std::atomic<bool>& abort,
                   std::vector<std::byte>& payload) {
  payload.resize(record.end() - record.offset);
  LOCKSTEP_CHECK_OK(reader.read(file, record.offset, payload, abort));
  if (!checksum_fits(payload, sizeof record.bytes) || number_at<std::uint64_t>(payload, 0) != record.bytes) {
    LOCKSTEP_CHECK_OK(reader.unchanged(file, abort));
    return wrong(ErrorCode::kInvalid, file, record.offset, "the length of a record is not what it was at the start");
  }
  const auto framed = std::span<const std::byte>(payload).subspan(kRecordHeaderBytes);
  if (!checksum_fits(framed, record.bytes)) {
    return damaged(file, record.offset, reader, abort, "the checksum of a record's bytes does not fit");
  }
  payload.erase(payload.begin(), payload.begin() + kRecordHeaderBytes);
  payload.resize(record.bytes);
  return {};
}

void append_record(std::span<const std::byte> payload, std::vector<std::byte>& to) {
  const size_t header = to.size();
  append_number(static_cast<std::uint64_t>(payload.size()), to);
  append_number(masked(crc32c(std::span<const std::byte>(to).subspan(header))), to);
  to.insert(to.end(), payload.begin(), payload.end());
  append_number(masked(crc32c(payload)), to);
}

}  // namespace lockstep::trainer::data
