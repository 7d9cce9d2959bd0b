#include "trainer/data/image_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "trainer/data/image_files.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/image_records.h"
#include "trainer/data/visit.h"

namespace lockstep::trainer::data {

namespace {

namespace fs = std::filesystem;

struct Named {
  std::string path;
  bool trains = false;
};

// What a folder has.
struct Content {
  std::vector<Named> records;  // in the order of their names, which is the same on every rank
  bool sub_folders = false;
};

Result<Content> content_of(const std::string& folder) {
  std::error_code error;
  Content content;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool trains = name.starts_with("train");
    if (!trains && !name.starts_with("test") && !name.starts_with("validation")) continue;
    std::error_code ignored;  // opening it says what is wrong with it
    if (!it->is_directory(ignored)) content.records.push_back({it->path().string(), trains});
  }
  if (error) return cannot_read_data(folder, error.value());
  std::sort(content.records.begin(), content.records.end(),
            [](const Named& a, const Named& b) { return a.path < b.path; });
  if (!content.records.empty()) return content;
  LOCKSTEP_TRY(const auto folders, sub_folders(folder));
  content.sub_folders = !folders.empty();
  return content;
}

// What each of the folders has, in their order. Errors are those of visit().
Result<std::vector<Content>> contents_of(const std::vector<std::string>& folders, Duration patience) {
  const auto contents = std::make_shared<std::vector<Content>>(folders.size());  // a thread that hangs owns it
  auto one = [contents, folders](std::size_t i) -> Status {
    LOCKSTEP_TRY((*contents)[i], content_of(folders[i]));
    return {};
  };
  LOCKSTEP_CHECK_OK(visit("listing", folders, patience, one));
  return std::move(*contents);
}

Result<DataFiles> open_all(const std::vector<std::string>& paths, const ImageSetOptions& options) {
  const auto opened = std::make_shared<DataFiles>(paths.size());  // a thread that hangs owns it
  auto one = [opened, paths, open = options.open](std::size_t i) -> Status {
    LOCKSTEP_TRY((*opened)[i], open(paths[i]));
    return {};
  };
  LOCKSTEP_CHECK_OK(visit("opening", paths, options.patience, one));
  return std::move(*opened);
}

Result<ImageSets> open_records(const std::vector<Content>& contents, const ImageSetOptions& options) {
  std::vector<std::string> training, held_out;
  for (const Content& content : contents) {
    for (const Named& file : content.records) (file.trains ? training : held_out).push_back(file.path);
  }
  if (training.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("there is nothing to train on in '{}'; a folder has TFRecords, whose names begin with "
                            "'train' (held-out ones: 'test' or 'validation'), or a sub-folder of JPEGs for each class",
                            fmt::join(options.paths, "', '")));
  }
  const IndexOptions how{.on_damage = options.on_damage, .patience = options.patience, .threads = options.threads};
  ImageSets sets{.form = fmt::format("{} files", training.size())};
  LOCKSTEP_TRY(DataFiles files, open_all(training, options));
  LOCKSTEP_TRY(sets.training, ImageRecords::index(std::move(files), how));
  LOCKSTEP_TRY(files, open_all(held_out, options));
  LOCKSTEP_TRY(sets.held_out, ImageRecords::index(std::move(files), how));
  return sets;
}

Result<ImageSets> open_folder(const std::string& folder, const ImageSetOptions& options) {
  LOCKSTEP_TRY(const ImageFolder found, list_images(folder, options.patience));
  const std::size_t count = found.images.size();
  const Permutation order = set_order(count, kSetSeed);
  std::vector<FolderImage> images;
  for (std::size_t i = 0; i < count; ++i) images.push_back(found.images[order.at(i)]);
  LOCKSTEP_TRY(auto files, look_at_files(images, options.patience, options.open));
  const auto middle = files.begin() + static_cast<std::ptrdiff_t>(held_out_of(count, kHeldOutPercent));
  std::vector<ImageFile> held_out(std::make_move_iterator(files.begin()), std::make_move_iterator(middle));
  files.erase(files.begin(), middle);
  return ImageSets{.training = std::make_shared<ImageFiles>(std::move(files), options.open),
                   .held_out = std::make_shared<ImageFiles>(std::move(held_out), options.open),
                   .form = fmt::format("images of {} sub-folders", found.classes.size()),
                   .classes = static_cast<std::int64_t>(found.classes.size())};
}

}  // namespace

Result<ImageSets> open_image_sets(const ImageSetOptions& options) {
  LOCKSTEP_TRY(const auto contents, contents_of(options.paths, options.patience));
  const auto images =
      std::find_if(contents.begin(), contents.end(), [](const Content& one) { return one.sub_folders; });
  if (images == contents.end()) return open_records(contents, options);
  const std::string& folder = options.paths[static_cast<std::size_t>(images - contents.begin())];
  if (contents.size() == 1) return open_folder(folder, options);
  return fail(ErrorCode::kInvalid, fmt::format("'{}' is a folder of images, which is read alone; give no other folder "
                                               "of data, or pack each with lockstep data pack",
                                               folder));
}

}  // namespace lockstep::trainer::data
