// Records of a TFRecord file. Each is framed as
//
//   length (8 bytes, little-endian) | masked CRC-32C of these 8 bytes (4) | payload | masked CRC-32C of the payload (4)
//
// The index of a file is made of the lengths alone; the payloads are checked when they are read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operator/base/result.h"
#include "trainer/data/data_file.h"

namespace lockstep::trainer::data {

inline constexpr std::uint64_t kRecordHeaderBytes = 12, kRecordFooterBytes = 4;
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 30;  // of a payload: a longer one is refused

// A record of a file.
struct Record {
  std::uint64_t offset = 0;  // of its header
  std::uint64_t bytes = 0;   // of its payload

  std::uint64_t end() const { return offset + kRecordHeaderBytes + bytes + kRecordFooterBytes; }
  friend bool operator==(const Record&, const Record&) = default;
};

// The records of a file in order.
struct RecordIndex {
  std::vector<Record> records;
  // What ended the scan before the end of the file: a length whose checksum does not fit hides where the next record
  // begins. kCorrupt; the sentence names file and offset. It and the records are a function of the file's bytes.
  std::optional<Error> damage;
};

// Reads the lengths of a file's records. Errors are those of reader.read(); damage is none of them. kInvalid: the file
// ends inside a record, so it is not whole, or it was changed; the sentence names file and offset.
Result<RecordIndex> index_records(const DataFile& file, PatientReader& reader, const std::atomic<bool>& abort);

// Reads a record's payload into `payload`. kCorrupt: its bytes do not match its checksum; the sentence names file and
// offset. kInvalid: the file was changed since it was indexed. Other errors are those of reader.read().
Status read_record(const DataFile& file, const Record& record, PatientReader& reader, const std::atomic<bool>& abort,
                   std::vector<std::byte>& payload);

// Appends a record to the bytes of a file.
void append_record(std::span<const std::byte> payload, std::vector<std::byte>& to);

}  // namespace lockstep::trainer::data
