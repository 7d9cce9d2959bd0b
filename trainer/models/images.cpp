#include "trainer/models/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "trainer/data/attended.h"
#include "trainer/data/image_source.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/synthetic_images.h"

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

Status add_folder(const std::string& folder, Parts& parts) {
  LOCKSTEP_TRY(const auto files, files_of(folder));
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    const bool trains = begins_with(name, "train");
    if (!trains && !begins_with(name, "test") && !begins_with(name, "validation")) continue;
    LOCKSTEP_TRY(auto file, data::open_data_file(path.string()));
    (trains ? parts.training : parts.held_out).push_back(std::move(file));
  }
  return {};
}

// Opens the files of the folders. kDeadlineExceeded: the storage has not answered for kPatience.
Result<Parts> open_folders(const std::vector<std::string>& folders) {
  const auto parts = std::make_shared<Parts>();  // owned by a thread that hangs, too
  const auto end = std::chrono::steady_clock::now() + kPatience;
  auto open = [parts, folders](size_t i) { return add_folder(folders[i], *parts); };
  auto check = [&]() -> Status {
    if (std::chrono::steady_clock::now() < end) return {};
    return fail(ErrorCode::kDeadlineExceeded,
                fmt::format("opening the data in '{}' has not ended for {:.0f} s; the storage does not answer",
                            fmt::join(folders, "', '"), std::chrono::duration<double>(kPatience).count()));
  };
  LOCKSTEP_CHECK_OK(data::attend(folders.size(), 1, open, check));
  return std::move(*parts);
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
