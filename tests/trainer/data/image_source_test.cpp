#include "trainer/data/image_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "tests/trainer/data/record_files.h"
#include "trainer/data/prefetcher.h"

namespace lockstep::trainer::data {
namespace {

using testing::content_of;
using testing::kGoOn;
using testing::kPlain;
using testing::MemoryFile;

constexpr std::int64_t kSide = 8, kPixels = kSide * kSide * 3;

// An image of one colour, from which number_of() finds its number.
ImageExample example(std::int64_t number, std::int64_t label, std::int64_t side = kSide) {
  Image image{.height = side, .width = side};
  image.pixels.assign(static_cast<size_t>(side * side * 3), static_cast<std::uint8_t>(20 + 10 * number));
  return {.encoded = encode_jpeg(image, 100).value(), .label = label};
}

// Files of four records each, with the numbers from `first` on, where the label is the number modulo 10.
std::vector<std::unique_ptr<MemoryFile>> files(std::int64_t first, std::int64_t count) {
  std::vector<std::unique_ptr<MemoryFile>> made;
  for (std::int64_t number = first; number < first + count; ++number) {
    if (made.empty() || (number - first) % 4 == 0) {
      made.push_back(std::make_unique<MemoryFile>("f" + std::to_string(made.size()), std::vector<std::byte>()));
    }
    append_record(to_payload(example(number, number % 10)), made.back()->content);
  }
  return made;
}

ImageOptions options() {
  return {.height = kSide,
          .width = kSide,
          .statistics = kPlain,
          .augmentation = {.padding = 2},
          .seed = 7,
          .block_bytes = 1000,
          .window_blocks = 2};
}

DataFiles as_data(std::vector<std::unique_ptr<MemoryFile>> from) {
  return {std::make_move_iterator(from.begin()), std::make_move_iterator(from.end())};
}

std::shared_ptr<ImageSource> source_of(std::vector<std::unique_ptr<MemoryFile>> training,
                                       const ImageOptions& with = options(), int threads = 1) {
  return testing::source_of_records(as_data(std::move(training)), as_data(files(12, 6)), with, threads).value();
}

const std::uint8_t* pixels_of(const core::Batch& batch) {
  return reinterpret_cast<const std::uint8_t*>(batch.inputs()[0].data());
}
const std::int32_t* classes_of(const core::Batch& batch) {
  return reinterpret_cast<const std::int32_t*>(batch.inputs()[1].data());
}
// Of the image in a row: its brightest pixel is not of the black border.
std::int64_t number_of(const core::Batch& batch, std::int64_t row) {
  const std::uint8_t* first = pixels_of(batch) + row * kPixels;
  return std::lround((*std::max_element(first, first + kPixels) - 20) / 10.0);
}

TEST(ImageSource, an_epoch_holds_every_image_once_with_its_class) {
  const auto source = source_of(files(0, 12));
  EXPECT_EQ(source->samples(), 12);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t position = 12 * epoch; position < 12 * (epoch + 1); position += 4) {
      const core::Batch batch = source->take(position, 4, kGoOn).value();
      ASSERT_EQ(batch.inputs()[0].size(), size_t{4 * kPixels});
      ASSERT_NE(batch.pixels(), nullptr);
      ASSERT_EQ(batch.inputs()[1].size(), 4 * sizeof(std::int32_t));
      for (std::int64_t row = 0; row < 4; ++row) {
        seen.insert(number_of(batch, row));
        EXPECT_EQ(classes_of(batch)[row], number_of(batch, row) % 10);
      }
    }
    EXPECT_EQ(seen.size(), 12U);
    EXPECT_EQ(*seen.rbegin(), 11);
  }
}

TEST(ImageSource, a_position_has_the_same_bytes_in_any_batch_on_any_rank_and_ahead) {
  const auto one = source_of(files(0, 12)), other = source_of(files(0, 12));
  const auto prefetcher = Prefetcher::start(other, {.threads = 3}).value();
  prefetcher->aim({.end = 1, .rows = 6});
  std::set<std::vector<std::byte>> different;
  for (std::int64_t step = 0; step < 8; ++step) {
    const core::Batch batch = one->take(6 * step, 6, kGoOn).value();
    EXPECT_EQ(content_of(batch), content_of(prefetcher->take(6 * step, 6, kGoOn).value()));
    const core::Batch last = other->take(6 * step + 5, 1, kGoOn).value();
    EXPECT_TRUE(std::equal(pixels_of(last), pixels_of(last) + kPixels, pixels_of(batch) + 5 * kPixels));
    different.insert(content_of(batch));
  }
  EXPECT_EQ(different.size(), 8U) << "each epoch sees the images in another way";
}

