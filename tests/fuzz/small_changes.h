// Small random changes of a text, for tests that run a fuzz target without a fuzzer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace lockstep {

// Up to four changes of `text`: erases, copies, inserts or replaces at most `most` characters; new ones are of
// `alphabet`.
inline std::string with_small_changes(std::string text, std::string_view alphabet, std::size_t most,
                                      std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t n = below(4); n < 4 && !text.empty(); ++n) {
    const std::size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(most));
    switch (below(4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, 1, alphabet[below(alphabet.size())]);
        break;
      case 2:
        text[at] = alphabet[below(alphabet.size())];
        break;
      default:
        text.insert(below(text.size()), text.substr(at, length));
        break;
    }
  }
  return text;
}

}  // namespace lockstep
