#include "trainer/pack/make_data_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "trainer/data/data_file.h"
#include "trainer/data/example.h"
#include "trainer/data/image_folder.h"
#include "trainer/pack/data_set_writer.h"
#include "trainer/pack/synthetic_image.h"

namespace lockstep::trainer::pack {

namespace {

constexpr std::chrono::seconds kPatience(120);  // for storage that does not answer

// Writes `count` images, which `image` makes or reads by number, in an order drawn from the seed. The first of them are
// held out.
Result<Made> write_all(const Common& common, std::int64_t count, const std::vector<std::string>& classes,
                       const std::function<Result<data::ImageExample>(std::int64_t number)>& image,
                       const std::atomic<bool>& stop) {
  LOCKSTEP_TRY(const auto writer, DataSetWriter::create(common.out, common.shard_bytes));
  const auto all = static_cast<size_t>(count);
  Made made{.held_out = static_cast<std::int64_t>(data::held_out_of(all, common.test_percent)),
            .classes = classes.size()};
  made.training = count - made.held_out;
  const data::Permutation order = data::set_order(all, common.seed);
  Progress progress(stderr, common.terminal, count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (stop.load()) return fail(ErrorCode::kCancelled, fmt::format("stopped; '{}' was not created", common.out));
    LOCKSTEP_TRY(auto example, image(static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(i)))));
    example.text = classes[static_cast<size_t>(example.label)];
    const data::ImageSize size{.height = example.height, .width = example.width};
    if (i == 0) made.least = made.most = size;
    made.least = {.height = std::min(made.least.height, size.height), .width = std::min(made.least.width, size.width)};
    made.most = {.height = std::max(made.most.height, size.height), .width = std::max(made.most.width, size.width)};
    if (common.files) {
      const auto number = order.at(static_cast<std::uint64_t>(i));
      LOCKSTEP_CHECK_OK(
          writer->add_file(example.text, fmt::format("{:09}.jpg", number), std::as_bytes(std::span(example.encoded))));
    } else {
      LOCKSTEP_CHECK_OK(writer->add(i < made.held_out ? "test" : "train", data::to_payload(example)));
    }
    progress.update(i + 1, writer->bytes());
  }
  LOCKSTEP_CHECK_OK(writer->finish(classes));
  made.files = writer->files();
  made.bytes = writer->bytes();
  return made;
}

}  // namespace

Result<Made> pack_images(const PackOptions& options, const std::atomic<bool>& stop) {
  LOCKSTEP_TRY(const data::ImageFolder folder, data::list_images(options.folder, kPatience));
  data::PatientReader reader(kPatience);
  data::JpegDecoder decoder;
  data::Image pixels;
  auto read = [&](std::int64_t number) -> Result<data::ImageExample> {
    const data::FolderImage& image = folder.images[static_cast<size_t>(number)];
    LOCKSTEP_TRY(const auto file, data::open_data_file(image.path));
    if (file->size() > data::kMaxImageBytes) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("the image '{}' of {} MB is too large", image.path, file->size() >> 20));
    }
    data::ImageExample example{.encoded = std::string(file->size(), '\0'),
                               .label = static_cast<std::int64_t>(image.label)};
    LOCKSTEP_CHECK_OK(reader.read(*file, 0, std::as_writable_bytes(std::span(example.encoded)), stop));
    // A trainer would find a damaged image only in the middle of a run.
    const Status decoded = decoder.decode(std::as_bytes(std::span(example.encoded)), data::kLargestPhotograph, pixels);
    if (!decoded) return fail(ErrorCode::kInvalid, fmt::format("'{}': {}", image.path, decoded.error().message));
    example.height = pixels.height;
    example.width = pixels.width;
    return example;
  };
  LOCKSTEP_TRY(Made made,
               write_all(options.common, static_cast<std::int64_t>(folder.images.size()), folder.classes, read, stop));
  made.left_out = folder.others;
  return made;
}

Result<Made> synthesize_images(const SynthOptions& options, const std::atomic<bool>& stop) {
  std::vector<std::string> classes;
  for (std::int64_t label = 0; label < options.classes; ++label) classes.push_back(fmt::format("class-{:05}", label));
  auto make = [&](std::int64_t number) -> Result<data::ImageExample> {
    const std::int64_t label = number % options.classes;
    const data::Image image =
        synthetic_image(options.common.seed, static_cast<std::uint64_t>(number), label, options.side);
    LOCKSTEP_TRY(std::string encoded, data::encode_jpeg(image, options.quality));
    return data::ImageExample{
        .encoded = std::move(encoded), .label = label, .height = options.side, .width = options.side};
  };
  return write_all(options.common, options.images, classes, make, stop);
}

}  // namespace lockstep::trainer::pack
