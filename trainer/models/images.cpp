#include "trainer/models/images.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "trainer/data/image_cache.h"
#include "trainer/data/image_sets.h"
#include "trainer/data/image_source.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/synthetic_images.h"

namespace lockstep::trainer::models {

namespace {

constexpr std::chrono::seconds kPatience(120);  // for storage that does not answer

Dataset make_synthetic(const DataOptions& options, const ImageShape& shape) {
  using Images = data::SyntheticImages;
  return {
      .source = std::make_unique<Images>(data::SyntheticOptions{
          .pixels = shape.pixels, .classes = shape.classes, .seed = options.seed, .most_held_out = options.held_out}),
      .epoch_samples = Images::kImages,
      .description = fmt::format("{} synthetic images of {} x {}", Images::kImages, shape.pixels, shape.pixels)};
}

}  // namespace

Result<Dataset> open_images(const DataOptions& options, const ImageShape& shape) {
  if (is_synthetic(options.paths)) return make_synthetic(options, shape);
  const data::OnDamage on_damage = options.skip_damage ? data::OnDamage::kSkip : data::OnDamage::kFail;
  LOCKSTEP_TRY(
      const data::ImageSets sets,
      data::open_image_sets(
          {.paths = options.paths, .on_damage = on_damage, .patience = kPatience, .threads = options.threads}));
  if (sets.classes > shape.classes) {
    return fail(ErrorCode::kInvalid, fmt::format("the data in '{}' has {} classes, one for each sub-folder, and the "
                                                 "model tells {} apart",
                                                 fmt::join(options.paths, "', '"), sets.classes, shape.classes));
  }
  std::shared_ptr<const data::ImageStore> training = sets.training, held_out = sets.held_out;
  std::shared_ptr<const data::ImageCache> cache;
  if (options.cache.any()) {
    LOCKSTEP_TRY(cache, data::ImageCache::over(sets.training, options.cache));
    training = cache;
  }
  if (!options.cache.folder.empty()) {
    data::ImageCacheOptions folder_alone = options.cache;
    folder_alone.memory_bytes = 0;
    LOCKSTEP_TRY(held_out, data::ImageCache::over(sets.held_out, folder_alone));
  }
  LOCKSTEP_TRY(auto images, data::ImageSource::create(
                                training, held_out,
                                {.height = shape.pixels,
                                 .width = shape.pixels,
                                 .classes = shape.classes,
                                 .first_label = sets.classes > 0 ? 0 : shape.first_label,
                                 .statistics = shape.photographs ? data::kImageNetStatistics : data::kCifarStatistics,
                                 .augmentation = shape.photographs ? data::kPhotographs : data::Augmentation{},
                                 .on_damage = on_damage,
                                 .seed = options.seed,
                                 .most_held_out = options.held_out,
                                 .patience = kPatience}));
  Dataset dataset{.epoch_samples = images->samples(), .fingerprint = images->fingerprint()};
  dataset.description =
      fmt::format("{}, {} images to train on, {} held out", sets.form, images->samples(), images->held_out());
  if (cache) dataset.reads = [cache] { return cache->reads(); };
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