TEST(ImageSource, fewer_held_out_images_are_drawn_from_all_files_and_classes) {
  ImageOptions some = options();
  some.most_held_out = 20;
  const auto source = testing::source_of_records(as_data(files(0, 4)), as_data(files(0, 23)), some).value();
  EXPECT_EQ(source->held_out(), 20);
  some.most_held_out = 6;
  const auto few = testing::source_of_records(as_data(files(0, 4)), as_data(files(0, 20)), some).value();
  const core::Batch batch = few->take_held_out(0, 6, kGoOn).value();
  std::set<std::int32_t> classes(classes_of(batch), classes_of(batch) + 6);
  EXPECT_GT(classes.size(), 3U);
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 0; row < 6; ++row) numbers.push_back(number_of(batch, row));
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(ImageSource, other_records_have_another_fingerprint) {
  const auto one = source_of(files(0, 12)), same = source_of(files(0, 12)), other = source_of(files(0, 11));
  EXPECT_EQ(one->fingerprint(), same->fingerprint());
  EXPECT_NE(one->fingerprint(), other->fingerprint());
  ImageOptions fewer = options();
  fewer.most_held_out = 2;
  EXPECT_EQ(one->fingerprint(), source_of(files(0, 12), fewer)->fingerprint()) << "held-out images are no part of it";
}

TEST(ImageSource, held_out_images_come_in_order_and_as_they_are) {
  const auto source = source_of(files(0, 12));
  EXPECT_EQ(source->held_out(), 6);
  const core::Batch batch = source->take_held_out(4, 4, kGoOn).value();
  const std::int64_t expected[] = {16, 17, 17, 17};
  for (std::int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(number_of(batch, row), expected[row]);
    const std::uint8_t* first = pixels_of(batch) + row * kPixels;
    EXPECT_GT(*std::min_element(first, first + kPixels), 100) << "no black border";
  }
}

// The error of reading all images once, or how many were read.
std::string outcome(ImageSource& source) {
  for (std::int64_t position = 0; position < source.samples(); ++position) {
    const auto batch = source.take(position, 1, kGoOn);
    if (!batch) return batch.error().message;
  }
  return std::to_string(source.samples());
}

TEST(ImageSource, a_label_or_size_that_the_options_do_not_have_is_never_skipped) {
  ImageOptions skips = options();
  skips.on_damage = OnDamage::kSkip;
  for (const ImageOptions& with : {options(), skips}) {
    auto labels = files(0, 4);
    const std::string offset = std::to_string(labels[0]->content.size());
    append_record(to_payload(example(4, 10)), labels[0]->content);
    const auto source = source_of(std::move(labels), with);
    EXPECT_EQ(outcome(*source), "data 'f0' at offset " + offset + ": the label 10 is not between 0 and 9");
    auto sizes = files(0, 4);
    append_record(to_payload(example(4, 4, 9)), sizes[0]->content);
    EXPECT_EQ(outcome(*source_of(std::move(sizes), with)),
              "data 'f0' at offset " + offset + ": the image has 9 x 9 pixels, not 8 x 8");
  }
  ImageOptions from_one = options();
  from_one.first_label = 1;
  from_one.classes = 1000;
  EXPECT_EQ(outcome(*source_of(files(0, 4), from_one)).substr(23), "the label 0 is not between 1 and 1000");
}

// Twelve images in three files. Record 1 of the second file has a wrong byte, and record 2 is an intact record of a
// damaged JPEG. The length of the last record of the third file has a wrong byte.
std::vector<std::unique_ptr<MemoryFile>> damaged_files() {
  auto made = files(0, 12);
  auto& content = made[1]->content;
  content.clear();
  append_record(to_payload(example(4, 4)), content);
  const size_t second = content.size();
  append_record(to_payload(example(5, 5)), content);
  content[second + 40] ^= std::byte{1};
  ImageExample half = example(6, 6);
  half.encoded.resize(half.encoded.size() / 2);
  append_record(to_payload(half), content);
  append_record(to_payload(example(7, 7)), content);
  std::vector<std::byte> last;
  append_record(to_payload(example(11, 1)), last);
  made[2]->content[made[2]->content.size() - last.size()] ^= std::byte{1};
  return made;
}

