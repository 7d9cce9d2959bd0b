#include "trainer/data/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/core/random.h"
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

Result<std::unique_ptr<ImageSource>> ImageSource::create(DataFiles training, DataFiles held_out,
                                                         const ImageOptions& options, const std::atomic<bool>& abort) {
  std::unique_ptr<ImageSource> source(new ImageSource(options));
  source->training_.files = std::move(training);
  source->held_out_.files = std::move(held_out);
  LOCKSTEP_TRY(const auto indexes, source->index(source->training_, abort));
  LOCKSTEP_CHECK_OK(source->index(source->held_out_, abort));
  source->thin_out(source->held_out_);
  if (source->training_.records.empty()) return fail(ErrorCode::kInvalid, "the training data has no records");
  source->order_ =
      std::make_unique<BlockOrder>(cut_into_blocks(indexes, options.block_bytes), options.window_blocks, options.seed);
  return source;
}

std::uint64_t ImageSource::fingerprint() const {
  std::uint64_t key = core::derive(0, "images");
  for (const Part* part : {&training_, &held_out_}) {
    for (const Located& at : part->records) {
      key = core::derive(core::derive(core::derive(key, at.file), at.record.offset), at.record.end());
    }
  }
  return key | 1;
}

// Keeps as many records as the options ask for, in their order. Which ones depends on their number alone: files may be
// sorted by class.
void ImageSource::thin_out(Part& part) const {
  const auto most = static_cast<size_t>(options_.most_held_out);
  const size_t all = part.records.size();
  if (most == 0 || most >= all) return;
  const Permutation order(all, core::derive(0, "held out"));
  std::vector<size_t> kept;
  for (size_t i = 0; i < most; ++i) kept.push_back(order.at(i));
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i < most; ++i) part.records[i] = part.records[kept[i]];
  part.records.resize(most);
}

Result<std::vector<RecordIndex>> ImageSource::index(Part& part, const std::atomic<bool>& abort) {
  std::vector<RecordIndex> indexes;
  for (size_t i = 0; i < part.files.size(); ++i) {
    LOCKSTEP_TRY(auto index, index_records(*part.files[i], reader_, abort));
    if (index.damage) {
      if (options_.on_damage == OnDamage::kFail) return *index.damage;
      skip(part, i, index.records.empty() ? 0 : index.records.back().end(), *index.damage);
    }
    for (const Record& record : index.records) part.records.push_back({i, record});
    indexes.push_back(std::move(index));
  }
  return indexes;
}

Result<core::Batch> ImageSource::take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) {
  DraftBatch draft = pool_.draft(rows);
  Workspace space;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Place place = order_->at(position + row);
    const View view = view_of(options_.augmentation, options_.seed, place.epoch, place.sample);
    LOCKSTEP_CHECK_OK(write(training_, place.sample, view, space, {draft, row}, abort));
  }
  return std::move(draft).finish();
}

Result<core::Batch> ImageSource::take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) {
  DraftBatch draft = pool_.draft(rows);
  Workspace space;
  for (std::int64_t row = 0; row < rows; ++row) {
    LOCKSTEP_CHECK_OK(write(held_out_, std::min(first + row, held_out() - 1), View{}, space, {draft, row}, abort));
  }
  return std::move(draft).finish();
}

// Writes the sample, or the next intact one if damage is skipped.
Status ImageSource::write(const Part& part, std::int64_t sample, const View& view, Workspace& space, Target to,
                          const std::atomic<bool>& abort) {
  const size_t count = part.records.size();
  Status written;
  for (size_t i = 0; i < count; ++i) {
    if (abort.load()) return fail(ErrorCode::kCancelled, "loading samples was aborted");
    const Located& at = part.records[(static_cast<size_t>(sample) + i) % count];
    written = write_record(part, at, view, space, to, abort);
    if (written || written.error().code != ErrorCode::kCorrupt || options_.on_damage == OnDamage::kFail) return written;
    skip(part, at.file, at.record.offset, written.error());
  }
  return written;
}

Status ImageSource::write_record(const Part& part, const Located& at, const View& view, Workspace& space, Target to,
                                 const std::atomic<bool>& abort) {
  const DataFile& file = *part.files[at.file];
  LOCKSTEP_CHECK_OK(read_record(file, at.record, reader_, abort, space.payload));
  const auto example = parse_image_example(space.payload);
  if (!example) return example.error().in(place_of(file, at.record));
  const ImageSize size{.height = options_.height, .width = options_.width};
  const Status decoded = space.decoder.decode(std::as_bytes(std::span(example->encoded)), size, space.image);
  if (!decoded && decoded.error().code != ErrorCode::kInvalid) return decoded.error().in(place_of(file, at.record));
  if (ImageSize{.height = space.image.height, .width = space.image.width} != size) {
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
  normaliser_.write(space.image, view, options_.real,
                    to.draft.inputs[0].data() + row * values_of(options_) * core::size_of(options_.real));
  reinterpret_cast<std::int32_t*>(to.draft.inputs[1].data())[row] =
      static_cast<std::int32_t>(example->label - options_.first_label);
  return {};
}

void ImageSource::skip(const Part& part, size_t file, std::uint64_t offset, const Error& why) {
  const std::lock_guard guard(mutex_);
  skipped_.emplace(std::tuple(&part == &held_out_, file, offset), why);
}

std::vector<Error> ImageSource::skipped() const {
  const std::lock_guard guard(mutex_);
  std::vector<Error> errors;
  for (const auto& [place, error] : skipped_) errors.push_back(error);
  return errors;
}

}  // namespace lockstep::trainer::data
