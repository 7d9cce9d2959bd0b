// Labelled images, each in a file of its own.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/image_folder.h"
#include "trainer/data/image_store.h"

namespace lockstep::trainer::data {

struct ImageFile {
  std::string path;
  std::int64_t label = 0;
  FileState state;  // when the store was opened
};

// Looks at each file once, several at a time. kInvalid: a file is no regular one, or has more than kMaxImageBytes; the
// sentence names it. Other errors are those of visit() with `patience`. Their labels are those of the images.
Result<std::vector<ImageFile>> look_at_files(const std::vector<FolderImage>& images, Duration patience,
                                             const OpenFile& open);

// A file is opened for each read, so there may be more files than descriptors.
class ImageFiles final : public ImageStore {
 public:
  ImageFiles(std::vector<ImageFile> files, OpenFile open) : files_(std::move(files)), open_(std::move(open)) {}

  std::size_t count() const override { return files_.size(); }
  // Of labels, sizes and names without folders, so the folder may move.
  std::uint64_t fingerprint() const override;
  std::uint64_t version() const override;
  // One block: no file is faster to read than another.
  std::vector<std::int64_t> blocks(std::uint64_t bytes) const override;
  Status read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
              StoredImage& to) const override;
  const std::string& path(std::size_t number) const override { return files_[number].path; }
  std::uint64_t offset(std::size_t) const override { return 0; }
  std::string where(std::size_t number) const override;

 private:
  const std::vector<ImageFile> files_;
  const OpenFile open_;
};

}  // namespace lockstep::trainer::data
