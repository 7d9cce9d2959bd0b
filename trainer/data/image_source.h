// Labelled JPEG images in TFRecords as samples for a classifier.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "trainer/core/tensor.h"
#include "trainer/data/augmentation.h"
#include "trainer/data/batch_pool.h"
#include "trainer/data/block_order.h"
#include "trainer/data/damage.h"
#include "trainer/data/data_file.h"
#include "trainer/data/example.h"
#include "trainer/data/jpeg.h"
#include "trainer/data/part_source.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::data {

struct ImageOptions {
  std::int64_t height = 32, width = 32;  // of every image, or that parts of them are resized to (Augmentation::crops)
  std::int64_t classes = 10;
  std::int64_t first_label = 0;  // of class 0 in the records: 0 in CIFAR, 1 in ImageNet
  ChannelStatistics statistics = kCifarStatistics;
  Augmentation augmentation;  // of samples that are trained on
  OnDamage on_damage = OnDamage::kFail;
  core::ElementType real = core::ElementType::kFloat32;
  std::uint64_t seed = 0;
  std::uint64_t block_bytes = kBlockBytes;        // of the order of records
  std::int64_t window_blocks = 8;                 // of the order of records
  std::int64_t most_held_out = 0;                 // held-out images, drawn from all files; 0: all
  Duration patience = std::chrono::seconds(120);  // for storage that does not answer
  int threads = 1;                                // that read the index
};

using DataFiles = std::vector<std::unique_ptr<DataFile>>;

class ImageSource final : public PartSource {
 public:
  // Indexes the files, on options.threads threads. kInvalid: there are no records to train on, or a file is not whole;
  // kCorrupt: damage, with OnDamage::kFail; kDeadlineExceeded as answers(). Other errors are those of
  // PatientReader::read().
  static Result<std::shared_ptr<ImageSource>> create(DataFiles training, DataFiles held_out,
                                                     const ImageOptions& options);

  std::int64_t samples() const { return order_->count(); }  // of an epoch
  // Of the places and lengths of the records to train on, which decide what a position means. Not 0.
  std::uint64_t fingerprint() const;

  // Inputs: images (rows, height, width, 3), real, and classes (rows), int32. Errors as the interface has them, and
  // kInvalid: a record without an image or a label, an image of another size, a label outside of the classes, or a file
  // that was written to; the sentence names file and offset. Such records are never skipped: they are not damaged, the
  // options or the data are wrong.
  DraftBatch draft(std::int64_t rows) const override { return pool_.draft(rows); }
  Status fill(const DraftBatch& to, const Part& part, const std::atomic<bool>& abort) override;
  std::int64_t held_out() const override { return static_cast<std::int64_t>(held_out_.records.size()); }
  Duration patience() const override { return options_.patience; }
  Status answers() const override { return reader_.answers(); }
  void wake() override { reader_.wake(); }

  // The damage that was skipped, in the order in which it was found, without the first `from` entries. A damaged place
  // stands there once, whichever epochs meet it. Any thread.
  std::vector<Damage> skipped(size_t from = 0) const;

 private:
  struct Located {
    size_t file = 0;
    Record record;
  };
  // The training or the held-out files.
  struct Split {
    DataFiles files;
    std::vector<Located> records;  // in order
  };
  // What a thread needs again for each row.
  struct Workspace {
    JpegDecoder decoder;
    std::vector<std::byte> payload;
    Image image, resized;
    Resizer resizer;
  };
  struct Target {
    const DraftBatch& draft;
    std::int64_t row = 0;
  };

  explicit ImageSource(const ImageOptions& options);
  void accept(Split& split, const std::vector<RecordIndex>& indexes);
  void thin_out(Split& split) const;
  // A workspace that no thread uses, and its return.
  std::unique_ptr<Workspace> borrow();
  void give_back(std::unique_ptr<Workspace> space);
  Status write(const Split& split, std::int64_t sample, const View& view, Workspace& space, Target to,
               const std::atomic<bool>& abort);
  Status write_record(const Split& split, const Located& at, const View& view, Workspace& space, Target to,
                      const std::atomic<bool>& abort);
  void skip(const Split& split, size_t file, std::uint64_t offset, const Error& why);

  const ImageOptions options_;
  const Normaliser normaliser_;
  BatchPool pool_;
  PatientReader reader_;
  Split training_, held_out_;
  std::unique_ptr<BlockOrder> order_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> spaces_;             // that no thread uses; by mutex_
  std::set<std::tuple<bool, size_t, std::uint64_t>> damaged_;  // held-out, file and offset; by mutex_
  std::vector<Damage> skipped_;                                // the same places; by mutex_
};

}  // namespace lockstep::trainer::data
