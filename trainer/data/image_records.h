// Labelled images in TFRecords.
#pragma once

#include <memory>
#include <vector>

#include "trainer/data/block_order.h"
#include "trainer/data/image_store.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::data {

using DataFiles = std::vector<std::unique_ptr<DataFile>>;

struct IndexOptions {
  OnDamage on_damage = OnDamage::kFail;
  Duration patience = std::chrono::seconds(120);  // for storage that does not answer
  int threads = 1;                                // that read the index
};

class ImageRecords final : public ImageStore {
 public:
  // Indexes the files. kInvalid: a file is not whole; kCorrupt: damage, with OnDamage::kFail; kDeadlineExceeded: a read
  // hangs for longer than the patience. Other errors are those of PatientReader::read().
  static Result<std::shared_ptr<ImageRecords>> index(DataFiles files, const IndexOptions& options);

  std::size_t count() const override { return records_.size(); }
  std::uint64_t fingerprint() const override;
  std::uint64_t version() const override;
  std::vector<std::int64_t> blocks(std::uint64_t bytes) const override { return cut_into_blocks(indexes_, bytes); }
  Status read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
              StoredImage& to) const override;
  const std::string& path(std::size_t number) const override { return file(number).path(); }
  std::uint64_t offset(std::size_t number) const override { return records_[number].record.offset; }
  std::string where(std::size_t number) const override;
  std::vector<Damage> damage_at_opening() const override;

 private:
  struct Located {
    std::size_t file = 0;
    Record record;
  };
  explicit ImageRecords(DataFiles files) : files_(std::move(files)), indexes_(files_.size()) {}
  const DataFile& file(std::size_t number) const { return *files_[records_[number].file]; }

  const DataFiles files_;
  std::vector<RecordIndex> indexes_;  // by file
  std::vector<Located> records_;      // in order
};

}  // namespace lockstep::trainer::data
