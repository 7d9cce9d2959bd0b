#include "trainer/models/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "trainer/data/image_source.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/synthetic_images.h"
#include "trainer/data/visit.h"

namespace lockstep::trainer::models {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience(120);  // for storage that does not answer

struct Parts {
  data::DataFiles training, held_out;
};

bool begins_with(const std::string& name, std::string_view prefix) {
  return name.compare(0, prefix.size(), prefix) == 0;
}

// The files of a folder in the order of their names, which is the same on every rank.
Result<std::vector<fs::path>> files_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    files.push_back(it->path());
  }
  if (error) return data::cannot_read_data(folder, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

struct Named {
  std::string path;
  bool trains = false;
};

// The files of a folder that belong to the data set.
Result<std::vector<Named>> named_files(const std::string& folder) {
  LOCKSTEP_TRY(const auto files, files_of(folder));
  std::vector<Named> named;
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    const bool trains = begins_with(name, "train");
    if (!trains && !begins_with(name, "test") && !begins_with(name, "validation")) continue;
    named.push_back({path.string(), trains});
  }
  return named;
}

// The files of all folders, in their order. Errors are those of data::visit().
Result<std::vector<Named>> list(const std::vector<std::string>& folders) {
  const auto lists = std::make_shared<std::vector<std::vector<Named>>>(folders.size());  // a thread that hangs owns it
  auto one = [lists, folders](size_t i) -> Status {
    LOCKSTEP_TRY((*lists)[i], named_files(folders[i]));
    return {};
  };
  LOCKSTEP_CHECK_OK(data::visit("listing", folders, kPatience, one));
  std::vector<Named> all;
  for (const auto& list : *lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Opens the files of the folders. Errors are those of data::visit().
Result<Parts> open_folders(const std::vector<std::string>& folders) {
  LOCKSTEP_TRY(const std::vector<Named> named, list(folders));
  std::vector<std::string> paths;
  for (const Named& file : named) paths.push_back(file.path);
  const auto opened = std::make_shared<data::DataFiles>(paths.size());  // a thread that hangs owns it
  auto one = [opened, paths](size_t i) -> Status {
    LOCKSTEP_TRY((*opened)[i], data::open_data_file(paths[i]));
    return {};
  };
  LOCKSTEP_CHECK_OK(data::visit("opening", paths, kPatience, one));
  Parts parts;
  for (size_t i = 0; i < named.size(); ++i) {
    (named[i].trains ? parts.training : parts.held_out).push_back(std::move((*opened)[i]));
  }
  return parts;
}

Dataset make_synthetic(const DataOptions& options, const ImageShape& shape) {
  using Images = data::SyntheticImages;
  return {.source = std::make_unique<Images>(data::SyntheticOptions{.pixels = shape.pixels,
                                                                    .classes = shape.classes,
                                                                    .real = options.real,
                                                                    .seed = options.seed,
                                                                    .most_held_out = options.held_out}),
          .epoch_samples = Images::kImages,
          .description = fmt::format("{} synthetic images of {} x {}", Images::kImages, shape.pixels, shape.pixels)};
}

}  // namespace

Result<Dataset> open_images(const DataOptions& options, const ImageShape& shape) {
  if (is_synthetic(options.paths)) return make_synthetic(options, shape);
  LOCKSTEP_TRY(Parts parts, open_folders(options.paths));
  if (parts.training.empty()) {
    return fail(ErrorCode::kInvalid, fmt::format("there is no file to train on in '{}': the names of TFRecords begin "
                                                 "with 'train', and those of held-out ones with 'test' or 'validation'",
                                                 fmt::join(options.paths, "', '")));
  }
  const size_t files = parts.training.size();
  LOCKSTEP_TRY(auto images, data::ImageSource::create(
                                std::move(parts.training), std::move(parts.held_out),
                                {.height = shape.pixels,
                                 .width = shape.pixels,
                                 .classes = shape.classes,
                                 .first_label = shape.first_label,
                                 .statistics = shape.photographs ? data::kImageNetStatistics : data::kCifarStatistics,
                                 .augmentation = shape.photographs ? data::kPhotographs : data::Augmentation{},
                                 .on_damage = options.skip_damage ? data::OnDamage::kSkip : data::OnDamage::kFail,
                                 .real = options.real,
                                 .seed = options.seed,
                                 .most_held_out = options.held_out,
                                 .patience = kPatience,
                                 .threads = options.threads}));
  Dataset dataset{.epoch_samples = images->samples(), .fingerprint = images->fingerprint()};
  dataset.description =
      fmt::format("{} files, {} images to train on, {} held out", files, images->samples(), images->held_out());
  if (options.skip_damage) dataset.skipped = [images](size_t from) { return images->skipped(from); };
  LOCKSTEP_TRY(dataset.source,
               data::Prefetcher::start(images, {.threads = options.threads, .batches = options.prefetch}));
  return dataset;
}

std::vector<Option> photograph_options(double label_smoothing) {
  return {{"image-size", "Rows and columns that images are resized to", std::int64_t{224}, std::int64_t{32},
           std::int64_t{1024}},
          {"classes", "Kinds of images", std::int64_t{1000}, std::int64_t{2}, std::int64_t{1} << 20},
          {"first-label", "Label of the first class in the data", std::int64_t{1}, std::int64_t{0}, kLargestOption},
          {"label-smoothing", "Share of a target that all classes have alike", label_smoothing, 0.0, 0.99}};
}

ImageShape photographs(const Settings& settings) {
  return {.pixels = settings.whole("image-size"),
          .classes = settings.whole("classes"),
          .first_label = settings.whole("first-label"),
          .photographs = true};
}

Result<Dataset> open_photographs(const Settings& settings, const DataOptions& options) {
  return open_images(options, photographs(settings));
}

}  // namespace lockstep::trainer::models
