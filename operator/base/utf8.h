// Text as bytes of UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// The beginning of `text`: at most `most` bytes, without a partial character at the end.
inline std::string whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // inside a character
  return std::string(text.substr(0, end));
}

}  // namespace lockstep
