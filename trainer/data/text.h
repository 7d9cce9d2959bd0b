// Text files as one stream of characters for training and one for evaluation. The vocabulary is the bytes that occur.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::data {

inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;  // the text is held in memory

struct TextFile {
  std::string path;
  size_t training = 0;  // its share of Text::training, from its first byte
  size_t held_out = 0;  // its share of Text::held_out, from there to its last byte
};

struct Text {
  std::vector<unsigned char> vocabulary;  // sorted; token t is the byte vocabulary[t]
  std::vector<std::uint8_t> training;     // tokens: the first nine tenths of each file, in order
  std::vector<std::uint8_t> held_out;     // tokens: the last tenth of each file
  std::vector<TextFile> files;            // that were read, in order
  std::uint64_t fingerprint = 0;          // of all of the above: the same text has the same
};

// `paths`: files, or folders whose regular files are read in order of name, without subfolders. A file with two names
// (a link) is read once. kNotFound: a path does not exist; kInvalid: all files are empty; kForbidden, kUnavailable:
// cannot be read; kExhausted: more than kMaxTextBytes. The sentence names the path.
Result<Text> read_text(const std::vector<std::string>& paths);

// The bytes of tokens.
std::string to_string(const Text& text, const std::vector<std::uint8_t>& tokens);

// The tokens of bytes. kInvalid: the text has no such character; the sentence names it.
Result<std::vector<std::uint8_t>> to_tokens(const Text& text, const std::string& bytes);

// Text for a model to continue.
struct Opening {
  std::vector<std::uint8_t> tokens;  // not empty, as long as the held-out text is not
  size_t shown = 0;                  // this many of the last tokens are the first word of the output
};

// Held-out text: at most `most` tokens that end after the first word of a sentence, inside a paragraph of prose; in a
// text without sentences after the first word of a line. `seed` picks the place.
Opening start_of_a_sentence(const Text& text, size_t most, std::uint64_t seed);

}  // namespace lockstep::trainer::data
