#include "trainer/data/image_records.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/core/random.h"
#include "trainer/data/attended.h"

namespace lockstep::trainer::data {

Result<std::shared_ptr<ImageRecords>> ImageRecords::index(DataFiles files, const IndexOptions& options) {
  // A thread that hangs may be left behind, so it owns where it writes.
  const std::shared_ptr<ImageRecords> store(new ImageRecords(std::move(files)));
  const auto reader = std::make_shared<PatientReader>(options.patience);
  auto index = [store, reader, fails = options.on_damage == OnDamage::kFail](std::size_t i) -> Status {
    const std::atomic<bool> never{false};  // nothing interrupts a trainer that has no peers yet
    LOCKSTEP_TRY(store->indexes_[i], index_records(*store->files_[i], *reader, never));
    if (store->indexes_[i].damage && fails) return *store->indexes_[i].damage;
    return {};
  };
  LOCKSTEP_CHECK_OK(attend(store->files_.size(), options.threads, index, [&] { return reader->answers(); }));
  for (std::size_t i = 0; i < store->files_.size(); ++i) {
    for (const Record& record : store->indexes_[i].records) store->records_.push_back({i, record});
  }
  return store;
}

std::uint64_t ImageRecords::fingerprint() const {
  std::uint64_t key = core::derive(0, "images");
  for (const Located& at : records_) {
    key = core::derive(core::derive(core::derive(key, at.file), at.record.offset), at.record.end());
  }
  return key | 1;
}

std::uint64_t ImageRecords::version() const {
  std::uint64_t key = fingerprint();
  for (const auto& file : files_) key = mix_in(key, file->path(), file->state());
  return key;
}

Status ImageRecords::read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
                          StoredImage& to) const {
  LOCKSTEP_CHECK_OK(read_record(file(number), records_[number].record, reader, abort, to.payload));
  auto example = parse_image_example(to.payload);
  if (!example) return example.error().in(where(number));
  to.example = std::move(*example);
  return {};
}

std::string ImageRecords::where(std::size_t number) const {
  return fmt::format("data '{}' at offset {}", path(number), offset(number));
}

std::vector<Damage> ImageRecords::damage_at_opening() const {
  std::vector<Damage> all;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const RecordIndex& index = indexes_[i];
    if (!index.damage) continue;
    all.push_back({.file = files_[i]->path(),
                   .offset = index.records.empty() ? 0 : index.records.back().end(),
                   .why = index.damage->message});
  }
  return all;
}

}  // namespace lockstep::trainer::data
