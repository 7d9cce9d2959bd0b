#include "trainer/data/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/core/random.h"
#include "trainer/data/sampler.h"

namespace lockstep::trainer::data {

namespace {

size_t pixels_of(const ImageOptions& options) {
  return static_cast<size_t>(options.height * options.width * 3);
}

}  // namespace

ImageSource::ImageSource(std::shared_ptr<const ImageStore> training, std::shared_ptr<const ImageStore> held_out,
                         const ImageOptions& options)
    : options_(options),
      pool_({pixels_of(options), sizeof(std::int32_t)},
            std::make_shared<const core::PixelValues>(values_of(options.statistics))),
      reader_(options.patience),
      training_{.store = std::move(training), .chosen = {}},
      held_out_{.store = std::move(held_out), .chosen = {}} {
  for (const Split* split : {&training_, &held_out_}) {
    for (Damage& damage : split->store->damage_at_opening()) skipped_.push_back(std::move(damage));
  }
}

Result<std::shared_ptr<ImageSource>> ImageSource::create(std::shared_ptr<const ImageStore> training,
                                                         std::shared_ptr<const ImageStore> held_out,
                                                         const ImageOptions& options) {
  std::shared_ptr<ImageSource> source(new ImageSource(std::move(training), std::move(held_out), options));
  if (source->training_.count() == 0) return fail(ErrorCode::kInvalid, "the training data has no images");
  source->thin_out(source->held_out_);
  source->order_ = std::make_unique<BlockOrder>(source->training_.store->blocks(options.block_bytes),
                                                options.window_blocks, options.seed);
  return source;
}

// Keeps as many images as the options ask for, in their order. Which ones depends on their number alone: files may be
// sorted by class.
void ImageSource::thin_out(Split& split) const {
  const auto most = static_cast<size_t>(options_.most_held_out);
  const size_t all = split.count();
  if (most == 0 || most >= all) return;
  const Permutation order(all, core::derive(0, "held out"));
  std::vector<size_t> kept;
  for (size_t i = 0; i < most; ++i) kept.push_back(order.at(i));
  std::sort(kept.begin(), kept.end());
  split.chosen = std::move(kept);
}

std::unique_ptr<ImageSource::Workspace> ImageSource::borrow() {
  {
    const std::lock_guard guard(mutex_);
    if (!spaces_.empty()) {
      auto space = std::move(spaces_.back());
      spaces_.pop_back();
      return space;
    }
  }
  return std::make_unique<Workspace>();
}

void ImageSource::give_back(std::unique_ptr<Workspace> space) {
  const std::lock_guard guard(mutex_);
  spaces_.push_back(std::move(space));
}

Status ImageSource::fill(const DraftBatch& to, const Part& part, const std::atomic<bool>& abort) {
  auto space = borrow();
  Status filled;
  for (std::int64_t row = part.first; row < part.first + part.rows && filled; ++row) {
    if (part.held_out) {
      filled = write(held_out_, std::min(part.position + row, held_out() - 1), View{}, *space, {to, row}, abort);
    } else {
      const Place place = order_->at(part.position + row);
      const View view = view_of(options_.augmentation, options_.seed, place.epoch, place.sample);
      filled = write(training_, place.sample, view, *space, {to, row}, abort);
    }
  }
  give_back(std::move(space));
  return filled;
}

// Writes the sample, or the next intact one if damage is skipped.
Status ImageSource::write(const Split& split, std::int64_t sample, const View& view, Workspace& space, Target to,
                          const std::atomic<bool>& abort) {
  const size_t count = split.count();
  Status written;
  for (size_t i = 0; i < count; ++i) {
    if (abort.load()) return fail(ErrorCode::kCancelled, "loading samples was aborted");
    const size_t number = split.number((static_cast<size_t>(sample) + i) % count);
    written = write_image(*split.store, number, view, space, to, abort);
    if (written || written.error().code != ErrorCode::kCorrupt || options_.on_damage == OnDamage::kFail) return written;
    skip(split, number, written.error());
  }
  return written;
}

Status ImageSource::write_image(const ImageStore& store, size_t number, const View& view, Workspace& space, Target to,
                                const std::atomic<bool>& abort) {
  LOCKSTEP_CHECK_OK(store.read(number, reader_, abort, space.stored));
  const ImageExample& example = space.stored.example;
  const ImageSize size{.height = options_.height, .width = options_.width};
  const bool crops = options_.augmentation.crops;
  const Status decoded =
      space.decoder.decode(std::as_bytes(std::span(example.encoded)), crops ? kLargestPhotograph : size, space.image);
  const bool too_large = !decoded && decoded.error().code == ErrorCode::kInvalid;
  if (!decoded && (crops || !too_large)) return decoded.error().in(store.where(number));
  const Image* image = &space.image;
  if (crops) {
    const std::int64_t height = image->height, width = image->width;
    const Crop crop = view.crop != 0 ? random_crop(height, width, view.crop) : middle_crop(height, width);
    space.resizer.resize(space.image, crop, options_.height, options_.width, space.resized);
    image = &space.resized;
  }
  if (ImageSize{.height = image->height, .width = image->width} != size) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: the image has {} x {} pixels, not {} x {}", store.where(number), space.image.width,
                            space.image.height, options_.width, options_.height));
  }
  if (example.label < options_.first_label || example.label - options_.first_label >= options_.classes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: the label {} is not between {} and {}", store.where(number), example.label,
                            options_.first_label, options_.first_label + options_.classes - 1));
  }
  const auto row = static_cast<size_t>(to.row);
  write_view(*image, view, reinterpret_cast<std::uint8_t*>(to.draft.inputs[0].data()) + row * pixels_of(options_));
  reinterpret_cast<std::int32_t*>(to.draft.inputs[1].data())[row] =
      static_cast<std::int32_t>(example.label - options_.first_label);
  return {};
}

void ImageSource::skip(const Split& split, size_t number, const Error& why) {
  const std::lock_guard guard(mutex_);
  if (!damaged_.emplace(&split == &held_out_, number).second) return;
  skipped_.push_back({.file = split.store->path(number), .offset = split.store->offset(number), .why = why.message});
}

std::vector<Damage> ImageSource::skipped(size_t from) const {
  const std::lock_guard guard(mutex_);
  return {skipped_.begin() + static_cast<std::ptrdiff_t>(std::min(from, skipped_.size())), skipped_.end()};
}

}  // namespace lockstep::trainer::data
