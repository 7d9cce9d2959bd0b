// Labelled JPEG images as samples for a classifier.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trainer/data/augmentation.h"
#include "trainer/data/batch_pool.h"
#include "trainer/data/block_order.h"
#include "trainer/data/damage.h"
#include "trainer/data/image_store.h"
#include "trainer/data/jpeg.h"
#include "trainer/data/part_source.h"

namespace lockstep::trainer::data {

struct ImageOptions {
  std::int64_t height = 32, width = 32;  // of every image, or that parts of them are resized to (Augmentation::crops)
  std::int64_t classes = 10;
  std::int64_t first_label = 0;  // of class 0 in the store: 0 in CIFAR, 1 in ImageNet
  ChannelStatistics statistics = kCifarStatistics;
  Augmentation augmentation;  // of samples that are trained on
  OnDamage on_damage = OnDamage::kFail;
  std::uint64_t seed = 0;
  std::uint64_t block_bytes = kBlockBytes;        // of the order of records
  std::int64_t window_blocks = 8;                 // of the order of records
  std::int64_t most_held_out = 0;                 // held-out images, drawn from all files; 0: all
  Duration patience = std::chrono::seconds(120);  // for storage that does not answer
};

class ImageSource final : public PartSource {
 public:
  // kInvalid: there are no images to train on.
  static Result<std::shared_ptr<ImageSource>> create(std::shared_ptr<const ImageStore> training,
                                                     std::shared_ptr<const ImageStore> held_out,
                                                     const ImageOptions& options);

  std::int64_t samples() const { return order_->count(); }  // of an epoch
  // Of the images to train on, which decide what a position means. Not 0.
  std::uint64_t fingerprint() const { return training_.store->fingerprint(); }

  // Inputs: images (rows, height, width, 3), as bytes, and classes (rows), int32. Errors as the interface has them, and
  // kInvalid. That is a record without an image or a label, an image of another size, a label outside of the classes,
  // or a changed file; the sentence names file and offset. Such images are never skipped: they are not damaged, the
  // options or the data are wrong.
  DraftBatch draft(std::int64_t rows) const override { return pool_.draft(rows); }
  Status fill(const DraftBatch& to, const Part& part, const std::atomic<bool>& abort) override;
  std::int64_t held_out() const override { return static_cast<std::int64_t>(held_out_.count()); }
  Duration patience() const override { return options_.patience; }
  Status answers() const override { return reader_.answers(); }
  void wake() override { reader_.wake(); }

  // The damage that was skipped, in the order in which it was found, without the first `from` entries. A damaged place
  // stands there once, whichever epochs meet it. Any thread.
  std::vector<Damage> skipped(size_t from = 0) const;

 private:
  // The images to train on, or the held-out ones.
  struct Split {
    std::shared_ptr<const ImageStore> store;
    std::optional<std::vector<size_t>> chosen;  // in order; empty: all

    size_t count() const { return chosen ? chosen->size() : store->count(); }
    size_t number(size_t sample) const { return chosen ? (*chosen)[sample] : sample; }
  };
  // What a thread needs again for each row.
  struct Workspace {
    JpegDecoder decoder;
    StoredImage stored;
    Image image, resized;
    Resizer resizer;
  };
  struct Target {
    const DraftBatch& draft;
    std::int64_t row = 0;
  };

  ImageSource(std::shared_ptr<const ImageStore> training, std::shared_ptr<const ImageStore> held_out,
              const ImageOptions& options);
  void thin_out(Split& split) const;
  // A workspace that no thread uses, and its return.
  std::unique_ptr<Workspace> borrow();
  void give_back(std::unique_ptr<Workspace> space);
  Status write(const Split& split, std::int64_t sample, const View& view, Workspace& space, Target to,
               const std::atomic<bool>& abort);
  Status write_image(const ImageStore& store, size_t number, const View& view, Workspace& space, Target to,
                     const std::atomic<bool>& abort);
  void skip(const Split& split, size_t number, const Error& why);

  const ImageOptions options_;
  BatchPool pool_;
  PatientReader reader_;
  Split training_, held_out_;
  std::unique_ptr<BlockOrder> order_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> spaces_;  // that no thread uses; by mutex_
  std::set<std::pair<bool, size_t>> damaged_;       // held-out, and the number in the store; by mutex_
  std::vector<Damage> skipped_;                     // the same places, after those of the opening; by mutex_
};

}  // namespace lockstep::trainer::data