TEST(ImageSource, what_is_not_damage_is_never_skipped) {
  ImageOptions skips = options();
  skips.on_damage = OnDamage::kSkip;
  auto other_data = files(0, 4);
  const std::string offset = std::to_string(other_data[0]->content.size());
  append_record({}, other_data[0]->content);  // a tf.Example without features
  EXPECT_EQ(
      outcome(*source_of(std::move(other_data), skips)),
      "data 'f0' at offset " + offset + ": the tf.Example has no feature 'image/encoded' with one string of bytes");
  auto cut = files(0, 4);
  cut[0]->content.pop_back();
  EXPECT_EQ(testing::source_of_records(as_data(std::move(cut)), {}, skips).error().code, ErrorCode::kInvalid);
  auto changing = damaged_files();
  const auto changed = changing[1].get();
  const auto source = source_of(std::move(changing), skips);
  changed->written = true;
  EXPECT_EQ(outcome(*source), "data 'f1' was written to");
  EXPECT_TRUE(source->skipped().size() == 1) << "the length that was damaged at the start";
}

TEST(ImageSource, damage_is_fatal_with_file_and_offset_if_asked) {
  auto with_damage = damaged_files();
  EXPECT_EQ(testing::source_of_records(as_data(damaged_files()), {}, options()).error().code, ErrorCode::kCorrupt);
  with_damage.pop_back();
  const auto source = source_of(std::move(with_damage));
  for (std::int64_t position = 0; position < 8; ++position) {
    const auto batch = source->take(position, 1, kGoOn);
    if (batch) continue;
    EXPECT_EQ(batch.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(batch.error().message.rfind("data 'f1' at offset ", 0), 0U) << batch.error().message;
  }
  EXPECT_NE(outcome(*source), "8");
}

TEST(ImageSource, skipped_damage_is_replaced_by_the_next_intact_image_on_every_rank) {
  ImageOptions skips = options();
  skips.on_damage = OnDamage::kSkip;
  const auto one = source_of(damaged_files(), skips), other = source_of(damaged_files(), skips);
  EXPECT_EQ(one->samples(), 11);
  std::multiset<std::int64_t> seen;
  for (std::int64_t position = 0; position < 11; ++position) {
    const core::Batch batch = one->take(position, 1, kGoOn).value();
    seen.insert(number_of(batch, 0));
    EXPECT_EQ(classes_of(batch)[0], number_of(batch, 0) % 10) << "the label is that of the image";
  }
  EXPECT_EQ(seen, (std::multiset<std::int64_t>{0, 1, 2, 3, 4, 7, 7, 7, 8, 9, 10}));
  for (std::int64_t position = 10; position >= 0; --position) {
    EXPECT_EQ(content_of(other->take(position, 1, kGoOn).value()), content_of(one->take(position, 1, kGoOn).value()));
  }
  std::map<std::pair<std::string, std::uint64_t>, std::string> damage[2];  // by file and offset
  for (const Damage& each : one->skipped()) damage[0][{each.file, each.offset}] = each.why;
  for (const Damage& each : other->skipped()) damage[1][{each.file, each.offset}] = each.why;
  EXPECT_EQ(damage[0], damage[1]);
  EXPECT_EQ(one->skipped(2).front().why, one->skipped().back().why);
  EXPECT_TRUE(one->skipped(3).empty());
  std::vector<std::string> sentences;
  for (const auto& [place, why] : damage[0]) {
    EXPECT_EQ(why.rfind("data '" + place.first + "' at offset " + std::to_string(place.second) + ": ", 0), 0U) << why;
    sentences.push_back(why);
  }
  ASSERT_EQ(sentences.size(), 3U) << ::testing::PrintToString(sentences);
  EXPECT_NE(sentences[0].find("the checksum of a record's bytes does not fit"), std::string::npos);
  EXPECT_NE(sentences[1].find("the JPEG cannot be decoded: "), std::string::npos);
  EXPECT_NE(sentences[2].find("the checksum of a record's length does not fit"), std::string::npos);
}

TEST(ImageSource, files_without_an_intact_record_end_with_an_error) {
  ImageOptions skips = options();
  skips.on_damage = OnDamage::kSkip;
  auto bad = files(0, 2);
  for (size_t at : {size_t{20}, bad[0]->content.size() - 20}) bad[0]->content[at] ^= std::byte{1};
  EXPECT_EQ(source_of(std::move(bad), skips)->take(0, 1, kGoOn).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(testing::source_of_records({}, {}, options()).error().message, "the training data has no images");
}

TEST(ImageSource, an_outage_of_the_storage_costs_no_sample) {
  auto flaky = files(0, 4);
  const MemoryFile& file = *flaky[0];
  ImageOptions skips = options();
  skips.on_damage = OnDamage::kSkip;
  const auto source = source_of(std::move(flaky), skips), steady = source_of(files(0, 4));
  for (std::int64_t position = 0; position < 8; ++position) {
    file.outages = 2;
    EXPECT_EQ(content_of(source->take(position, 1, kGoOn).value()),
              content_of(steady->take(position, 1, kGoOn).value()));
  }
  EXPECT_TRUE(source->skipped().empty());
}

TEST(ImageSource, abort_ends_a_take_that_waits_for_storage) {
  auto dead = files(0, 4);
  const MemoryFile& file = *dead[0];
  const auto source = source_of(std::move(dead));
  const int before = file.reads;
  file.outages = 1000000;
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    while (file.reads == before) std::this_thread::yield();
    abort.store(true);
    source->wake();
  });
  EXPECT_EQ(source->take(0, 1, abort).error().code, ErrorCode::kCancelled);
  aborts.join();
}

