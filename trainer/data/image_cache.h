// Tiers between training and slow storage. The first read of an image leaves it in the memory of this process. An image
// that does not fit there goes into files on a local disk. Ranks of the machine and later processes read them too.
//
// Nothing is replaced. An epoch reads each image once, so each kept image saves one read of an epoch, whichever it is.
// An image that made room for another would be read again in the next epoch. Mohan et al. (2021, "Analyzing and
// mitigating data stalls in DNN training") call this MinIO.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/data/image_store.h"

namespace lockstep::trainer::data {

struct ImageCacheOptions {
  std::uint64_t memory_bytes = 0;  // at most, of this process; 0: none
  std::string folder;              // on a local disk, made if it is missing; empty: none
  std::uint64_t folder_bytes = 0;  // at most, of all processes that share the folder

  bool any() const { return memory_bytes > 0 || !folder.empty(); }
};

// Where images were read from.
struct CacheReads {
  std::uint64_t memory = 0, folder = 0, storage = 0;

  friend bool operator==(const CacheReads&, const CacheReads&) = default;
};

// Any number of threads. A file of the folder is used only if its checksum fits, and its name has the version and
// number of the image. A full folder or an error of its disk fails no read: the image comes from storage.
class ImageCache final : public ImageStore {
 public:
  // kForbidden, kNotFound, kInvalid, kExhausted, kUnavailable: the folder cannot be used; the sentence names it.
  static Result<std::shared_ptr<ImageCache>> over(std::shared_ptr<const ImageStore> storage,
                                                  const ImageCacheOptions& options);
  ~ImageCache() override;

  std::size_t count() const override { return storage_->count(); }
  std::uint64_t fingerprint() const override { return storage_->fingerprint(); }
  std::uint64_t version() const override { return storage_->version(); }
  std::vector<std::int64_t> blocks(std::uint64_t bytes) const override { return storage_->blocks(bytes); }
  // A disk of the folder that hangs is storage that does not answer (PatientReader::answers()).
  Status read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
              StoredImage& to) const override;
  const std::string& path(std::size_t number) const override { return storage_->path(number); }
  std::uint64_t offset(std::size_t number) const override { return storage_->offset(number); }
  std::string where(std::size_t number) const override { return storage_->where(number); }
  std::vector<Damage> damage_at_opening() const override { return storage_->damage_at_opening(); }

  CacheReads reads() const;

 private:
  class Folder;
  ImageCache(std::shared_ptr<const ImageStore> storage, const ImageCacheOptions& options);
  std::shared_ptr<const ImageExample> in_memory(std::size_t number) const;
  bool keep_in_memory(std::size_t number, const ImageExample& image) const;

  const std::shared_ptr<const ImageStore> storage_;
  const std::uint64_t memory_bytes_;
  std::unique_ptr<Folder> folder_;  // null: none
  mutable std::atomic<std::uint64_t> from_memory_{0}, from_folder_{0}, from_storage_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const ImageExample>> images_;  // by number, by mutex_; null: not here
  mutable std::uint64_t used_ = 0;                                   // by mutex_
};

}  // namespace lockstep::trainer::data
