// Text as samples for a language model: windows of a fixed number of characters, each character's target the next one.
// The windows of an epoch tile the text without overlap; each epoch shifts the tiling by a keyed amount.
#pragma once

#include "trainer/data/row_source.h"
#include "trainer/data/text.h"

namespace lockstep::trainer::data {

class TextSource final : public RowSource {
 public:
  // `held_out`: at most this many held-out windows, spread evenly; 0: all. kInvalid: the text is too short for one
  // window of `context` characters in both parts. kCorrupt: a token is not in the vocabulary; the sentence names its
  // file and offset. The text must outlive the source.
  static Result<TextSource> create(const Text& text, std::int64_t context, std::uint64_t seed, std::int64_t held_out);

  std::int64_t windows() const { return windows_; }  // samples of an epoch

  // Inputs: characters and targets, both int32 (rows, context).
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override;
  std::int64_t held_out() const override { return held_out_; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override;

 private:
  TextSource(const Text& text, std::int64_t context, std::uint64_t seed);
  void write_window(const std::uint8_t* from, std::int64_t row, std::span<void* const> inputs) const;

  const Text* text_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::int64_t windows_ = 0;
  std::int64_t held_out_ = 0;
  std::int64_t held_out_windows_ = 0;
};

}  // namespace lockstep::trainer::data