TEST(ImageSource, a_read_that_hangs_ends_the_indexing_with_an_error) {
  auto hanging = files(0, 8);
  MemoryFile& file = *hanging[1];
  file.hangs = true;
  ImageOptions impatient = options();
  impatient.patience = std::chrono::milliseconds(30);
  const auto source = testing::source_of_records(as_data(std::move(hanging)), {}, impatient);
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(source.error().message, "reading data 'f1' at offset 0 has not ended for 0 s; the storage does not answer");
  file.release();
}

TEST(ImageSource, a_read_that_hangs_is_told_while_its_thread_waits) {
  auto hanging = files(0, 4);
  MemoryFile& file = *hanging[0];
  ImageOptions impatient = options();
  impatient.patience = std::chrono::milliseconds(30);
  const auto source = source_of(std::move(hanging), impatient);
  EXPECT_TRUE(source->answers().ok());
  file.hangs = true;
  const auto prefetcher = Prefetcher::start(source, {.threads = 2}).value();
  EXPECT_EQ(prefetcher->take(0, 4, kGoOn).error().code, ErrorCode::kDeadlineExceeded);
  file.release();
}

TEST(ImageSource, has_the_same_order_and_samples_for_every_number_of_threads) {
  std::vector<std::byte> expected;
  for (const int threads : {1, 2, 5}) {
    ImageOptions with = options();
    with.on_damage = OnDamage::kSkip;
    const auto source = source_of(damaged_files(), with, threads);
    const auto prefetcher = Prefetcher::start(source, {.threads = threads}).value();
    prefetcher->aim({.end = 1, .rows = 20});
    std::vector<std::byte> all;
    for (std::int64_t batch = 0; batch < 5; ++batch) {
      const auto content = content_of(prefetcher->take(20 * batch, 20, kGoOn).value());
      all.insert(all.end(), content.begin(), content.end());
    }
    const auto held_out = content_of(prefetcher->take_held_out(0, 20, kGoOn).value());
    all.insert(all.end(), held_out.begin(), held_out.end());
    if (threads == 1) expected = all;
    EXPECT_TRUE(all == expected) << threads << " threads";
    EXPECT_EQ(source->skipped().size(), 3U);
  }
}

TEST(ImageSource, cifar_is_read_whole_and_normalised) {
  const auto folder = testing::real_data();
  if (!folder) GTEST_SKIP() << "LOCKSTEP_TEST_DATA names no folder";
  DataFiles training, held_out;
  for (int i = 0; i < 4; ++i) {
    const std::string path = *folder + "/cifar10/train-0000" + std::to_string(i) + "-of-00004.tfrecord";
    training.push_back(open_data_file(path).value());
  }
  held_out.push_back(open_data_file(*folder + "/cifar10/test-00000-of-00001.tfrecord").value());
  const auto source =
      testing::source_of_records(std::move(training), std::move(held_out), {.augmentation = {.padding = 0}}).value();
  EXPECT_EQ(source->samples(), 10000);
  EXPECT_EQ(source->held_out(), 2000);
  std::vector<int> images_of_class(10);
  double sum = 0, squares = 0, count = 0;
  for (std::int64_t position = 0; position < source->samples(); position += 100) {
    const auto batch = source->take(position, 100, kGoOn);
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    for (size_t row = 0; row < 100; ++row) ++images_of_class[static_cast<size_t>(classes_of(*batch)[row])];
    for (size_t i = 0; i < 100 * 32 * 32 * 3; ++i) {
      sum += pixels_of(*batch)[i];
      squares += pixels_of(*batch)[i] * pixels_of(*batch)[i];
      count += 1;
    }
  }
  EXPECT_EQ(images_of_class, std::vector<int>(10, 1000));
  EXPECT_NEAR(sum / count, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / count), 1, 0.03);
  EXPECT_TRUE(source->take_held_out(1950, 100, kGoOn).ok());
}

}  // namespace
}  // namespace lockstep::trainer::data
