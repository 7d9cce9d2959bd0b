#include "trainer/data/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/core/random.h"
#include "trainer/data/attended.h"
#include "trainer/data/sampler.h"

namespace lockstep::trainer::data {

namespace {

std::string place_of(const DataFile& file, const Record& record) {
  return fmt::format("data '{}' at offset {}", file.path(), record.offset);
}

size_t values_of(const ImageOptions& options) {
  return static_cast<size_t>(options.height * options.width * 3);
}

}  // namespace

ImageSource::ImageSource(const ImageOptions& options)
    : options_(options),
      normaliser_(options.statistics),
      pool_({values_of(options) * core::size_of(options.real), sizeof(std::int32_t)}),
      reader_(options.patience) {}

Result<std::shared_ptr<ImageSource>> ImageSource::create(DataFiles training, DataFiles held_out,
                                                         const ImageOptions& options) {
  const std::shared_ptr<ImageSource> source(new ImageSource(options));
  source->training_.files = std::move(training);
  source->held_out_.files = std::move(held_out);
  const size_t first_held_out = source->training_.files.size();
  const size_t files = first_held_out + source->held_out_.files.size();
  // A thread that hangs may be left behind, so it owns where it writes.
  const auto indexes = std::make_shared<std::vector<RecordIndex>>(files);
  auto index = [source, indexes, first_held_out](size_t i) -> Status {
    const DataFile& file =
        i < first_held_out ? *source->training_.files[i] : *source->held_out_.files[i - first_held_out];
    const std::atomic<bool> never{false};  // nothing interrupts a trainer that has no peers yet
    LOCKSTEP_TRY((*indexes)[i], index_records(file, source->reader_, never));
    if ((*indexes)[i].damage && source->options_.on_damage == OnDamage::kFail) return *(*indexes)[i].damage;
    return {};
  };
  LOCKSTEP_CHECK_OK(attend(files, options.threads, index, [&] { return source->reader_.answers(); }));
  const auto middle = indexes->begin() + static_cast<std::ptrdiff_t>(first_held_out);
  const std::vector<RecordIndex> trained(indexes->begin(), middle);
  source->accept(source->training_, trained);
  source->accept(source->held_out_, {middle, indexes->end()});
  source->thin_out(source->held_out_);
  if (source->training_.records.empty()) return fail(ErrorCode::kInvalid, "the training data has no records");
  source->order_ =
      std::make_unique<BlockOrder>(cut_into_blocks(trained, options.block_bytes), options.window_blocks, options.seed);
  return source;
}

std::uint64_t ImageSource::fingerprint() const {
  std::uint64_t key = core::derive(0, "images");
  for (const Located& at : training_.records) {
    key = core::derive(core::derive(core::derive(key, at.file), at.record.offset), at.record.end());
  }
  return key | 1;
}

// Keeps as many records as the options ask for, in their order. Which ones depends on their number alone: files may be
// sorted by class.
void ImageSource::thin_out(Split& split) const {
  const auto most = static_cast<size_t>(options_.most_held_out);
  const size_t all = split.records.size();
  if (most == 0 || most >= all) return;
  const Permutation order(all, core::derive(0, "held out"));
  std::vector<size_t> kept;
  for (size_t i = 0; i < most; ++i) kept.push_back(order.at(i));
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i < most; ++i) split.records[i] = split.records[kept[i]];
  split.records.resize(most);
}

void ImageSource::accept(Split& split, const std::vector<RecordIndex>& indexes) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    const std::vector<Record>& records = indexes[i].records;
    if (indexes[i].damage) skip(split, i, records.empty() ? 0 : records.back().end(), *indexes[i].damage);
    for (const Record& record : records) split.records.push_back({i, record});
  }
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
  const size_t count = split.records.size();
  Status written;
  for (size_t i = 0; i < count; ++i) {
    if (abort.load()) return fail(ErrorCode::kCancelled, "loading samples was aborted");
    const Located& at = split.records[(static_cast<size_t>(sample) + i) % count];
    written = write_record(split, at, view, space, to, abort);
    if (written || written.error().code != ErrorCode::kCorrupt || options_.on_damage == OnDamage::kFail) return written;
    skip(split, at.file, at.record.offset, written.error());
  }
  return written;
}

Status ImageSource::write_record(const Split& split, const Located& at, const View& view, Workspace& space, Target to,
                                 const std::atomic<bool>& abort) {
  const DataFile& file = *split.files[at.file];
  LOCKSTEP_CHECK_OK(read_record(file, at.record, reader_, abort, space.payload));
  const auto example = parse_image_example(space.payload);
  if (!example) return example.error().in(place_of(file, at.record));
  const ImageSize size{.height = options_.height, .width = options_.width};
  const bool crops = options_.augmentation.crops;
  const Status decoded =
      space.decoder.decode(std::as_bytes(std::span(example->encoded)), crops ? kLargestPhotograph : size, space.image);
  const bool too_large = !decoded && decoded.error().code == ErrorCode::kInvalid;
  if (!decoded && (crops || !too_large)) return decoded.error().in(place_of(file, at.record));
  const Image* image = &space.image;
  if (crops) {
    const std::int64_t height = image->height, width = image->width;
    const Crop crop = view.crop != 0 ? random_crop(height, width, view.crop) : middle_crop(height, width);
    space.resizer.resize(space.image, crop, options_.height, options_.width, space.resized);
    image = &space.resized;
  }
  if (ImageSize{.height = image->height, .width = image->width} != size) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: the image has {} x {} pixels, not {} x {}", place_of(file, at.record),
                            space.image.width, space.image.height, options_.width, options_.height));
  }
  if (example->label < options_.first_label || example->label - options_.first_label >= options_.classes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: the label {} is not between {} and {}", place_of(file, at.record), example->label,
                            options_.first_label, options_.first_label + options_.classes - 1));
  }
  const auto row = static_cast<size_t>(to.row);
  normaliser_.write(*image, view, options_.real,
                    to.draft.inputs[0].data() + row * values_of(options_) * core::size_of(options_.real));
  reinterpret_cast<std::int32_t*>(to.draft.inputs[1].data())[row] =
      static_cast<std::int32_t>(example->label - options_.first_label);
  return {};
}

void ImageSource::skip(const Split& split, size_t file, std::uint64_t offset, const Error& why) {
  const std::lock_guard guard(mutex_);
  if (!damaged_.emplace(&split == &held_out_, file, offset).second) return;
  skipped_.push_back({.file = split.files[file]->path(), .offset = offset, .why = why.message});
}

std::vector<Damage> ImageSource::skipped(size_t from) const {
  const std::lock_guard guard(mutex_);
  return {skipped_.begin() + static_cast<std::ptrdiff_t>(std::min(from, skipped_.size())), skipped_.end()};
}

}  // namespace lockstep::trainer::data
