#include "operator/rendezvous/limits.h"

#include <nlohmann/json.hpp>

namespace lockstep::rendezvous {
namespace {

// At most `most` bytes, and no part of a UTF-8 character at the end.
std::string_view whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

std::string clipped(std::string_view text, std::size_t most) {
  using Json = nlohmann::json;
  // What JSON cannot carry is replaced by what is longer: before it is measured.
  const Json sent(std::string(whole_characters(text, most)));
  const auto arrives = Json::parse(sent.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  return std::string(whole_characters(arrives, most));
}

}  // namespace lockstep::rendezvous
