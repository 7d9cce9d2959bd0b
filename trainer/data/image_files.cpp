#include "trainer/data/image_files.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "trainer/core/random.h"
#include "trainer/data/visit.h"

namespace lockstep::trainer::data {

Result<std::vector<ImageFile>> look_at_files(const std::vector<FolderImage>& images, Duration patience,
                                             const OpenFile& open) {
  const auto files = std::make_shared<std::vector<ImageFile>>(images.size());  // a thread that hangs owns it
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < images.size(); ++i) {
    (*files)[i] = {.path = images[i].path, .label = static_cast<std::int64_t>(images[i].label), .state = {}};
    paths.push_back(images[i].path);
  }
  auto look = [files, open](std::size_t i) -> Status {
    ImageFile& file = (*files)[i];
    LOCKSTEP_TRY(const auto opened, open(file.path));
    file.state = opened->state();
    if (file.state.size <= kMaxImageBytes) return {};
    return fail(ErrorCode::kInvalid, fmt::format("the image '{}' of {} MiB is larger than {} MiB", file.path,
                                                 file.state.size >> 20, kMaxImageBytes >> 20));
  };
  LOCKSTEP_CHECK_OK(visit("opening", std::move(paths), patience, std::move(look)));
  return std::move(*files);
}

std::uint64_t ImageFiles::fingerprint() const {
  std::uint64_t key = core::derive(0, "image files");
  for (const ImageFile& file : files_) {
    const std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
    key = core::derive(core::derive(key, name), file.state.size);
    key = core::derive(key, static_cast<std::uint64_t>(file.label));
  }
  return key | 1;
}

std::uint64_t ImageFiles::version() const {
  std::uint64_t key = fingerprint();
  for (const ImageFile& file : files_) key = mix_in(key, file.path, file.state);
  return key;
}

std::vector<std::int64_t> ImageFiles::blocks(std::uint64_t) const {
  if (files_.empty()) return {};
  return {static_cast<std::int64_t>(files_.size())};
}

Status ImageFiles::read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
                        StoredImage& to) const {
  const ImageFile& listed = files_[number];
  std::unique_ptr<DataFile> file;
  LOCKSTEP_CHECK_OK(reader.attempt("opening", listed.path, abort, [&]() -> Status {
    LOCKSTEP_TRY(file, open_(listed.path));
    return {};
  }));
  if (file->state() != listed.state) return was_written_to(listed.path);
  to.example.label = listed.label;
  to.example.encoded.resize(listed.state.size);
  LOCKSTEP_CHECK_OK(reader.read(*file, 0, std::as_writable_bytes(std::span(to.example.encoded)), abort));
  // No checksum proves that these bytes are those of the listing.
  return reader.unchanged(*file, abort);
}

std::string ImageFiles::where(std::size_t number) const {
  return fmt::format("data '{}'", path(number));
}

}  // namespace lockstep::trainer::data
