// Text files as one stream of characters for training and one for evaluation. The vocabulary is the bytes that occur.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::data {

inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;  // the text is held in memory

struct Text {
  std::vector<unsigned char> vocabulary;  // sorted; token t is the byte vocabulary[t]
  std::vector<std::uint8_t> training;     // tokens: the first nine tenths of each file, in order
  std::vector<std::uint8_t> held_out;     // tokens: the last tenth of each file
  std::vector<std::string> files;         // that were read
  std::uint64_t fingerprint = 0;          // of all of the above: the same text has the same
};

// `paths`: files, or folders whose regular files are read in order of name, without those below. A file that is there
// under two names (a link) is read once. kNotFound: a path is not there; kInvalid: nothing but empty files; kForbidden,
// kUnavailable: cannot be read; kExhausted: more than kMaxTextBytes. The sentence names the path.
Result<Text> read_text(const std::vector<std::string>& paths);

// The bytes of tokens.
std::string to_string(const Text& text, const std::vector<std::uint8_t>& tokens);

}  // namespace lockstep::trainer::data
