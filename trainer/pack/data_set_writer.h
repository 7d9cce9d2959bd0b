// Writes a data set: a folder of TFRecord files in shards, or of files. The folder has its name only when all of it is
// on the disk.
//
//   OUT/train-00000-of-00002.tfrecord ...   the records of each split ("train", "test") in the order in which they came
//   OUT/FOLDER/NAME                         files of add_file()
//   OUT/classes.txt                         the name of each class, a line per label from 0 on
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::pack {

// One thread.
class DataSetWriter {
 public:
  // Begins in a folder beside `out` with a temporary name. A shard ends with the record that reaches `shard_bytes`.
  // kAlreadyExists: `out` exists and is not an empty folder. kNotFound, kForbidden, kUnavailable: the folder cannot be
  // created; the sentence names it.
  static Result<std::unique_ptr<DataSetWriter>> create(const std::string& out, std::uint64_t shard_bytes);
  // Removes everything that finish() did not give its name.
  ~DataSetWriter();
  DataSetWriter(const DataSetWriter&) = delete;
  DataSetWriter& operator=(const DataSetWriter&) = delete;

  // Appends a record. kExhausted: the disk is full; kUnavailable: other failures. The sentence names the file.
  Status add(const std::string& split, std::span<const std::byte> payload);
  // Writes a file of its own into the folder `folder` of the data set. Errors as add().
  Status add_file(const std::string& folder, const std::string& name, std::span<const std::byte> content);
  // Flushes everything to the disk, then renames the folder to `out`. Errors as add(), and kAlreadyExists: something
  // else has that name now. Call it once, last.
  Status finish(const std::vector<std::string>& classes);

  std::uint64_t bytes() const { return bytes_; }  // of all records and files
  std::size_t files() const { return files_; }    // shards and files

 private:
  struct Shard {
    std::string path;
    int fd = -1;
    std::uint64_t bytes = 0;
    std::vector<std::byte> buffer;  // not written yet
  };
  struct Split {
    std::vector<std::string> paths;  // of its shards
    Shard open;                      // fd -1: none
  };

  DataSetWriter(std::string out, std::string folder, std::uint64_t shard_bytes)
      : out_(std::move(out)), folder_(std::move(folder)), shard_bytes_(shard_bytes) {}
  Status begin_shard(const std::string& split, Split& of);
  static Status flush(Shard& shard);
  static Status close(Shard& shard);
  static Status flush_and_close(Shard& file);
  Status write_file(const std::string& name, std::span<const std::byte> content, Status (*end)(Shard&)) const;

  const std::string out_, folder_;
  const std::uint64_t shard_bytes_;
  std::map<std::string, Split> splits_;
  std::uint64_t bytes_ = 0;
  std::size_t files_ = 0;
  std::set<std::string> folders_;  // of add_file()
  bool finished_ = false;
};

}  // namespace lockstep::trainer::pack
