#include "trainer/data/text_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/core/random.h"
#include "trainer/data/sampler.h"

namespace lockstep::trainer::data {

namespace {

// A model has one row of its tables for each character of the vocabulary. Checks one part of the text.
Status check_tokens(const Text& text, bool held_out) {
  const std::vector<std::uint8_t>& tokens = held_out ? text.held_out : text.training;
  auto wrong =
      std::find_if(tokens.begin(), tokens.end(), [&](size_t token) { return token >= text.vocabulary.size(); });
  if (wrong == tokens.end()) return {};
  auto offset = static_cast<size_t>(wrong - tokens.begin());
  auto file = text.files.begin();
  auto share = [&] { return held_out ? file->held_out : file->training; };
  for (; offset >= share() && file + 1 != text.files.end(); ++file) offset -= share();
  if (held_out) offset += file->training;
  return fail(ErrorCode::kCorrupt,
              fmt::format("data '{}' at offset {}: the token {} is not in the vocabulary of {} characters", file->path,
                          offset, *wrong, text.vocabulary.size()));
}

}  // namespace

TextSource::TextSource(const Text& text, std::int64_t context, std::uint64_t seed)
    : RowSource(std::vector<size_t>(2, static_cast<size_t>(context) * sizeof(std::int32_t))),
      text_(&text),
      context_(context),
      seed_(seed) {}

Result<TextSource> TextSource::create(const Text& text, std::int64_t context, std::uint64_t seed,
                                      std::int64_t held_out) {
  TextSource source(text, context, seed);
  // A window needs one character more than it has, as the last target; the shift may skip context - 1 characters.
  source.windows_ = (static_cast<std::int64_t>(text.training.size()) - context) / context;
  source.held_out_windows_ = (static_cast<std::int64_t>(text.held_out.size()) - 1) / context;
  if (source.windows_ < 1 || source.held_out_windows_ < 1) {
    auto all = text.training.size() + text.held_out.size();
    return fail(ErrorCode::kInvalid,
                fmt::format("the data in '{}' is too short: it has {} characters, and a context of {} needs about {}",
                            text.files.front().path, all, context, 11 * (context + 1)));
  }
  for (bool part : {false, true}) LOCKSTEP_CHECK_OK(check_tokens(text, part));
  source.held_out_ = held_out == 0 ? source.held_out_windows_ : std::min(held_out, source.held_out_windows_);
  return source;
}

void TextSource::write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const {
  Place place = place_of(position, windows_, seed_);
  std::uint64_t shift = core::derive(core::derive(seed_, "shift"), static_cast<std::uint64_t>(place.epoch)) %
                        static_cast<std::uint64_t>(context_);
  write_window(text_->training.data() + shift + place.sample * context_, row, inputs);
}

void TextSource::write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const {
  std::int64_t window = index * held_out_windows_ / held_out_;
  write_window(text_->held_out.data() + window * context_, row, inputs);
}

void TextSource::write_window(const std::uint8_t* from, std::int64_t row, std::span<void* const> inputs) const {
  auto* characters = static_cast<std::int32_t*>(inputs[0]) + row * context_;
  auto* targets = static_cast<std::int32_t*>(inputs[1]) + row * context_;
  std::copy_n(from, context_, characters);
  std::copy_n(from + 1, context_, targets);
}

}  // namespace lockstep::trainer::data
